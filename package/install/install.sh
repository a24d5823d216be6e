#!/bin/sh
# Installs, lists, verifies or removes the operator package in the folder of this script.
set -eu
export LC_ALL=C

# A closed stdout means that no output is wanted.
(: 3>&1) 2>/dev/null || exec >/dev/null

here="$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)"
for package in "$here"/packages/vendors/*; do :; done
# shellcheck source=package/install/vendor_tree.sh
. "$package/scripts/vendor_tree.sh"

for tool in find cmp flock; do
    command -v "$tool" >/dev/null || missing "'$tool'" 'install it with the package manager of this system'
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
in_quotes() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

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

vendor="$(info "$package" vendor)"
case "$vendor" in
    "${package##*/}") ;;
    *) refuse "the package is damaged: its package.info names the vendor '$vendor', its folder '${package##*/}'; get it again" ;;
esac
case "$vendor" in *[!a-z0-9_]*) refuse "the package is damaged: its vendor is '$vendor', expected lower case letters, digits and '_'; get it again" ;; esac
version="$(info "$package" version)"
operators="$(info "$package" operators)"

# verify_payload: checks that this folder contains exactly the files in the list and their folders; prints the
# differences.
verify_payload() (
    cd -- "$here" || exit 1
    strange="$(names . ! -type f ! -type d | sed 's/^\.\//  a link or no file: /')"
    if [ -z "$strange" ]; then
        is_list "$package/SHA256SUMS" || { printf '  missing or damaged: SHA256SUMS\n' && exit 1; }
        # Each path, then its parent folders.
        expected="$({ listed_files "$package" && echo SHA256SUMS; } | sed "s/^/packages\/vendors\/$vendor\//")"
        signature=install.sh
        [ ! -f SHA256SUMS.sig ] || signature=SHA256SUMS.sig
        expected="$(printf '%s\n' install.sh "$signature" "$expected" | sed -n ':up
p
s/\/[^/]*$//
t up' | sort -u)"
        strange="$({ printf '%s\n' "$expected" && names . ! -name . | sed 's/^\.\///'; } | sort | uniq -u |
            sed 's/^/  missing or not listed: /')"
    fi
    [ -z "$strange" ] || { printf '%s\n' "$strange" | printable && exit 1; }
    verify_tree "$package"
)

refuse_signature() {
    refuse "the signature of the package is not valid, expected one by a key in $trusted_keys; get the package again"
}

# pgp_signer: prints the user of the trusted OpenPGP key that signed the list of files; nothing if none did. gpg also
# exits with 0 for an expired key, which is no GOODSIG. The keys are in a separate folder, so that keys of the user are not
# trusted.
pgp_signer() (
    home="$here/gpg"
    mkdir -m 700 "$home" || exit 1
    set -- --homedir "$home" --batch --no-autostart
    gpg "$@" --import "$trusted_keys" 2>/dev/null || :
    gpg "$@" --status-fd 1 --trust-model always --verify "$here/SHA256SUMS.sig" "$package/SHA256SUMS" 2>/dev/null |
        sed -n 's/^\[GNUPG:\] GOODSIG [0-9A-F]* //p'
    rm -rf -- "$home"
)

# require_signature: if there is a file of trusted keys, rejects a package whose list of files is not signed by one of them.
require_signature() {
    if [ -z "$trusted_keys" ]; then
        [ -e "$system_keys" ] || return 0
        trusted_keys="$system_keys"
    fi
    { [ -f "$trusted_keys" ] && [ -r "$trusted_keys" ]; } ||
        refuse "--trusted-keys: got '$trusted_keys', expected a file that $(user) may read, with the keys that may sign; create it in the format ALLOWED SIGNERS of ssh-keygen, or with gpg --armor --export"
    [ -f "$here/SHA256SUMS.sig" ] ||
        refuse "the package is not signed, expected a signature by a key in $trusted_keys; get a package of 'opforge pack --sign'"
    if grep -q -e '-----BEGIN PGP PUBLIC KEY BLOCK-----' "$trusted_keys"; then
        command -v gpg >/dev/null || missing "'gpg'" 'install the package gnupg'
        signer="$(pgp_signer)"
        [ -n "$signer" ] || refuse_signature
        say "signed by $signer"
        return 0
    fi
    command -v ssh-keygen >/dev/null || missing "'ssh-keygen'" 'install the package openssh-client or openssh'
    set -- -s "$here/SHA256SUMS.sig" -f "$trusted_keys"
    signers="$(ssh-keygen -Y find-principals "$@" 2>/dev/null | tr ',' '\n')" || :
    while IFS= read -r signer; do
        if [ -n "$signer" ] &&
            ssh-keygen -Y verify -n opforge-package -I "$signer" "$@" <"$package/SHA256SUMS" >/dev/null 2>&1; then
            say "signed by $signer"
            return 0
        fi
    done <<TEXT
$signers
TEXT
    refuse_signature
}

# require_payload: rejects a damaged package, and one without a required signature.
require_payload() {
    verify_payload || refuse 'the package is damaged; get it again'
    require_signature
}

list() {
    printf 'vendor: %s\nversion: %s\noperators: %s\n' "$vendor" "$version" "$operators"
    printf 'SoCs: %s\n' "$(info "$package" socs)"
    printf 'CANN: %s\n' "$(info "$package" cann | sed 's/ / to /')"
    printf 'note: %s\n' "$(info "$package" note)"
    printf 'files:\n'
    listed_files "$package" | sed 's/^/  /'
}
if [ "$action" = list ]; then
    list 2>/dev/null | printable 2>/dev/null || refuse 'stdout cannot be written'
    exit 0
