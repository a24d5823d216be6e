# Functions that compare the package with its list of files and check its signature. Sourced by install.sh.
# shellcheck shell=sh disable=SC2034,SC2154

# verify_payload: checks that this folder contains exactly the files in the list and their folders; prints the
# differences.
verify_payload() (
    cd -- "$here" || exit 1
    strange="$(strange_files)" reason='a link or no file'
    if [ -z "$strange" ]; then
        is_list "$package/SHA256SUMS" || { printf '  missing or damaged: SHA256SUMS\n' && exit 1; }
        root="./packages/vendors/$vendor/"
        signature=install.sh
        [ ! -f SHA256SUMS.sig ] || signature=SHA256SUMS.sig
        # Each path, then its parent folders.
        expected="$({ listed_files "$package" && printf '%s\n' SHA256SUMS; } | sed -n "s|^|$root|
:up
p
s/\/[^/]*$//
t up" | sort -u)"
        strange="$({ printf '%s\n' ./install.sh "./$signature" "$expected" | sort -u && names .; } | sort | uniq -u)"
        reason='missing or not listed'
    fi
    [ -z "$strange" ] || { printf '%s\n' "$strange" | sed "s/^\.\//  $reason: /" | printable && exit 1; }
    verify_tree "$package"
)

refuse_signature() {
    refuse "the signature of the package is not valid, expected one by a key in $trusted_keys; get the package again"
}

# pgp_signer: prints the user of the trusted OpenPGP key that signed the list of files; nothing if none did. gpg also
# exits with 0 for an expired key, which is no GOODSIG. The keys are in a separate folder, so that keys of the user are not
# trusted.
pgp_signer() (
    home="$here/gpg"
    mkdir -m 700 "$home" || exit 1
    set -- --homedir "$home" --batch --no-autostart
    gpg "$@" --import "$trusted_keys" 2>/dev/null || :
    gpg "$@" --status-fd 1 --trust-model always --verify "$here/SHA256SUMS.sig" "$package/SHA256SUMS" 2>/dev/null |
        sed -n 's/^\[GNUPG:\] GOODSIG [0-9A-F]* //p'
    rm -rf -- "$home"
)

# require_signature: if there is a file of trusted keys, rejects a package whose list of files is not signed by one of them.
require_signature() {
    if [ -z "$trusted_keys" ]; then
        [ -e "$system_keys" ] || return 0
        trusted_keys="$system_keys"
    fi
    { [ -f "$trusted_keys" ] && [ -r "$trusted_keys" ]; } ||
        refuse "--trusted-keys: got '$trusted_keys', expected a file that $(user) may read, with the keys that may sign; create it in the format ALLOWED SIGNERS of ssh-keygen, or with gpg --armor --export"
    [ -f "$here/SHA256SUMS.sig" ] ||
        refuse "the package is not signed, expected a signature by a key in $trusted_keys; get a package of 'opforge pack --sign'"
    if grep -q -e '-----BEGIN PGP PUBLIC KEY BLOCK-----' "$trusted_keys"; then
        command -v gpg >/dev/null || missing gpg 'install the package gnupg'
        signer="$(pgp_signer)"
        [ -n "$signer" ] || refuse_signature
        say "signed by $signer"
        return 0
    fi
    command -v ssh-keygen >/dev/null || missing ssh-keygen 'install the package openssh-client or openssh'
    set -- -s "$here/SHA256SUMS.sig" -f "$trusted_keys"
    signers="$(ssh-keygen -Y find-principals "$@" 2>/dev/null | tr ',' '\n')" || :
    while IFS= read -r signer; do
        if [ -n "$signer" ] &&
            ssh-keygen -Y verify -n opforge-package -I "$signer" "$@" <"$package/SHA256SUMS" >/dev/null 2>&1; then
            say "signed by $signer"
            return 0
        fi
    done <<TEXT
$signers
TEXT
    refuse_signature
}

# require_payload: rejects a damaged package, and one without a required signature.
require_payload() {
    verify_payload || refuse 'the package is damaged; get it again'
    require_signature
}
