# Restores the version that the last installation replaced. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

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
