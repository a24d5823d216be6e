#!/bin/sh
# Removes the operator package in which this script lies: what its list of files names and nothing else.
set -eu
export LC_ALL=C

# One function, read whole before it runs: the script removes itself.
uninstall() {
    scripts="$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)"
    # shellcheck source=package/install/vendor_tree.sh
    . "$scripts/vendor_tree.sh"
    [ $# -eq 0 ] || refuse "uninstall.sh: got '$1', expected no arguments"
    tree="${scripts%/scripts}"
    [ -f "$tree/SHA256SUMS" ] || refuse "uninstall.sh: $tree has no SHA256SUMS; this is no installed package"
    cd /
    lock "${tree%/*}"
    # Half a removal is worse than a late end.
    trap '' HUP INT TERM
    recover "${tree%/*}" "${tree##*/}" | printable
    remove_tree "$tree"
    exit 0
}

uninstall "$@"
