# Installs the package: builds, copies, and replaces the installed version in one step. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

# If the script ends early for any reason, the target stays unchanged.
switched=0
undo() {
    [ "${locked:-}" = 1 ] || return 0
    if [ "$switched" = 1 ]; then
        if [ -e "$next" ]; then exchange "$next" "$installed" || :; else mv -- "$installed" "$next"; fi
    fi
    recover "$vendors" "$vendor" >/dev/null || :
    rmdir -- "$build" "$vendors" 2>/dev/null || :
}
trap undo EXIT
mkdir -p -- "$vendors" 2>/dev/null || refuse "$vendors cannot be made; choose a folder that you may write, with --install-path=FOLDER"
lock "$vendors"
[ "$is_first" = 0 ] || [ ! -e "$installed" ] || refuse "another installer has just installed $vendor in $vendors; run this again"

# The build runs before any visible change. Its finished steps stay beside the target for the next run.
if [ "$will_build" = 1 ]; then
    mkdir -p -- "$build" 2>/dev/null || refuse "$vendors cannot be written; choose another folder with --install-path=FOLDER"
    say "building $vendor with CANN $toolkit_is in $toolkit (this was not run with a real toolkit); logs in $build/logs"
    status=0
    set -- --package "$package" --work "$build" --toolkit "$toolkit"
    [ "$quiet" = 0 ] || set -- "$@" --quiet
    # Python searches for modules in the current folder unless this variable prevents it.
    (unset PYTHONSAFEPATH && cd -- "$package/scripts" && exec setsid python3 -B -m cann "$@") &
    builder=$!
    wait "$builder" || status=$?
    builder=
    if [ "$status" != 0 ]; then
        stays=
        rmdir -- "$build" 2>/dev/null || stays="; the finished steps stay in $build for the next run, with the logs in $build/logs"
        complain "nothing was installed$stays; --no-build installs the sources only"
        exit "$status"
    fi
fi

begin_work "$work"
stage="$work/new"
mkdir -- "$stage" 2>/dev/null || refuse "$vendors cannot be written; choose another folder with --install-path=FOLDER"

problem="$(cp -R -- "$package/." "$stage/" 2>&1)" ||
    refuse "copying to $vendors failed; nothing was installed: $(printf '%s\n' "$problem" | head -n 1)"
if [ "$will_build" = 1 ]; then
    problem="$(cp -R -- "$build/tree/." "$build/built.json" "$stage/" 2>&1)" ||
        refuse "copying to $vendors failed; nothing was installed: $(printf '%s\n' "$problem" | head -n 1)"
fi
# One file with two names (a hard link): a process that opens both, such as GE with CANN's Python code, opens one
# library. If the system has no hard links, the second file stays a copy.
tiling="$stage/op_impl/ai_core/tbe/op_tiling"
for library in "$tiling"/lib/linux/*/libcust_opmaster_rt2.0.so; do
    [ ! -f "$library" ] || ! cmp -s "$library" "$tiling/liboptiling.so" || ln -f -- "$library" "$tiling/liboptiling.so" 2>/dev/null || :
done
if [ "$machine_wide" = 0 ]; then
    # Works in every POSIX shell. It adds each entry once and no empty entry.
    mkdir -- "$stage/bin"
    cat >"$stage/bin/set_env.bash" <<TEXT
# Makes the operators of $vendor visible to the processes of this shell.
_opp_vendor=$(in_quotes "$installed")
case ":\${ASCEND_CUSTOM_OPP_PATH:-}:" in
    *":\$_opp_vendor:"*) ;;
    *) export ASCEND_CUSTOM_OPP_PATH="\$_opp_vendor\${ASCEND_CUSTOM_OPP_PATH:+:\$ASCEND_CUSTOM_OPP_PATH}" ;;
esac
case ":\${LD_LIBRARY_PATH:-}:" in
    *":\$_opp_vendor/op_api/lib:"*) ;;
    *) export LD_LIBRARY_PATH="\$_opp_vendor/op_api/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" ;;
esac
unset _opp_vendor
TEXT
fi
# The list also includes the files that an installation creates; their lines replace packed lines with the same name.
{
    [ "$will_build" = 0 ] || cat "$build/built.sums"
    [ "$machine_wide" = 1 ] || (cd -- "$stage" && sha256_of bin/set_env.bash)
    cat "$package/SHA256SUMS"
} | merged_lists >"$stage/SHA256SUMS" || refuse "copying to $vendors failed; nothing was installed"
read_mode=640 run_mode=750
[ "$for_all" = 0 ] || read_mode=644 run_mode=755
find "$stage" -type d -exec chmod "$run_mode" {} + -o -type f -exec chmod "$read_mode" {} +
chmod "$run_mode" "$stage/scripts/uninstall.sh"
verify_tree "$stage" || refuse "the copy in $vendors differs from the package; is the disk full? Nothing was installed"

# The switch. If two folders cannot be exchanged in one step, the old folder is moved away first.
commit
next="$work/next.$(inode_of "$stage")" previous=
mv -- "$stage" "$next"
if [ -e "$installed" ] && exchange "$next" "$installed"; then
    previous="$next"
else
    [ ! -e "$installed" ] || { previous="$work/old" && mv -- "$installed" "$previous"; }
    mv -- "$next" "$installed"
fi
switched=1
[ "$machine_wide" = 0 ] || prefer_vendor "$config" "$vendor" "$work"
trap - EXIT
open_to_all
[ -z "$previous" ] || keep_version "$vendors" "$vendor" "$previous"

end_work "$work"
remove_build "$build"

after="To use the operators"
later="install the package again with --cann=FOLDER"
if [ "$will_build" = 1 ]; then
    state="It was built with CANN $toolkit_is; opforge's own build was not run with a real toolkit. The log is $installed/build.log."
elif [ "$is_built" = 1 ]; then
    state="It is a $(info "$package" note)."
else
    [ "$no_build" = 0 ] || later="install the package again without --no-build"
    why=
    [ -n "$toolkit" ] || why="No CANN toolkit was found. "
    state="${why}Only the sources are installed. aclnn calls, ATC and torch_npu cannot use the operators yet. To build them, $later."
    after="After the build"
fi
say "$vendor $version ($operators) is installed in $installed. $state"
[ -z "$disappears" ] || say "Removed: ${disappears% }."
if [ "$machine_wide" = 1 ]; then
    say "$vendor comes first in $vendors/config.ini."
else
    say "$after, run in each shell: source $(in_quotes "$installed/bin/set_env.bash")"
fi
say "To remove it: sh $(in_quotes "$installed/scripts/uninstall.sh")"
