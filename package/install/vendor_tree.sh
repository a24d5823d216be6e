# Functions of install.sh and uninstall.sh for vendor trees: lists, verification, removal, and the list of vendors in
# config.ini. Needs LC_ALL=C. POSIX sh; sourced, never run.
# shellcheck shell=sh

# Characters that are invisible or change the text direction: C1 controls, bidirectional marks, joiners, the byte order
# mark.
invisible="$(printf 's/\302[\200-\237]/?/g;s/\342\200[\213-\217\250-\256]/?/g;s/\342\201[\240-\257]/?/g;s/\330\234/?/g;s/\357\273\277/?/g')"

# printable: copies stdin; replaces every character that controls a terminal or is invisible by '?'. All external names
# and texts are printed through it.
printable() { tr '\000-\011\013-\037\177' '[?*]' | sed "$invisible"; }

# lines TEXT...: prints one line per TEXT.
lines() {
    for text in "$@"; do
        case "$text" in
            *[!\ -~]*) printf '%s' "$text" | tr '\n' '?' | printable && printf '\n' ;;
            *) printf '%s\n' "$text" ;; # only ASCII without control characters
        esac
    done
}

# complain TEXT...: prints lines on stderr.
complain() { lines "$@" >&2 2>/dev/null || :; }

# refuse TEXT...: ends with an error for bad input, a damaged file or an unsuitable target; nothing was changed.
refuse() {
    complain "$@"
    exit 2
}

# names FOLDER EXPRESSION...: prints the files that `find` finds, one per line, even if names contain line breaks.
names() { find "$@" -print0 | tr '\n\000' '?\n'; }

# missing TOOL REPAIR: ends with an error because a required program is missing.
missing() {
    complain "$1 is not installed, expected it for the installer; $2"
    exit 3
}

# user: prints the name of this user, or the user number if there is no name.
user() { id -un 2>/dev/null || :; }

# readable FOLDER...: rejects a folder that this user cannot read; its content would seem to be missing.
readable() {
    for folder in "$@"; do
        [ ! -d "$folder" ] || { [ -r "$folder" ] && [ -x "$folder" ]; } ||
            refuse "$folder cannot be read by $(user); run this as its owner, or install with --install-for-all"
    done
}

# writable FOLDER...: rejects a folder in which this user cannot write.
writable() {
    for folder in "$@"; do
        [ -w "$folder" ] || refuse "$folder cannot be changed by $(user); nothing was done; run this as its owner"
    done
}

# read_info TREE: reads the properties of the package. The next calls of `info` use them without a process.
read_info() {
    info_of="$1" properties=
    [ ! -f "$1/package.info" ] || properties="$(tr -d '\000' <"$1/package.info")" || :
}

# info TREE KEY: prints a property of the package; the words of a list are separated by spaces.
info() {
    [ "${info_of:-}" = "$1" ] || read_info "$1"
    # Each line begins after a line break.
    value="
$properties"
    case "$value" in *"
$2="*) ;; *) return 0 ;; esac
    value="${value#*"
$2="}"
    printf '%s\n' "${value%%
*}"
}

# info_lines TREE KEY: prints the words of a list, one per line.
info_lines() (
    set -f
    IFS=' '
    # shellcheck disable=SC2046
    set -- $(info "$1" "$2")
    [ $# = 0 ] || printf '%s\n' "$@"
)

# is_list FILE: tests for a complete list for `sha256sum -c` without paths outside the tree. The manifest is in its last
# line.
is_list() {
    [ -f "$1" ] && [ ! -h "$1" ] && [ -r "$1" ] &&
        ! grep -qvxE '[0-9a-f]{64}  [A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*' "$1" &&
        case "$(tail -n 1 "$1")" in *'  manifest.json') ;; *) false ;; esac
}

# listed_files TREE: prints the files of the package, one per line.
listed_files() { cut -c67- "$1/SHA256SUMS"; }

# merged_lists: merges lists from stdin; if a file occurs more than once, its first line is used.
merged_lists() {
    sort -s -u -k 2 | sed -n '/  manifest\.json$/{
h
b last
}
p
:last
${
g
p
}'
}

# built_with TREE: prints the version of the toolkit that built it on the target; nothing for a source release.
built_with() { [ ! -f "$1/built.json" ] || [ ! -f "$1/version.info" ] || sed -n 's/^cann_version=//p' "$1/version.info"; }

