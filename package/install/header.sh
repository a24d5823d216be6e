# Sourced by makeself (--header), which sets archname, LABEL, SKIP, totalsize and SHAsum: writes the head of the .run file.
# Unlike the default head of makeself, it passes every option to install.sh, always checks the payload, and contains no
# date, size or path of the packing machine. makeself sources it twice, the first time to count the lines.
# The whole head is one group, which a shell reads completely before it runs any command: a file that ends inside the
# head is a syntax error and never a success.
# shellcheck shell=sh disable=SC2154
{
    cat <<EOF
#!/bin/sh
{ # $LABEL: a self-extracting operator package; sh FILE --help lists the options.
header_lines=$SKIP
payload_bytes=${totalsize:-0}
payload_sha256=$SHAsum
EOF
    cat <<'EOF'
set -eu
unset TAR_OPTIONS GZIP  # they change the behavior of tar and gzip

# fail CODE TEXT: prints one line; replaces characters that control a terminal or are invisible by '?'.
fail() {
    printf '%s: %s' "$archive" "$2" | LC_ALL=C tr '\000-\037\177' '[?*]' |
        LC_ALL=C sed "$(printf 's/\302[\200-\237]/?/g;s/\342\200[\213-\217\250-\256]/?/g;s/\342\201[\240-\257]/?/g;s/\330\234/?/g')" >&2 || :
    echo >&2 || :
    exit "$1"
}

payload() { tail -n "+$((header_lines + 1))" "$archive"; }

case "$0" in
    /*) archive="$0" ;;
    *) archive="$PWD/$0" ;;
esac
[ -r "$archive" ] || fail 2 "cannot be read; run it by its path"
for tool in gzip tar tail wc mktemp; do
    command -v "$tool" >/dev/null || fail 3 "$tool is not installed, expected it for the installer; install it with the package manager of this system"
done
if command -v sha256sum >/dev/null; then
    sha256='sha256sum'
elif command -v shasum >/dev/null; then
    sha256='shasum -a 256'
else
    fail 3 "sha256sum is not installed, expected it for the installer; install coreutils"
fi

damaged='the package is damaged'
got_bytes="$(($(payload | wc -c)))"
[ "$got_bytes" = "$payload_bytes" ] || fail 2 "$damaged: got $got_bytes bytes, expected $payload_bytes; get it again"
got_sha256="$(payload | $sha256)"
got_sha256="${got_sha256%% *}"
[ "$got_sha256" = "$payload_sha256" ] ||
    fail 2 "$damaged: got SHA-256 $got_sha256, expected $payload_sha256; get it again"

users_umask="$(umask)"
umask 077
work="$(mktemp -d "${TMPDIR:-/tmp}/custom_opp.XXXXXX" 2>/dev/null)" ||
    fail 3 "no temporary folder in ${TMPDIR:-/tmp}; set TMPDIR to a folder that can be written"
installer= watcher=
# A separate process removes the folder when all processes that use it have ended, even if they were killed: each of
# them keeps the pipe open for writing.
if mkfifo "$work/alive" 2>/dev/null; then
    session=
    ! command -v setsid >/dev/null || session=setsid
    exec 8<>"$work/alive" 7<"$work/alive"
    $session sh -c 'trap "" HUP INT TERM; while read -r _; do :; done; rm -rf -- "$1"' - "$work" <&7 7<&- 8<&- >/dev/null 2>&1 &
    watcher=$!
    exec 7<&-
fi
# clean: removes the folder immediately and stops the process that waits to remove it.
clean() {
    rm -rf -- "$work"
    [ -z "$watcher" ] || kill -KILL "$watcher" 2>/dev/null || :
}
# stop CODE: handles a signal. The signal may have been sent only to this shell.
stop() {
    trap '' HUP INT TERM
    [ -n "$installer" ] && kill -TERM "$installer" 2>/dev/null || exit "$1"
    status=0
    wait "$installer" || status=$?
    [ "$status" != 143 ] || status="$1"
    exit "$status"
}
trap clean EXIT
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
problem="$(mkdir "$work/package" 2>&1 && payload | gzip -dc 2>/dev/null | (cd "$work/package" && tar -xof - 2>&1))" || {
    payload | gzip -dc 2>/dev/null | tar -tf - >/dev/null 2>&1 ||
        fail 2 "$damaged: the payload is no archive, expected one that gzip and tar read; get it again"
    fail 3 "cannot be unpacked in ${TMPDIR:-/tmp}: ${problem%%
*}; set TMPDIR to a folder with free space"
}
umask "$users_umask"

# Headers of other packages require their own options before a '--'.
[ "${1:-}" != -- ] || shift
status=0
# A shell in `wait` handles signals immediately.
sh "$work/package/install.sh" "$@" &
installer=$!
wait "$installer" || status=$?
exit "$status"
}
EOF
} >"$archname"
