#!/usr/bin/env bash
# Build, test and pack the operators of this folder. `bash build.sh --help` lists the commands.
set -euo pipefail
CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

usage() {
    cat <<'TEXT'
usage: bash build.sh COMMAND [OPTION]...

  -u              compile the operators for the CPU twin and run the tests; options go to pytest
  --pkg           write custom_opp_<os>_<arch>.run to build_out/; options go to opforge pack
  --make_clean    remove build/ and build_out/
  -h, --help      print this text

exit codes: 0 ok, 1 a difference or a finding, 2 bad input, 3 a tool is missing
TEXT
}

missing() { echo "build.sh: $1" >&2; exit 3; }

what="${1:-}"
[ $# = 0 ] || shift
case "$what" in
    -u | --pkg) ;;
    --make_clean) rm -rf build build_out; exit 0 ;;
    -h | --help) usage; exit 0 ;;
    '') usage >&2; exit 2 ;;
    *) echo "build.sh: got '$what', expected -u, --pkg or --make_clean" >&2; exit 2 ;;
esac

opforge="$(command -v opforge)" || missing "opforge is not on PATH; activate the environment that it is installed in"
[ "$what" = -u ] || exec "$opforge" pack "$@"

python="$(dirname "$opforge")/python"
if ! "$python" -c 'import pytest' 2>/dev/null; then
    echo "== install pytest in the environment of opforge"
    "$python" -m pip install --quiet --disable-pip-version-check 'pytest>=8' || missing "pytest could not be installed"
fi
"$opforge" build
exec "$python" -m pytest "$@"