# toolkit_version TOOLKIT: prints the first of version_dir and Version that starts with digits.digits, as in 8.1.RC1;
# nothing if neither does. cann/toolkit.py has the same rule.
toolkit_version() {
    [ -f "$1/compiler/version.info" ] || return 0
    for key in version_dir Version; do
        head -c 1048576 "$1/compiler/version.info" 2>/dev/null | LC_ALL=C sed -n "s/^[[:blank:]]*$key[[:blank:]]*=[[:blank:]]*\"\{0,1\}\([0-9]\{1,9\}\.[0-9]\{1,9\}[0-9A-Za-z.+_-]\{0,60\}\).*/\1/p"
    done | head -n 1
}

# no_toolkit TOOLKIT: prints why a folder without a version cannot be used.
no_toolkit() {
    if [ -f "$1/compiler/version.info" ]; then
        printf '%s' "got '$1', whose compiler/version.info cannot be read or names no version, expected version_dir= or Version= with a number such as 8.5.0; install the toolkit again, or name another one"
    else
        printf '%s' "got '$1', expected the folder of a CANN toolkit, in which compiler/version.info is, as in /usr/local/Ascend/ascend-toolkit/latest"
    fi
}

# release VERSION: prints the release: 8.1.RC1 -> 8.1
release() {
    after="${1#*.}"
    case "$1" in
        [0-9]*.[0-9]*) printf '%s\n' "${1%%.*}.${after%%[!0-9]*}" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# is_older VERSION OTHER: 1.9 is older than 1.10; so are, in this order, 1.10.dev1, 1.10.alpha1, 1.10.beta1 and 1.10.rc1.
is_older() {
    keys="$(printf '%s\n' "$1" "$2" | tr '[:upper:]' '[:lower:]' |
        sed -E -e 's/\.?dev/~~dev/' -e 's/\.?(alpha|beta|rc|a|b)([0-9.]|$)/~\1\2/')" # sort puts it before the end of a line
    [ "$1" != "$2" ] && [ "$keys" = "$(printf '%s\n' "$keys" | sort -V)" ]
}

# is_earlier_release VERSION OTHER: compares releases; RC and patch do not count.
is_earlier_release() {
    set -- "$(release "$1")" "$(release "$2")"
    [ "$1" != "$2" ] && [ "$(printf '%s\n' "$@" | sort -V)" = "$1
$2" ]
}

sha256_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$@"
    else
        shasum -a 256 "$@"
    fi
}

# strange_files: prints the links, pipes and devices below the current folder, one per line.
strange_files() { [ -z "$(find . ! -type f ! -type d)" ] || names . ! -type f ! -type d; }

# verify_tree TREE: prints each link and each file that differs from SHA256SUMS; fails if there are any.
verify_tree() (
    cd -- "$1" || exit 1
    # A pipe would block a reader.
    strange="$(strange_files)"
    if [ -z "$strange" ]; then
        is_list SHA256SUMS || { printf '  missing or damaged: SHA256SUMS\n' && exit 1; }
        answers="$(sha256_of -c SHA256SUMS 2>/dev/null)" || :
        same="$(printf '%s\n' "$answers" | grep -c ': OK$')" || :
        [ "$same" -ne "$(wc -l <SHA256SUMS)" ] || exit 0
        strange="$(printf '%s\n' "$answers" | sed -n 's/: FAILED.*//p')"
    fi
    printf '%s\n' "${strange:-every file: sha256sum failed}" | sed 's/^/  missing, changed or a link: /' | printable
    exit 1
)

# unlisted_files TREE: prints the files in the tree that are not in its list, one per line.
unlisted_files() (
    cd -- "$1" || exit 1
    # Listed files are printed twice, so only other files occur once.
    {
        listed_files . && listed_files . && printf 'SHA256SUMS\nSHA256SUMS\n'
        names . ! -type d ! -path './op_impl/ai_core/tbe/*_impl/*__pycache__/*.pyc' | sed 's/^\.\///'
    } | sort | uniq -u
)

# without_bom: removes the byte order mark that some editors write at the start of a file.
without_bom() { sed "1s/^$(printf '\357\273\277')//"; }

# config_vendors FILE: prints the vendors of load_priority, one per line, highest priority first.
config_vendors() { tr -d '\r' <"$1" | without_bom | sed -n '/^ *load_priority *= */{s///;y/,/\n/;p;q;}' | sed -n 's/^ *\([^ ]\{1,\}\) *$/\1/p'; }