fi

if [ "$action" = extract ]; then
    [ ! -e "$extract_to" ] && [ ! -h "$extract_to" ] || refuse "--extract: '$extract_to' exists, expected a new folder"
    require_payload
    # A new folder with a temporary name; it is renamed when it is complete.
    unpacked="$(mktemp -d "$extract_to.XXXXXX" 2>/dev/null)" || refuse "--extract: '$extract_to' cannot be written; choose another folder"
    trap 'rm -rf -- "$unpacked"' EXIT
    problem="$(cp -R -- "$here/." "$unpacked" 2>&1)" ||
        refuse "--extract: '$extract_to' cannot be written: $(printf '%s\n' "$problem" | head -n 1)"
    chmod -R =rwX "$unpacked" # applies the umask
    mv -T -- "$unpacked" "$extract_to" 2>/dev/null || refuse "--extract: '$extract_to' cannot be written; choose another folder"
    say "$vendor $version is unpacked in $extract_to"
    exit 0
fi

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
    if [ "${#target}" -gt 3000 ] || printf '%s\n' "$target" | tr '/' '\n' | grep -q '.\{256\}'; then
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

# differs TEXT: prints a difference that --verify found.
differs() {
    complain "$1"
    exit 1
}

recovered=
say_recovered() {
    # Without a lock, the folder did not exist; if it exists now, another installer created it.
    [ "${locked:-}" = 1 ] || return 0
    recovered="$(recover "$vendors" "$vendor")"
    say_lines "$recovered"
}

case "$action" in
    verify)
        tree="$package"
        if [ -z "$target" ]; then
            verify_payload || differs 'the package is damaged; get it again'
            require_signature
        else
            [ -z "$trusted_keys" ] || refuse '--trusted-keys checks the package, not installed files; omit --install-path'
            tree="$installed"
            [ -f "$tree/SHA256SUMS" ] || refuse "$vendor is not installed in $target"
            verify_tree "$tree" || differs "$tree: files differ from SHA256SUMS; install the package again with --force"
        fi
        say "$(listed_files "$tree" | wc -l | tr -d ' ') files match SHA256SUMS (manifest.json included)"
        exit 0
        ;;
    rollback)
        say_recovered
        kept="$(kept_version "$vendors" "$vendor")"
        [ -f "$kept/SHA256SUMS" ] ||
            refuse "$target keeps no earlier version of $vendor; nothing was done; install the wanted version with --force"
        { [ "$(info "$kept" vendor)" = "$vendor" ] && verify_tree "$kept"; } ||
            refuse "the version kept in $kept is damaged; nothing was done; install the wanted version with --force"
        writable "$vendors"
        begin_work "$work"
        commit
        if [ ! -e "$installed" ] || ! exchange "$kept" "$installed"; then
            [ ! -e "$installed" ] || mv -- "$installed" "$work/old"
            mv -- "$kept" "$installed"
            [ ! -e "$work/old" ] || mv -- "$work/old" "$kept"
        fi
        end_work "$work"
        say "$vendor $(info "$installed" version) is restored in $installed; a second --rollback undoes this"
        exit 0
        ;;
    uninstall)
        say_recovered
        if [ ! -e "$installed" ] && [ -n "$recovered" ]; then
            rmdir -- "$vendors" 2>/dev/null || :
            exit 0
        fi
        if [ ! -d "$installed" ] && [ -d "$build" ]; then
            remove_build "$build"
            [ ! -d "$build" ] || refuse "$vendor is not installed in $target; $build does not come from a build and stays"
            rmdir -- "$vendors" 2>/dev/null || :
            say "$vendor was not installed in $target; the files of an unfinished build are removed"
            exit 0
        fi
        [ ! -d "$installed" ] || [ -f "$installed/SHA256SUMS" ] ||
            refuse "$installed has no SHA256SUMS, the list of the installed files; nothing was removed; delete the folder yourself, or replace it with --force"
        [ -f "$installed/SHA256SUMS" ] || refuse "$vendor is not installed in $target; nothing was removed"
        commit
        left="$(remove_tree "$installed")"
        say "$vendor is removed from $target"
        say_lines "$left"
        exit 0
        ;;
esac

# Everything below installs. All checks run before the first write.
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
hidden="$(info_lines "$package" builtin_op_types | sed 's/^/  op type /' && info_lines "$package" builtin_aclnn | sed 's/^/  aclnn symbol /')"
if [ "$machine_wide" = 1 ] && [ "$replace_builtin" = 0 ] && [ -n "$hidden" ]; then
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
    first="$(info_lines "$package" cann | head -n 1)"
    last="$(info_lines "$package" cann | tail -n 1)"
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
    ! cmp -s "$library" "$tiling/liboptiling.so" || ln -f -- "$library" "$tiling/liboptiling.so" 2>/dev/null || :
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
find "$stage" -type d -exec chmod "$run_mode" {} +
find "$stage" -type f -exec chmod "$read_mode" {} +
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
fi
say "$vendor $version ($operators) is installed in $installed. $state"
[ -z "$disappears" ] || say "Removed: ${disappears% }."
if [ "$machine_wide" = 1 ]; then
    say "$vendor comes first in $vendors/config.ini."
else
    say "To use the operators, run in each shell: source $(in_quotes "$installed/bin/set_env.bash")"
fi
say "To remove it: sh $(in_quotes "$installed/scripts/uninstall.sh")"
