#!/usr/bin/env bash
# Build, test and pack opforge, and run the sample. `bash build.sh --help` lists the commands.
set -euo pipefail
CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

usage() {
    cat <<'TEXT'
usage: bash build.sh [--install-deps] [COMMAND] [options]

  --install-deps         install system packages (apt, dnf or yum): C++ compiler, ccache, cmake, makeself, venv
commands:
  --run_example          run the sample: generate, build, pack, install, convert and run a model
  -u [--slow | --all] [--cov]
                         run the tests that are not slow; --slow also runs the slow tests, as CI does; --all runs all
                         tests, also with other versions of PyTorch (OPFORGE_TORCH_VERSIONS, default "2.6.0 2.13.0")
                         and onnxruntime (OPFORGE_ONNXRUNTIME_VERSIONS); --cov prints the coverage of Python lines
  --pkg                  write the package custom_opp_<os>_<arch>.run to build_out/
  --wheel                write the wheel of this platform, with the CPU twin compiled, to build_out/
  --docs                 build the documentation site in build/site/
  --lint                 run ruff, mypy and clang-format only
  --make_clean           remove build/, build_out/ and .venv/
options:
  --product=a,b          products (SoC directories) of the package, default: all products of the specs that have kernels
  --vendor_name=v        vendor folder of the package, default: vendor in pyproject.toml, else opforge
  --ops=A,B              operator types, default: all
  --cann=DIR             CANN toolkit that compiles the libraries and kernels of the package, default: $ASCEND_HOME_PATH;
                         this was not run with a real toolkit
  -j N                   parallel jobs, default: one per core
  -h, --help             print this text

exit codes: 0 ok, 1 a difference or a finding, 2 bad input, 3 a tool is missing
TEXT
}

refuse() { echo "build.sh: $1" >&2; exit 2; }

install_deps=0 what="" select="not all and not slow" all=0 cov=0 product="" vendor="" ops="" cann="" jobs="$(nproc)"
choose() { [ -z "$what" ] || refuse "got $what and $1, expected one of them"; what="$1"; }
while [ $# -gt 0 ]; do
    case "$1" in
        --install-deps) install_deps=1 ;;
        --run_example | -u | --pkg | --wheel | --docs | --lint | --make_clean) choose "$1" ;;
        --slow) select="not all" ;;
        --all) all=1 ;;
        --cov) cov=1 ;;
        --product=?* | --soc=?*) product="${1#*=}" ;; # --soc is the old name
        --vendor_name=?*) vendor="${1#*=}" ;;
        --ops=?*) ops="${1#*=}" ;;
        --cann=?*) cann="${1#*=}" ;;
        --product= | --product | --soc= | --soc) refuse "$1: got no names, expected SoC directories, as in --product=ascend910b" ;;
        --vendor_name= | --vendor_name) refuse "$1: got no name, expected a vendor directory, as in --vendor_name=my_company" ;;
        --ops= | --ops) refuse "$1: got no names, expected operator types, as in --ops=GroupedBiasAddGrad" ;;
        --cann= | --cann) refuse "$1: got no folder, expected that of a CANN toolkit, as in --cann=/usr/local/Ascend/cann" ;;
        -j) [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || refuse "-j: got '${2:-}', expected a number of jobs, as in -j 4"; jobs="$2"; shift ;;
        -j*) [[ "${1#-j}" =~ ^[1-9][0-9]*$ ]] || refuse "-j: got '${1#-j}', expected a number of jobs, as in -j4"; jobs="${1#-j}" ;;
        -h | --help) usage; exit 0 ;;
        *) refuse "unknown option '$1'; \`bash build.sh --help\` lists the options" ;;
    esac
    shift
done
[ "$all" = 0 ] || [ "$what" = -u ] || refuse "--all: got no -u, expected both; add -u"
[ "$select" != "not all" ] || [ "$what" = -u ] || refuse "--slow: got no -u, expected both; add -u"
[ "$cov" = 0 ] || [ "$what" = -u ] || refuse "--cov: got no -u, expected both; add -u"
if [ -n "$cann" ]; then
    [ "$what" = --pkg ] || refuse "--cann: got no --pkg, expected both; add --pkg"
    [ -f "$cann/compiler/version.info" ] ||
        refuse "--cann: got '$cann', expected the folder of a CANN toolkit; without one, --pkg alone makes a source release"
fi
[ -n "$what" ] || [ "$install_deps" = 1 ] || { usage; exit 2; }

if [ "$install_deps" = 1 ]; then
    if command -v apt-get >/dev/null; then
        packages=(g++ ccache cmake makeself python3-venv)
        has() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
        manager=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
    elif manager=("$(command -v dnf || command -v yum)"); then
        packages=(gcc-c++ ccache cmake makeself python3-pip)
        has() { rpm -q "$1" >/dev/null 2>&1; }
        manager+=(install -y -q)
    else
        echo "build.sh: got no apt-get, dnf or yum; install a C++ compiler, ccache, cmake, makeself, and pip and venv for Python" >&2
        exit 3
    fi
    missing=()
    for package in "${packages[@]}"; do has "$package" || missing+=("$package"); done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "== installing ${missing[*]}"
        sudo=()
        [ "$(id -u)" = 0 ] || sudo=(sudo)
        case "${manager[*]}" in *apt-get*) "${sudo[@]}" apt-get update -qq ;; esac
        "${sudo[@]}" "${manager[@]}" "${missing[@]}" >/dev/null
    fi
