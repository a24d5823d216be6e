# Prints the content of the package. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

list() {
    printf 'vendor: %s\nversion: %s\noperators: %s\n' "$vendor" "$version" "$operators"
    printf 'products: %s\n' "$(info "$package" socs)"
    printf 'CANN: %s\n' "$(info "$package" cann | sed 's/ / to /')"
    printf 'note: %s\n' "$(info "$package" note)"
    printf 'files:\n'
    listed_files "$package" | sed 's/^/  /'
}
list 2>/dev/null | printable 2>/dev/null || refuse 'stdout cannot be written'
