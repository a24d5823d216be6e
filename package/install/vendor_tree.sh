# What install.sh and uninstall.sh know about a vendor tree: its manifest, how to verify it, how to remove it, and the
# list of vendors in config.ini. POSIX sh; sourced, never run.
# shellcheck shell=sh

# refuse TEXT: bad input or an unfit target; nothing was changed.
refuse() {
    printf '%s\n' "$1" >&2
    exit 2
}

# damaged TEXT: files differ from what lists them; nothing was changed.
damaged() {
    printf '%s\n' "$1" >&2
    exit 1
}

# missing TOOL REPAIR: a program that is needed is not there.
missing() {
    printf '%s is missing; %s\n' "$1" "$2" >&2
    exit 3
}

# user: the name of this user, or the number where there is none.
user() { id -un 2>/dev/null || :; }

# readable FOLDER...: refuses a folder whose content this user may not see; what lies in it would look absent.
readable() {
    for folder in "$@"; do
        [ ! -d "$folder" ] || { [ -r "$folder" ] && [ -x "$folder" ]; } ||
            refuse "$folder cannot be read by $(user); run this as its owner, or install with --install-for-all"
    done
}

# writable FOLDER...: refuses a folder in which this user may change nothing.
writable() {
    for folder in "$@"; do
        [ -w "$folder" ] || refuse "$folder cannot be changed by $(user); nothing was done; run this as its owner"
    done
}

# manifest_value TREE KEY: a text of the manifest. The writer puts each key on one line, so that sed can read it.
manifest_value() { sed -n "s/^  \"$2\": \"\(.*\)\",\{0,1\}\$/\1/p" "$1/manifest.json"; }

# manifest_list TREE KEY: a list of texts of the manifest, one a line.
manifest_list() {
    sed -n "s/^  \"$2\": \[\(.*\)\],\{0,1\}\$/\1/p" "$1/manifest.json" | tr ',' '\n' | sed -n 's/^ *"\(.*\)" *$/\1/p'
}

# manifest_files TREE: "<sha256>  <path>" of each file; what was built where the package is installed replaces what was
# packed under the same name. A path that could leave the tree is none of ours.
manifest_files() {
    for list in "$1/built.json" "$1/manifest.json"; do
        [ ! -f "$list" ] || sed -n 's/^    "\([A-Za-z0-9_][A-Za-z0-9_./-]*\)": "\([0-9a-f]\{64\}\)",\{0,1\}$/\2  \1/p' "$list"
    done | sed -e '/\/\.\.\//d' -e '/\/\.\.$/d' | sort -s -u -k 2
}

# built_with TREE: the version of the toolkit that built it where it is installed; nothing for a source release.
built_with() { [ ! -f "$1/built.json" ] || sed -n 's/^  "toolkit": "\(.*\)",$/\1/p' "$1/built.json"; }

# toolkit_version TOOLKIT: as its users call it, 8.1.RC1; nothing if the folder is no toolkit.
toolkit_version() {
    for key in version_dir Version; do
        sed -n "s/^$key=\"\{0,1\}\([0-9][^\"]*\).*/\1/p" "$1/compiler/version.info" 2>/dev/null
    done | head -n 1
}

# release VERSION: 8.1.RC1 -> 8.1
release() { printf '%s\n' "$1" | sed 's/^\([0-9]*\.[0-9]*\).*/\1/'; }

# is_older VERSION OTHER: 1.9 is older than 1.10; so are, in this order, 1.10.dev1, 1.10.alpha1, 1.10.beta1 and 1.10.rc1.
is_older() {
    keys="$(printf '%s\n' "$1" "$2" | tr '[:upper:]' '[:lower:]' |
        sed -E -e 's/\.?dev/~~dev/' -e 's/\.?(alpha|beta|rc|a|b)([0-9.]|$)/~\1\2/')" # what sort puts in front of the end
    [ "$1" != "$2" ] && [ "$keys" = "$(printf '%s\n' "$keys" | sort -V)" ]
}

# is_within VERSION FIRST LAST: neither RC nor patch counts.
is_within() {
    sorted="$(printf '%s\n' "$(release "$2")" "$(release "$1")" "$(release "$3")")"
    [ "$sorted" = "$(printf '%s\n' "$sorted" | sort -V)" ]
}

sha256_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$@"
    else
        shasum -a 256 "$@"
    fi
}

# verify_tree TREE: prints each file that is not what the manifest says, and each link; fails if there is one.
verify_tree() (
    cd "$1" || exit 1
    links="$(find . -type l)"
    expected="$(manifest_files .)"
    found="$(printf '%s\n' "$expected" | cut -c67- | while IFS= read -r path; do
        if [ -f "$path" ]; then sha256_of "$path"; fi
    done)"
    damaged="$(printf '%s\n' "$expected" | grep -Fxv -e "$found" | cut -c67-)" || :
    [ -z "$links$damaged" ] && [ -n "$expected" ] && exit 0
    printf '%s\n' "$links" "$damaged" | sed -n 's/^\(.\)/  missing, changed or a link: \1/p'
    exit 1
)