fi
[ -n "$what" ] || exit 0

if [ "$what" = --make_clean ]; then
    rm -rf build build_out .venv
    exit 0
fi

for tool in "${CXX:-g++}" makeself python3; do
    command -v "$tool" >/dev/null || {
        echo "build.sh: $tool is not installed, expected it for the build; run: bash build.sh --install-deps" >&2
        exit 3
    }
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "build.sh: got $(python3 --version), expected Python >= 3.11; install it with: apt-get install python3.11" >&2
    exit 3
}

# The environment is created once, and again when the dependencies change or more extras are needed. The last character
# of the stamp is the level of the installed extras.
extras=('' '[dev,lsp]' '[dev,lsp,tidy]') level=1
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".$1"; }
case "$what" in --run_example | --pkg) level=0 ;; esac
[ "$all" = 0 ] || level=2
wanted="$(python3 --version; cat pyproject.toml; pwd)"
found="$(cat .venv/opforge-stamp 2>/dev/null || :)"
if [ ! -x .venv/bin/python ] || [ "${found%?}" != "$wanted" ] || [ "${found: -1}" -lt "$level" ]; then
    echo "== Python environment in .venv"
    clear=(--clear)  # venv keeps the interpreter of an environment of another version
    [ "$(.venv/bin/python --version 2>/dev/null)" != "$(python3 --version)" ] || clear=()
    python3 -m venv "${clear[@]}" .venv || { echo "build.sh: python3 -m venv failed; install it with: bash build.sh --install-deps" >&2; exit 3; }
    install "${extras[level]}" || {
        [ "$level" -gt 0 ] || exit 1
        echo "== without the extra lsp: the tests of \`opforge lsp\` are skipped"
        install "${extras[level]/,lsp/}"
    }
    printf '%s' "$wanted$level" >.venv/opforge-stamp
fi
export PATH="$PWD/.venv/bin:$PATH"

case "$what" in
    --run_example) exec .venv/bin/python examples/run_example.py --jobs "$jobs" ;;
    --pkg)
        exec .venv/bin/opforge pack ${product:+"--product=$product"} ${ops:+"--ops=$ops"} ${vendor:+"--vendor-name=$vendor"} \
            ${cann:+"--cann=$cann"} --jobs "$jobs"
        ;;
    --wheel)
        .venv/bin/python .ci/prebuild.py build/prebuilt
        rm -rf build/wheel
        OPFORGE_PREBUILT=build/prebuilt .venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
        exec .venv/bin/auditwheel repair --wheel-dir build_out build/wheel/*.whl
        ;;
    --docs) exec .venv/bin/python docs/site.py ;;
    --lint) exec .venv/bin/python -m pytest -q tests/test_style.py ;;
    -u)
        # Tests start hundreds of Python processes, which read the bytecode of modules. They write none: a process with a
        # limit of file size could leave an incomplete file.
        export PYTHONDONTWRITEBYTECODE=1
        unused='tests?|pip|setuptools|mypy|mypyc|babel|lexers|transformers|tools|quantization|distutils|f2py'
        .venv/bin/python -W ignore -m compileall -qq -j "$jobs" -x "(site-packages/(.*/)?($unused)|codegen/starters)/" \
            cli codegen frontend package twin .venv/lib || :
        .venv/bin/opforge build -j "$jobs"
        options=()
        [ "$all" = 1 ] || options+=(-m "$select")
        [ "$cov" = 0 ] || options+=(--cov --cov-report=term)
        # Tests write many small files. In memory, this takes a tenth of the time. The folder is removed at the end; with
        # TMPDIR, that one is used. The memory of a container can be small, or allow no programs.
        if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9)" -ge 6 ] 2>/dev/null &&
            memory="$(mktemp -d /dev/shm/opforge-tests.XXXXXX 2>/dev/null)" && chmod 755 "$memory"; then
            trap 'rm -rf "$memory"' EXIT
            ! { cp "$(type -P true)" "$memory/starts" && "$memory/starts"; } 2>/dev/null || export TMPDIR="$memory"
        fi
        status=0
        # One process more than jobs, because some tests wait for time limits.
        .venv/bin/python -m pytest -n "$((jobs + 1))" --dist worksteal --durations=10 "${options[@]}" || status=$?
        # Each version of PyTorch and of onnxruntime has a separate environment.
        [ "$all" = 0 ] || .ci/versions torch || status=$?
        [ "$all" = 0 ] || .ci/versions onnxruntime || status=$?
        if [ "$all" = 1 ] && command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null; then
            .ci/aarch64 || status=$?
        elif [ "$all" = 1 ]; then
            echo "== not run: .ci/aarch64; install g++-aarch64-linux-gnu and qemu-user-static"
        fi
        exit "$status"
        ;;
esac
