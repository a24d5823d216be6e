"""Run the reference tests of the operators with kernels for product 910 on that product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import test_batch_norm_elemt_backward
import test_conv_tbc_backward
import test_embedding_dense_backward
from hypothesis import currently_in_test_context, reject
from test_conv_tbc_backward import DOWN, FP16, HF32, KEEP

from opforge.twin import AclnnError

pytestmark = pytest.mark.slow

SOC = "Ascend910A"
MODULES = (test_batch_norm_elemt_backward, test_conv_tbc_backward, test_embedding_dense_backward)
# They count cores or bytes of other chips, test an algorithm of other chips, or compare HF32. On this product, one core
# sums all rows of an index. The slowest one is below.
OTHER = (
    "test_indices_around_the_exact_floats",
    "test_cube_math_types_differ_like_their_operands",
    "test_dimensions_up_to_the_limit_of_the_document",
    "test_every_cube_core_of_a_product_is_used",
    "test_the_first_phase_has_the_limit_too",
    "test_traffic_is_little_more_than_one_pass",
    "test_few_blocks_for_a_tiny_problem_many_for_a_wide_row",
    "test_hot_rows_are_shared_out",
    "test_table_without_any_index_is_zeroed",
    "test_narrow_rows",
    "test_narrow_rows_with_many_padding_indices",
    "test_narrow_rows_with_every_kind_of_last_chunk",
    "test_narrow_rows_that_are_equally_frequent_need_few_barriers",
    "test_narrow_rows_are_read_once",
    "test_narrow_rows_with_a_long_search_for_frequent_rows",
    "test_other_narrow_rows_are_not_sorted",
    "test_concentrated_narrow_rows_are_sorted_without_a_search",
    "test_more_channels_than_a_tile_holds",
    "test_packed_rows_of_input",
    "test_small_problems_use_few_cores_and_large_ones_all",
)


def _tests(module: ModuleType) -> dict[str, Any]:
    """Return the tests of a module by a name that has the module's."""
    prefix = module.__name__.removeprefix("test_")
    found = {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in OTHER}
    return {f"{name}__{prefix}": test for name, test in found.items()}


for _module in MODULES:
    globals().update(_tests(_module))


def _has_bfloat16(inputs: dict[str, Any], options: dict[str, Any]) -> bool:
    outputs = (options.get("out_dtypes") or {}).values()
    return any("bfloat16" in str(getattr(value, "dtype", value)) for value in (*inputs.values(), *outputs))


def _exact_float32(op_type: str, inputs: dict[str, Any], attrs: object = None) -> bool:
    """Return whether a call needs products of float32 or HF32, which this product does not have."""
    factors = [getattr(inputs.get(name), "dtype", None) for name in ("self", "input", "weight")]
    kind = attrs.get("cube_math_type") if isinstance(attrs, dict) else None
    return op_type == "ConvTbcBackward" and np.dtype(np.float32) in factors and kind in (KEEP, HF32)


def _on_910(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `run` on the product. A call with bfloat16 is rejected there, and its test is skipped."""

    def run_on_910(op_type: str, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        options.setdefault("soc", SOC)
        is_refused = _has_bfloat16(inputs, options) or _exact_float32(op_type, inputs, *args[:1])
        if options["soc"] == SOC and is_refused:
            with pytest.raises(AclnnError) as caught:
                run(op_type, inputs, *args, **options)
            assert caught.value.status == 161002
            if currently_in_test_context():
                reject()
            pytest.skip("no bfloat16, or no float32 products")
        return run(op_type, inputs, *args, **options)

    return run_on_910


def _halved(problem: Callable[..., Any]) -> Callable[..., Any]:
    """Return `problem` with float16 products for float32, which is cube_math_type 1 there."""

    def halved(*args: Any, kind: int = KEEP, **options: Any) -> Any:
        is_default = kind == KEEP and options.get("dtype") == np.float32
        return problem(*args, kind=DOWN if is_default else kind, **options)

    return halved


def _reference_on_910(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return `reference` with float16 for all products."""

    def reference_on_910(inputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
        return reference(inputs, attrs | {"cube_math_type": FP16})

    return reference_on_910


@pytest.fixture(scope="module", autouse=True)
def patched() -> Iterator[None]:
    """Run the tests of this module on the product."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "run", _on_910(module.run))
        patch.setattr(test_conv_tbc_backward, "problem", _halved(test_conv_tbc_backward.problem))
        patch.setattr(test_conv_tbc_backward, "reference", _reference_on_910(test_conv_tbc_backward.reference))
        yield


def _conv_tbc(dtype: Any, time: int, batch: int, channels: tuple[int, int], taps: int, **options: Any) -> Any:
    """Run ConvTbcBackward on small integers, compare all elements with the formulas, and return the result."""
    draw = test_conv_tbc_backward.small_integers
    inputs, attrs = test_conv_tbc_backward.problem(time, batch, channels, taps, 1, dtype=dtype, draw=draw)
    return test_conv_tbc_backward.agree(inputs, attrs, **options)


# Matrices of less than 32 bytes: no core may store less.
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("channels", [(1, 1), (3, 1), (1, 5), (2, 7), (5, 3)])
def test_small_matrices_of_many_taps(channels: tuple[int, int], dtype: Any) -> None:
    _conv_tbc(dtype, 90, 50, channels, 37)


# The ends of rows and of blocks of rows and columns, and a window with less rows than taps.
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("channels", [(113, 129), (127, 65), (17, 241), (225, 8), (9, 121)])
def test_tails_of_blocks(channels: tuple[int, int], dtype: Any) -> None:
    _conv_tbc(dtype, 23, 11, channels, 3)


# A longer and wider problem has the same sums for its first rows and columns.
def test_bits_do_not_depend_on_the_number_of_cores() -> None:
    module = test_conv_tbc_backward
    inputs, attrs = module.problem(288, 16, (64, 128), 3, 1)
    whole = module.agree(inputs, attrs)
    rows = module.agree(inputs | {"self": inputs["self"][:18], "input": inputs["input"][:18]}, attrs)
    narrow = {name: np.ascontiguousarray(inputs[name][..., :16]) for name in ("self", "weight", "bias")}
    columns = module.agree(inputs | narrow, attrs)
    assert len({result.report.blocks for result in (whole, rows, columns)}) == 3
    np.testing.assert_array_equal(rows["grad_input"][:17], whole["grad_input"][:17])
    np.testing.assert_array_equal(columns["grad_weight"], whole["grad_weight"][..., :16])
    np.testing.assert_array_equal(columns["grad_bias"], whole["grad_bias"][:16])


@pytest.mark.parametrize("weights", [2**24 + 1, *(pytest.param(2**24 - n, marks=pytest.mark.all) for n in (1, 0))])
def test_indices_around_the_exact_floats(weights: int) -> None:
    test_embedding_dense_backward.test_indices_around_the_exact_floats(weights)


def test_numbers_of_cores() -> None:
    for cores in (*range(1, 17), 23, 31, 32):
        assert _conv_tbc(np.float16, 9 * cores, 16, (64, 64), 3).report.blocks == cores