# python_caches TREE VENDOR: what Python leaves beside the kernels' descriptions when somebody imports them.
python_caches() { find "$1/op_impl/ai_core/tbe/$2_impl" -type d -name __pycache__ 2>/dev/null || :; }

# unlisted_files TREE: what lies in the tree without being in its manifest.
unlisted_files() (
    cd "$1" || exit 1
    own="$(manifest_files . | cut -c67-; printf 'manifest.json\nbuilt.json\nbin/set_env.bash')"
    find . ! -type d ! -path './op_impl/ai_core/tbe/*_impl/*__pycache__/*.pyc' | sed 's/^\.\///' | grep -Fxv -e "$own" | sort || :
)

# without_bom: what an editor of another system puts in front of the first line is no part of it.
without_bom() { sed "1s/^$(printf '\357\273\277')//"; }

# config_vendors FILE: the vendors of load_priority, one a line, highest first.
config_vendors() { tr -d '\r' <"$1" | without_bom | sed -n 's/^ *load_priority *= *//p' | head -n 1 | tr ',' '\n' | sed -n 's/^ *\([^ ]\{1,\}\) *$/\1/p'; }

# written_config FILE: its next content, until that takes its place.
written_config() { printf '%s.new\n' "$1"; }

# write_config FILE LIST: puts LIST (comma separated), if it is not empty, into load_priority and leaves every other line
# alone.
write_config() {
    new="$(written_config "$1")"
    rm -f -- "$new" # a link would lead the writing out of the folder
    if [ -e "$1" ]; then
        cp -p "$1" "$new" # owner and mode
        { [ -z "$2" ] || printf 'load_priority=%s\n' "$2"; without_bom <"$1" | sed '/^ *load_priority *=/d'; } >"$new"
    else
        printf 'load_priority=%s\n' "$2" >"$new"
    fi
    mv -f "$new" "$1"
}

# is_preferred FILE VENDOR: load_priority names VENDOR, at whatever place its owner chose.
is_preferred() { [ -e "$1" ] && config_vendors "$1" | grep -Fxq -e "$2"; }

# prefer_vendor FILE VENDOR: VENDOR first, the others behind it in their order.
prefer_vendor() {
    others=
    [ ! -e "$1" ] || others="$(config_vendors "$1" | grep -Fxv -e "$2" | sed 's/^/,/' | tr -d '\n')"
    write_config "$1" "$2$others"
}

# lock FOLDER: refuses while another installer works there; the lock ends with this process, however it ends.
lock() {
    [ -z "${locked:-}" ] || return 0
    command -v flock >/dev/null || missing "'flock'" 'install util-linux'
    # A redirection that fails ends the shell.
    (: <"$1") 2>/dev/null || refuse "$1 cannot be read by $(user), or was just removed by another installer; run this again"
    exec 9<"$1"
    flock -n 9 || refuse "another installer works in $1; run this again when it is done"
    # Who held the lock before may have removed the folder, and others may lock its successor.
    # shellcheck disable=SC3013
    [ ! -e /dev/fd/9 ] || [ "$1" -ef /dev/fd/9 ] || refuse "$1 was just removed by another installer; run this again"
    locked=1
}

# exchange A B: each takes the other's place in one step; fails, and changes nothing, where the system has no such step.
exchange() {
    mv --exchange --no-copy -T -- "$1" "$2" 2>/dev/null ||
        python3 -I -c 'import ctypes, os, sys
here, exchange = -100, 2
places = [os.fsencode(path) for path in sys.argv[1:]]
sys.exit(ctypes.CDLL(None).renameat2(here, places[0], here, places[1], exchange) != 0)' "$1" "$2" 2>/dev/null
}

# kept_version VENDORS VENDOR: where the version before the installed one stays for a rollback.
kept_version() { printf '%s\n' "$1/.$2.previous"; }

# build_folder VENDORS VENDOR: where a build keeps what is done until it is installed.
build_folder() { printf '%s\n' "$1/.$2.build"; }

# lists_files TREE: its lists are whole, so that nothing of the package stays when what they name is removed.
lists_files() {
    for list in "$1/manifest.json" "$1/built.json"; do
        [ "$list" != "$1/built.json" ] || [ -e "$list" ] || continue
        [ -f "$list" ] && [ -r "$list" ] || return 1
        grep -qx '  "files": {' "$list" && [ "$(tail -n 1 "$list" | tr -d '\000')" = '}' ] || return 1
        ! sed '1,/^  "files": {$/d' "$list" | grep -qvx -e '    "[^"]*": "[0-9a-f]\{64\}",\{0,1\}' -e ' \{0,2\}}' || return 1
    done
}