# write_config FILE LIST WORK: sets load_priority to LIST (comma separated) unless LIST is empty; all other lines stay
# unchanged. The new content is in the folder WORK until it replaces FILE.
write_config() {
    begin_work "$3"
    new="$3/config.ini"
    if [ -e "$1" ]; then
        cp -p "$1" "$new" # copies owner and mode
        { [ -z "$2" ] || printf 'load_priority=%s\n' "$2"; without_bom <"$1" | sed '/^ *load_priority *=/d'; } >"$new"
    else
        printf 'load_priority=%s\n' "$2" >"$new"
    fi
    mv -f "$new" "$1"
}

# is_preferred FILE VENDOR: tests whether load_priority contains VENDOR at any position.
is_preferred() { [ -e "$1" ] && config_vendors "$1" | grep -Fxq -e "$2"; }

# prefer_vendor FILE VENDOR WORK: moves VENDOR to the first position; the others keep their order.
prefer_vendor() {
    others=
    [ ! -e "$1" ] || others="$(config_vendors "$1" | grep -Fxv -e "$2" | sed 's/^/,/' | tr -d '\n')"
    write_config "$1" "$2$others" "$3"
}

# lock FOLDER: fails if another installer works there; the lock ends when this process ends for any reason.
lock() {
    [ -z "${locked:-}" ] || return 0
    command -v flock >/dev/null || missing flock 'install util-linux'
    # A failed redirection ends the shell.
    (: <"$1") 2>/dev/null || refuse "$1 cannot be read by $(user), or was just removed by another installer; run this again"
    exec 9<"$1"
    flock -n 9 || refuse "another installer is running in $1; run this again after it has ended"
    # The previous holder of the lock may have removed the folder, and others may lock a new one.
    # shellcheck disable=SC3013
    [ ! -e /dev/fd/9 ] || [ "$1" -ef /dev/fd/9 ] || refuse "$1 was just removed by another installer; run this again"
    locked=1
}

# exchange A B: exchanges the two folders in one step; fails without a change if the system does not support this.
exchange() {
    mv --exchange --no-copy -T -- "$1" "$2" 2>/dev/null ||
        python3 -I -c 'import ctypes, os, sys
here, exchange = -100, 2
places = [os.fsencode(path) for path in sys.argv[1:]]
sys.exit(ctypes.CDLL(None).renameat2(here, places[0], here, places[1], exchange) != 0)' "$1" "$2" 2>/dev/null
}

# kept_version VENDORS VENDOR: prints the folder of the previous version, which is kept for a rollback.
kept_version() { printf '%s\n' "$1/.$2.previous"; }

# build_folder VENDORS VENDOR: prints the folder that keeps finished build steps until the installation.
build_folder() { printf '%s\n' "$1/.$2.build"; }

# inode_of FOLDER: its number, which it keeps when it is renamed.
inode_of() {
    inode="$(ls -di -- "$1")"
    inode="${inode#"${inode%%[0-9]*}"}"
    printf '%s\n' "${inode%% *}"
}

# work_folder VENDORS VENDOR: prints the folder for unfinished work. Its content has fixed names:
#   new           an incomplete copy
#   next.<inode>  a complete copy; after the exchange, another folder has this name: the previous version
#   old           the previous version, if folders cannot be exchanged
#   gone          a version during its removal
#   config.ini    the next list of vendors
work_folder() { printf '%s\n' "$1/.$2.work"; }

# is_own_work FOLDER: tests whether an installer created it. It contains a folder named after its own inode number; a
# copy or another folder does not.
is_own_work() { [ ! -h "$1" ] && [ -d "$1" ] && [ -d "$1/$(inode_of "$1")" ]; }

# begin_work FOLDER: creates the work folder; fails if the folder was not created by an installer.
begin_work() {
    ! is_own_work "$1" || return 0
    [ -h "$1" ] || [ ! -d "$1" ] || rmdir -- "$1" 2>/dev/null || : # created by an installer that was killed before it marked the folder
    [ ! -e "$1" ] && [ ! -h "$1" ] || refuse "$1 exists, but no installer made it; nothing was done; rename it"
    mkdir -- "$1" 2>/dev/null || refuse "${1%/*} cannot be written; choose another folder with --install-path=FOLDER"
    mkdir -- "$1/$(inode_of "$1")"
}

# end_work FOLDER: removes the work folder unless it contains files that are not part of the package.
end_work() {
    is_own_work "$1" || return 0
    rm -rf -- "$1/new" "$1/config.ini"
    mark="$(inode_of "$1")"
    [ "$(ls -A -- "$1")" != "$mark" ] || { rmdir -- "$1/$mark" && rmdir -- "$1"; }
}

