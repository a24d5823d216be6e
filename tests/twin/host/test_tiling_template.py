"""Keys of tiling templates."""

from __future__ import annotations

import subprocess

import pytest

from opforge.twin.build import build_runtime, include_flags
from opforge.twin.compiler.units import compiler

TEMPLATE = """
#include "ascendc/host_api/tiling/template_argument.h"
#include <cstdio>
#include <cstdlib>
namespace sample {
ASCENDC_TPL_ARGS_DECL(Sample, ASCENDC_TPL_DATATYPE_DECL(T, C_DT_FLOAT16, C_DT_FLOAT),
    ASCENDC_TPL_UINT_DECL(N, ASCENDC_TPL_8_BW, ASCENDC_TPL_UI_MIX, 2, 0, 2, 3, 5, 10, 12, 13, 9, 8),
    ASCENDC_TPL_UINT_DECL(M, 2, ASCENDC_TPL_UI_RANGE, 1, 4, 6), ASCENDC_TPL_BOOL_DECL(B, 0, 1), );
ASCENDC_TPL_SEL(
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_AIV_ONLY), ASCENDC_TPL_BOOL_SEL(B, 0, 1),
        ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT16), ASCENDC_TPL_UINT_SEL(N, ASCENDC_TPL_UI_LIST, 1, 12)),
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT), ASCENDC_TPL_BOOL_SEL(B, 1), ), );
struct Context { void SetTilingKey(uint64_t key) { std::printf("%llx\\n", static_cast<unsigned long long>(key)); } };
}
int main(int, char** argv)
{
    const auto number = [&](int index) { return static_cast<uint64_t>(std::atoi(argv[index])); };
    sample::Context context;
    using namespace sample;
    ASCENDC_TPL_SEL_PARAM(&context, number(1), number(2), number(3), number(4));
}
"""
INVALID = "ffffffffffffffff"


@pytest.fixture(scope="module")
def encode(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    source = folder / "sample.cpp"
    source.write_text(TEMPLATE, encoding="utf-8")
    library = build_runtime().parent
    command = [compiler()[0], "-std=c++17", "-Wall", "-Wextra", "-Werror", *include_flags(), str(source)]
    links = [f"-L{library}", f"-Wl,-rpath,{library}", "-lopforge_twin"]
    subprocess.run([*command, *links, "-o", str(folder / "sample")], check=True)

    def run(*values: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([folder / "sample", *map(str, values)], capture_output=True, text=True, check=True)

    return run


# A dtype is its number; a number is its position among the declared values; the first parameter has the lowest bits.
@pytest.mark.parametrize(
    ("values", "key"),
    [
        ((1, 1, 4, 0), 1 | 1 << 8),
        ((1, 12, 6, 1), 1 | 7 << 8 | 2 << 16 | 1 << 18),
        ((0, 8, 5, 1), 10 << 8 | 1 << 16 | 1 << 18),
    ],
)
def test_key(encode, values, key):
    assert int(encode(*values).stdout, 16) == key


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1, 7, 4, 0), "N: got 7, expected a declared value"),
        ((1, 1, 3, 0), "M: got 3"),
        ((1, 1, 4, 2), "B: got 2, expected a declared value within 1 bits"),
        ((0, 1, 4, 0), "no ASCENDC_TPL_ARGS_SEL contains the combination"),
        ((1, 2, 4, 0), "no ASCENDC_TPL_ARGS_SEL contains the combination"),
    ],
)
def test_key_of_other_values(encode, values, message):
    done = encode(*values)
    assert done.stdout.strip() == INVALID
    assert message in done.stderr
