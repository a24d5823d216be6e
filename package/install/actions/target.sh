# Selects and locks the target folder. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

# Target folder: the option, else ASCEND_CUSTOM_OPP_PATH, else the toolkit.
target="$install_path"
if [ -n "$target" ]; then
    origin=--install-path
elif [ -n "${ASCEND_CUSTOM_OPP_PATH:-}" ]; then
    target="$ASCEND_CUSTOM_OPP_PATH" origin=ASCEND_CUSTOM_OPP_PATH
elif [ -n "${ASCEND_OPP_PATH:-}" ]; then
    target="$ASCEND_OPP_PATH" origin=ASCEND_OPP_PATH
    [ -d "$target" ] || [ "$action" = verify ] ||
        refuse "ASCEND_OPP_PATH: got '$target', which is not a folder; source the set_env.sh of the toolkit, or give --install-path=FOLDER"
fi

if [ "$action" = verify ] && [ -z "$install_path" ]; then
    target=
else
    [ -n "$target" ] ||
        refuse 'no target: give --install-path=FOLDER, or set ASCEND_CUSTOM_OPP_PATH or ASCEND_OPP_PATH'
    case "$target" in
        *:* | *'
'*) refuse "$origin: got '$target', expected one folder, without a colon or line break; give --install-path=FOLDER" ;;
        /*) ;;
        *) refuse "$origin: got '$target', expected an absolute path; give --install-path=FOLDER" ;;
    esac
    target="${target%/}"
    if [ "${#target}" -gt 3000 ] ||
        { [ "${#target}" -gt 255 ] && printf '%s\n' "$target" | tr '/' '\n' | grep -q '.\{256\}'; }; then
        refuse "$origin: got a path of ${#target} bytes, expected at most 3000, 255 between two '/'; choose another folder"
    fi
    # set_env.bash adds the vendor folder to ASCEND_CUSTOM_OPP_PATH; install the package beside that folder, not inside
    # it.
    if [ -d "$target/op_proto" ] || [ -d "$target/op_impl" ]; then
        refuse "$origin: '$target' is itself an installed package, expected the folder above 'vendors'; give --install-path=${target%/vendors/*}"
    fi
    [ ! -d "$target/opp/built-in" ] ||
        refuse "$origin: '$target' is a toolkit, expected its folder opp; give --install-path=$target/opp"
    case "$action$target" in
        install*/vendors) refuse "$origin: got '$target', expected the folder above 'vendors'; give --install-path=${target%/vendors}" ;;
    esac
    vendors="$target/vendors"
    installed="$vendors/$vendor"
    build="$(build_folder "$vendors" "$vendor")"
    work="$(work_folder "$vendors" "$vendor")"
    for path in "$vendors" "$installed" "$build" "$work" "$(kept_version "$vendors" "$vendor")"; do
        [ ! -h "$path" ] || refuse "$path is a link and may lead out of the target; remove it or choose another folder"
    done
    readable "$target" "$vendors" "$installed"
    [ "$action" = verify ] || [ ! -d "$vendors" ] || lock "$vendors"
fi

recovered=
say_recovered() {
    # Without a lock, the folder did not exist; if it exists now, another installer created it.
    [ "${locked:-}" = 1 ] || return 0
    recovered="$(recover "$vendors" "$vendor")"
    say_lines "$recovered"
}