# keep_version VENDORS VENDOR TREE: replaces the kept previous version by TREE.
keep_version() {
    kept="$(kept_version "$1" "$2")"
    rm -rf -- "$kept"
    mv -- "$3" "$kept"
}

# recover VENDORS VENDOR: restores the folders that an interrupted installation moved away, and removes its files in the
# work folder. The caller holds the lock, so no other installation is running. Prints its actions.
recover() (
    cd -- "$1" 2>/dev/null && [ -w . ] || exit 0
    work="$(work_folder "$1" "$2")"
    [ -e "$work" ] || [ -h "$work" ] || exit 0
    begin_work "$work"
    left="the files of an interrupted run in $1 are removed"
    if [ -d "$work/old" ]; then
        if [ -e "$2" ]; then
            keep_version "$1" "$2" "$work/old"
        else
            mv -- "$work/old" "$2"
            left="$1/$2 is restored: an earlier installation was interrupted while it replaced this folder"
        fi
    fi
    for next in "$work"/next.*; do
        [ -d "$next" ] || continue
        if [ "$(inode_of "$next")" = "${next##*.}" ]; then rm -rf -- "$next"; else keep_version "$1" "$2" "$next"; fi
    done
    if [ -d "$work/gone" ]; then
        finish_removal "$1" "$2"
        left="the interrupted removal of $2 from $1 is finished"
    fi
    end_work "$work"
    printf '%s\n' "$left"
)

# forget_vendor FILE VENDOR WORK: removes VENDOR; the others keep their order. Removes a file that contains only VENDOR.
forget_vendor() {
    is_preferred "$1" "$2" || return 0
    others="$(config_vendors "$1" | grep -Fxv -e "$2" | tr '\n' ',')" || :
    write_config "$1" "${others%,}" "$3"
    [ -s "$1" ] || rm -f -- "$1"
}

# remove_tree TREE: removes the listed files and then the empty folders. Prints the remaining files.
remove_tree() {
    root="$(CDPATH='' cd -- "$1" && pwd -P)"
    writable "${root%/*}" "$root"
    is_list "$root/SHA256SUMS" ||
        refuse "the list of files $root/SHA256SUMS is damaged; nothing was removed; replace the package with --force first, or delete the folder"
    work="$(work_folder "${root%/*}" "${root##*/}")"
    begin_work "$work"
    # This rename is atomic: before it, the package is complete; after it, the package is gone, even if a later step
    # fails.
    mv -- "$root" "$work/gone"
    finish_removal "${root%/*}" "${root##*/}"
    end_work "$work"
    rmdir -- "${root%/*}" 2>/dev/null || :
}

# finish_removal VENDORS VENDOR: finishes the removal of the vendor in the work folder. Files that are not part of the
# package are moved back.
finish_removal() {
    work="$(work_folder "$1" "$2")"
    if [ ! -e "$1/$2" ]; then
        forget_vendor "$1/config.ini" "$2" "$work"
        rm -rf -- "$(kept_version "$1" "$2")"
        remove_build "$(build_folder "$1" "$2")"
    fi
    remove_listed "$work/gone" "$1/$2"
    if [ -d "$work/gone" ]; then
        stays="$work/gone"
        [ -e "$1/$2" ] || { mv -- "$work/gone" "$1/$2" && stays="$1/$2"; }
        printf 'These files were not part of the package and stay:\n'
        names "$stays" ! -type d
    fi
}

# remove_listed TREE SHOWN: removes the listed files, their Python bytecode, and then the empty folders. Files behind a
# link stay. SHOWN is the name of the tree in messages.
remove_listed() (
    cd -- "$1" || exit 0
    if is_list SHA256SUMS; then
        names . -type l | sed "s/^\.\///" | while IFS= read -r link; do
            listed_files . | cut -c"1-$((${#link} + 1))" | grep -Fqx -e "$link/" || continue
            complain "left alone, a link leads out of the package: $2/$link"
        done
        # `find` does not follow links.
        { listed_files . | sort -u && names . ! -type d | sed 's/^\.\///'; } | sort | uniq -d | xargs rm -f --
        # The list is removed last, so that an interrupted removal can be repeated.
        find . -path './op_impl/ai_core/tbe/*_impl/*__pycache__/*.pyc' -type f -exec rm -f -- {} +
        rm -f -- SHA256SUMS
    fi
    cd / && find "$1" -depth -type d -exec rmdir -- {} + 2>/dev/null || :
)

# remove_build FOLDER: removes the files of an unfinished build; does not remove a folder that no build created.
remove_build() { [ -h "$1" ] || [ ! -f "$1/key" ] || rm -rf -- "$1"; }
