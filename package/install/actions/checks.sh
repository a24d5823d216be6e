# Decides whether the package can be installed, before the first write. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

require_payload

# A toolkit folder is visible to all processes of the machine, even if it was given by an option.
machine_wide=0
if [ -d "$target/built-in" ]; then
    machine_wide=1
elif [ -n "${ASCEND_OPP_PATH:-}" ] && [ -d "$target" ] && [ -d "$ASCEND_OPP_PATH" ] &&
    [ "$(CDPATH='' cd -- "$target" && pwd -P)" = "$(CDPATH='' cd -- "$ASCEND_OPP_PATH" && pwd -P)" ]; then
    machine_wide=1
fi
config="$vendors/config.ini"
if [ "$machine_wide" = 1 ] && [ -e "$config" ] && { [ ! -f "$config" ] || [ ! -r "$config" ]; }; then
    refuse "$config is not a file that $(user) may read, expected the list of vendors; nothing was done; repair it, or give --install-path=FOLDER"
fi
hidden=
[ "$machine_wide$replace_builtin" != 10 ] ||
    hidden="$(info_lines "$package" builtin_op_types | sed 's/^/  op type /' && info_lines "$package" builtin_aclnn | sed 's/^/  aclnn symbol /')"
if [ -n "$hidden" ]; then
    complain "$target belongs to CANN; every process that uses it would get these from $vendor instead of from CANN:"
    printf '%s\n' "$hidden" | printable >&2 || :
    refuse 'use --replace-builtin to allow this, or --install-path=FOLDER to install for selected processes only'
fi

is_built=0
[ "$(info "$package" release)" = source ] || is_built=1
home="${ASCEND_HOME_PATH:-}"
if [ -z "$cann" ] && [ -n "$home" ] && [ -z "$(toolkit_version "$home")" ]; then
    wrong="ASCEND_HOME_PATH: $(no_toolkit "$home")"
    [ "$is_built$no_build" != 00 ] ||
        refuse "$wrong; nothing was done; source the set_env.sh of the toolkit, or give --cann=FOLDER or --no-build"
    say "$wrong; the CANN version was not checked"
fi

# The toolkit that runs the operators: the one that builds them, or the one for which they were built.
toolkit="$cann" toolkit_is=
for folder in "$home" "${ASCEND_OPP_PATH:+${ASCEND_OPP_PATH%/}/..}" \
    /usr/local/Ascend/ascend-toolkit/latest /usr/local/Ascend/cann /usr/local/Ascend/latest; do
    if [ -z "$toolkit" ] && [ -n "$folder" ] && [ -n "$(toolkit_version "$folder")" ]; then toolkit="$folder"; fi
done
if [ -n "$toolkit" ]; then
    toolkit_is="$(toolkit_version "$toolkit")"
    last="$(info "$package" cann)"
    first="${last%% *}" last="${last##* }"
    if is_earlier_release "$toolkit_is" "$first"; then
        [ "$force" = 1 ] ||
            refuse "the CANN in $toolkit is $toolkit_is, expected $first to $last, the range of this package; nothing was done; use a newer toolkit, or give --force"
    elif is_earlier_release "$last" "$toolkit_is" && [ "$quiet" = 0 ]; then
        supported="range $first to $last"
        [ "$first" != "$last" ] || supported="version $first"
        complain "warning: the CANN in $toolkit is $toolkit_is, newer than the supported $supported"
    fi
fi
will_build=0
[ "$is_built$no_build" != 00 ] || [ -z "$toolkit" ] || will_build=1
case "$will_build$target" in
    1*[\;\"]*) refuse "$origin: got '$target', expected a folder without ; and \" in its name, where CMake can build; nothing was done; give another one, or --no-build" ;;
esac

# Modes of the package are set explicitly below; this umask applies to its parent folders and to config.ini.
umask 027
[ "$for_all" = 0 ] || umask 022

# open_to_all: with --install-for-all, also opens folders that an earlier installation created for its group only.
open_to_all() {
    [ "$for_all" = 1 ] || return 0
    set -- "$installed"
    [ ! -e "$config" ] || set -- "$@" "$config"
    { find "$vendors" -prune ! -perm -005 -exec chmod a+rX {} + && find "$@" ! -perm -004 -exec chmod a+rX {} +; } 2>/dev/null ||
        complain "not every user can read $installed: $(user) may not change the mode of all that is in $vendors"
}

say_recovered
disappears='' before='' is_first=1
[ "$upgrade" = 0 ] || [ -f "$installed/SHA256SUMS" ] ||
    refuse "$vendor is not installed in $target, so there is nothing to upgrade; install it without --upgrade"
same=0
if [ -e "$installed" ]; then
    is_first=0
    if [ "$force" = 0 ] && [ -f "$installed/manifest.json" ] && cmp -s "$package/manifest.json" "$installed/manifest.json" && verify_tree "$installed" >/dev/null; then
        same=1
    fi
    if [ "$same" = 1 ] && { [ "$will_build" = 0 ] || [ "$(built_with "$installed")" = "$toolkit_is" ]; }; then
        if [ "$machine_wide" = 1 ] && ! is_preferred "$vendors/config.ini" "$vendor"; then
            prefer_vendor "$config" "$vendor" "$work"
            end_work "$work"
            open_to_all
            say "$vendor $version is already installed in $installed; $vendors/config.ini did not name it and does now, first"
            exit 0
        fi
        outcome='; nothing was done'
        [ "$for_all" = 0 ] || outcome=
        open_to_all
        say "$vendor $version is already installed in $installed, and all files match$outcome"
        exit 0
    fi
    if [ -f "$installed/SHA256SUMS" ]; then
        # The installed names are listed once and the new names twice, so only names that the new package lacks occur
        # once.
        disappears="$({ info_lines "$installed" operators | sort -u && info_lines "$package" operators && info_lines "$package" operators; } |
            sort | uniq -u | tr '\n' ' ')"
        if [ "$is_built$will_build" = 00 ] &&
            { [ -f "$installed/built.json" ] || [ "$(info "$installed" release)" = built ]; }; then
            disappears="${disappears}libraries and kernels that CANN built "
        fi
        disappears="$disappears$(unlisted_files "$installed" | tr '\n' ' ')"
        before="$(info "$installed" version)"
        repair="--force to replace it, or --uninstall first"
        [ -n "$disappears" ] || is_older "$version" "$before" || repair="--upgrade or $repair"
        repair="give $repair"
        old="version $before of $vendor ($(info "$installed" operators))"
    else
        disappears='all files '
        repair="give --force to replace it, or delete the folder"
        old="files of vendor $vendor without SHA256SUMS"
    fi
    if [ "$force$upgrade" = 01 ]; then
        [ -z "$disappears" ] || refuse "--upgrade: $installed has operators or files that are not in this package: ${disappears% }; use --force to replace it"
        ! is_older "$version" "$before" ||
            refuse "--upgrade: got version $version, expected one that is not older than $before; use --force --allow-downgrade to install it"
    elif [ "$force$allow_downgrade" = 10 ] && [ -n "$before" ] && is_older "$version" "$before"; then
        refuse "--force: got version $version, expected one that is not older than $before; add --allow-downgrade"
    elif [ "$force$same" = 00 ]; then
        refuse "$installed already contains $old; $repair${disappears:+; --force removes: ${disappears% }}"
    fi
fi

if [ "$will_build" = 1 ]; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null ||
        missing 'python3 (3.7 or later)' 'install it, or give --no-build'
    command -v setsid >/dev/null || missing "'setsid'" 'install util-linux, or give --no-build'
fi