# inode_of FOLDER: its number, which it keeps when it is renamed.
# shellcheck disable=SC2012
inode_of() { ls -di -- "$1" | sed 's/^ *\([0-9]*\) .*/\1/'; }

# keep_version VENDORS VENDOR TREE: TREE takes the place of what was kept.
keep_version() {
    kept="$(kept_version "$1" "$2")"
    rm -rf -- "$kept"
    mv -- "$3" "$kept"
}

# recover VENDORS VENDOR: brings back what an installation that was killed had set aside, and removes what it left:
#   .<vendor>.new.<process>   a copy that is not complete
#   .<vendor>.next.<inode>    a complete one; after it was exchanged, another folder has the name: the version before
#   .<vendor>.old.<process>   the version before, where folders cannot be exchanged
#   .<vendor>.gone.<inode>    one that is being removed
# Under the lock no installation is under way.
recover() (
    cd "$1" 2>/dev/null && [ -w . ] || exit 0
    rm -f -- "$(written_config config.ini)"
    # The newest first.
    # shellcheck disable=SC2012
    ls -td -- ".$2.old."* ".$2.new."* ".$2.next."* ".$2.gone."* 2>/dev/null | while IFS= read -r left; do
        number="${left##*.}"
        case "$number" in
            *[!0-9]* | '') continue ;;
        esac
        if [ -h "$left" ] || [ ! -d "$left" ]; then continue; fi
        case "$left" in
            ".$2.old.$number")
                if [ -e "$2" ]; then
                    keep_version "$1" "$2" "$left"
                else
                    mv -- "$left" "$2"
                    printf '%s\n' "$1/$2 is back: an earlier installation was cut off while it replaced it"
                fi
                ;;
            ".$2.next.$number")
                if [ "$(inode_of "$left")" = "$number" ]; then rm -rf -- "$left"; else keep_version "$1" "$2" "$left"; fi
                ;;
            ".$2.new.$number") rm -rf -- "$left" ;;
            ".$2.gone.$number")
                finish_removal "$1" "$2" "$left"
                printf '%s\n' "the removal of $2 from $1, which had been cut off, is finished"
                ;;
        esac
    done
)

# forget_vendor FILE VENDOR: the others stay in their order; a file that held only VENDOR goes.
forget_vendor() {
    is_preferred "$1" "$2" || return 0
    others="$(config_vendors "$1" | grep -Fxv -e "$2" | tr '\n' ',')" || :
    write_config "$1" "${others%,}"
    [ -s "$1" ] || rm -f -- "$1"
}

# remove_tree TREE: removes what the manifest lists and the folders that are empty then. Prints what stays.
remove_tree() {
    root="$(CDPATH='' cd -- "$1" && pwd -P)"
    writable "${root%/*}" "$root"
    lists_files "$root" ||
        damaged "the list of files in $root (manifest.json, built.json) is damaged; nothing was removed; replace the package with --force first, or delete the folder"
    # The one step: before it everything is there, behind it nothing, whatever ends the rest.
    gone=".${root##*/}.gone.$(inode_of "$root")"
    mv -- "$root" "${root%/*}/$gone"
    finish_removal "${root%/*}" "${root##*/}" "$gone"
    rmdir -- "${root%/*}" 2>/dev/null || :
}

# finish_removal VENDORS VENDOR NAME: what is left to do for the vendor that was renamed to NAME. What is not part of the
# package goes back to its place.
finish_removal() {
    root="$1/$3"
    if [ ! -e "$1/$2" ]; then
        forget_vendor "$1/config.ini" "$2"
        rm -rf -- "$(kept_version "$1" "$2")" "$(build_folder "$1" "$2")"
    fi
    python_caches "$root" "$2" | while IFS= read -r path; do rm -f -- "$path"/*.pyc; done
    # The manifest goes last, so that what was cut off can be repeated.
    { manifest_files "$root" | cut -c67-; printf 'bin/set_env.bash\nbuilt.json\nmanifest.json\n'; } | while IFS= read -r path; do
        folder="$(CDPATH='' cd -- "$root/$(dirname -- "$path")" 2>/dev/null && pwd -P)" || continue
        case "$folder/" in
            "$root"/*) rm -f -- "$root/$path" ;;
            *) printf 'left alone, a link leads out of the package: %s\n' "$1/$2/$path" >&2 ;;
        esac
    done
    find "$root" -depth -type d -exec rmdir {} \; 2>/dev/null || :
    if [ -d "$root" ]; then
        [ -e "$1/$2" ] || { mv -- "$root" "$1/$2" && root="$1/$2"; }
        printf 'These files were not part of the package and stay:\n'
        find "$root" ! -type d
    fi
}
