#!/bin/sh
# Removes the operator package that contains this script: only the files in its list.
set -eu
export LC_ALL=C

# All code is in one function, because the shell must read it completely before the script removes itself.
uninstall() {
    scripts="$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)"
    # shellcheck source=package/install/vendor_tree.sh
    . "$scripts/vendor_tree.sh"
    [ $# -eq 0 ] || refuse "uninstall.sh: got '$1', expected no arguments"
    tree="${scripts%/scripts}"
    [ -f "$tree/SHA256SUMS" ] || refuse "uninstall.sh: $tree has no SHA256SUMS; this is not an installed package"
    cd /
    lock "${tree%/*}"
    # An incomplete removal is worse than a delayed exit.
    trap '' HUP INT TERM
    recover "${tree%/*}" "${tree##*/}" | printable
    remove_tree "$tree"
    exit 0
}

uninstall "$@"
