#!/bin/sh
# Installs, lists, verifies or removes the operator package in the folder of this script.
set -eu
export LC_ALL=C

# A closed stdout means that no output is wanted.
(: 3>&1) 2>/dev/null || exec >/dev/null

case "$0" in
    */*) here="${0%/*}" ;;
    *) here=. ;;
esac
here="$(CDPATH='' cd -- "${here:-/}" && pwd -P)"
for package in "$here"/packages/vendors/*; do :; done

line_break='
'
listed="$line_break$(grep '  scripts/' "$package/SHA256SUMS" 2>/dev/null)$line_break" || :

# load NAME...: sources scripts of the package. No other file is sourced.
load() {
    found="$({ cd -- "$package/scripts" && { sha256sum "$@" || shasum -a 256 "$@"; }; } 2>/dev/null)" || :
    for script in "$@"; do
        sum="${found%%"  $script"*}"
        sum="${sum##*"$line_break"}"
        case "${#sum}$listed" in
            64*"$line_break$sum  scripts/$script$line_break"*) ;;
            *)
                printf '%s\n' "the package is damaged: scripts/$script is missing or differs from SHA256SUMS; get it again" >&2
                exit 2
                ;;
        esac
    done
    for script in "$@"; do
        # shellcheck source=/dev/null
        . "$package/scripts/$script"
    done
}
load vendor_tree.sh

for tool in find cmp flock; do
    command -v "$tool" >/dev/null || missing "$tool" 'install it with the package manager of this system'
done

usage() {
    cat <<'TEXT'
usage: custom_opp_<os>_<arch>.run [options]

  (none)                 install into $ASCEND_CUSTOM_OPP_PATH (one folder), else into $ASCEND_OPP_PATH
  --install-path=FOLDER  install into FOLDER/vendors/<vendor>; FOLDER is absolute; only processes that source
                         FOLDER/vendors/<vendor>/bin/set_env.bash use it
  --install-for-all      make the files readable for all users; default: owner and group
  --cann=FOLDER          the toolkit that builds the libraries and kernels of a source release before it is installed;
                         default: $ASCEND_HOME_PATH, else the usual toolkit folders (this was not run with a real toolkit)
  --no-build             install the sources only; aclnn calls do not work until they are built
  --replace-builtin      allow operators that replace CANN's operators for all processes that use $ASCEND_OPP_PATH
  --force                replace an installed package of the same vendor; accept a CANN version older than its range
  --allow-downgrade      with --force: replace a newer version
  --trusted-keys=FILE    reject a package without a signature by a key in FILE (ALLOWED SIGNERS of ssh-keygen, or OpenPGP
                         keys); default: /etc/opforge/trusted_keys if it exists. `opforge verify` checks this installer too
  --upgrade              replace an older version of the same vendor if this package contains all of its operators
  --rollback             restore the version that the last installation replaced; use the same --install-path
  --uninstall            remove the package and the version kept for --rollback; use the same --install-path
  --extract=FOLDER       unpack the package into FOLDER, which must not exist, and install nothing
  --verify               compare the package with its manifest; with --install-path, the installed files
  --list                 print the content of the package
  --quiet                print errors only
  --help                 print this text

exit codes: 0 ok; 1 --verify found a changed installed file, or a build failed; 2 bad option or target, or a damaged package;
3 a tool is missing: nothing was changed;
129, 130, 143 ended by SIGHUP, SIGINT, SIGTERM before the target was changed; later signals have no effect
TEXT
}

# say TEXT...: prints one line per TEXT. A failed output does not undo finished work.
say() { [ "$quiet" = 1 ] || lines "$@" 2>/dev/null || :; }

# say_lines TEXT: prints all lines of TEXT.
say_lines() { [ "$quiet" = 1 ] || [ -z "$1" ] || printf '%s\n' "$1" | printable 2>/dev/null || :; }

# in_quotes TEXT: prints TEXT as one word of a shell command.
in_quotes() {
    case "$1" in
        *\'*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
        *) printf "'%s'" "$1" ;;
    esac
}

# stop CODE: handles a signal. The build has a separate session, so that its compilers end with it.
builder=
stop() {
    commit
    [ -z "$builder" ] || kill -s KILL -- "-$builder" 2>/dev/null || kill -s KILL "$builder" 2>/dev/null || :
    complain 'stopped by a signal; nothing was installed or removed'
    exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# commit: ignores signals from here on, because the installation can no longer be cancelled.
commit() { trap '' HUP INT TERM; }

choose() {
    [ "$action" = install ] || refuse "got --$action and --$1, expected one of them"
    action="$1"
}

# The trusted keys, if the administrator of the machine requires a signature.
system_keys=/etc/opforge/trusted_keys
trusted_keys='' allow_downgrade=0
action=install quiet=0 for_all=0 force=0 upgrade=0 replace_builtin=0 no_build=0 cann='' install_path='' extract_to=''
for option in "$@"; do
    case "$option" in
        --quiet) quiet=1 ;;
        --install-for-all) for_all=1 ;;
        --force) force=1 ;;
        --upgrade) upgrade=1 ;;
        --replace-builtin) replace_builtin=1 ;;
        --allow-downgrade) allow_downgrade=1 ;;
        --trusted-keys=*)
            trusted_keys="${option#*=}"
            [ -n "$trusted_keys" ] || refuse "--trusted-keys: got nothing, expected a file, as in --trusted-keys=keys"
            ;;
        --no-build) no_build=1 ;;
        --cann=*)
            cann="${option#*=}"
            [ -n "$(toolkit_version "$cann")" ] || refuse "--cann: $(no_toolkit "$cann")"
            ;;
        --install-path=*)
            [ -z "$install_path" ] || refuse "got --install-path twice, expected it once"
            install_path="${option#*=}"
            case "$install_path" in
                /*) ;;
                *) refuse "--install-path: got '$install_path', expected an absolute path, as in --install-path=$PWD/opp" ;;
            esac
            ;;
        --extract=*)
            choose extract
            extract_to="${option#*=}"
            [ -n "$extract_to" ] || refuse "--extract: got nothing, expected a folder, as in --extract=package"
            case "$extract_to" in /*) ;; *) extract_to="$PWD/$extract_to" ;; esac
            case "$extract_to" in ?*/) extract_to="${extract_to%/}" ;; esac
            ;;
        --uninstall | --verify | --list | --rollback) choose "${option#--}" ;;
        --help | -h)
            usage 2>/dev/null || refuse 'stdout cannot be written'
            exit 0
            ;;
        *) refuse "unknown option '$option'; nothing was done; --help lists the options" ;;
    esac
