# Compares the package or the installed files with their list. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

# differs TEXT: prints a difference that --verify found.
differs() {
    complain "$1"
    exit 1
}

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
