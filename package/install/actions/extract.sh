# Unpacks the package. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

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