done
case "$trusted_keys$action" in
    ?*list | ?*rollback | ?*uninstall) refuse "--trusted-keys: got --$action, expected an installation, --extract or --verify; omit one of them" ;;
esac
if [ "$action" != install ] && [ "$allow_downgrade$for_all$force$upgrade$replace_builtin$no_build$cann" != 000000 ]; then
    refuse "--install-for-all, --force, --allow-downgrade, --upgrade, --replace-builtin, --cann and --no-build: got --$action, expected an installation; omit these options"
fi
[ "$no_build" = 0 ] || [ -z "$cann" ] || refuse "--no-build: got --cann also, expected one of them; omit one"

read_info "$package"
vendor="$(info "$package" vendor)"
case "$vendor" in
    "${package##*/}") ;;
    *) refuse "the package is damaged: its package.info names the vendor '$vendor', its folder '${package##*/}'; get it again" ;;
esac
case "$vendor" in *[!a-z0-9_]*) refuse "the package is damaged: its vendor is '$vendor', expected lower case letters, digits and '_'; get it again" ;; esac
version="$(info "$package" version)"
operators="$(info "$package" operators)"

case "$action" in
    list | extract) load actions/payload.sh "actions/$action.sh" ;;
    install) load actions/payload.sh actions/target.sh actions/checks.sh actions/install.sh ;;
    *) load actions/payload.sh actions/target.sh "actions/$action.sh" ;;
esac
