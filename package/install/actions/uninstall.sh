# Removes the installed package. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

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
