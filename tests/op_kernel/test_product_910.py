"""Run the reference tests of the operators with kernels for product 910 on that product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import test_batch_norm_elemt_backward
import test_embedding_dense_backward
from hypothesis import currently_in_test_context, reject

from opforge.twin import AclnnError

SOC = "Ascend910A"
MODULES = (test_batch_norm_elemt_backward, test_embedding_dense_backward)
# They count cores or bytes of other chips. On this product, one core sums all rows of an index.
OTHER = (
    "test_few_blocks_for_a_tiny_problem_many_for_a_wide_row",
    "test_hot_rows_are_shared_out",
    "test_table_without_any_index_is_zeroed",
    "test_more_channels_than_a_tile_holds",
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


def _on_910(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `run` on the product. A call with bfloat16 is refused there, and its test is skipped."""

    def run_on_910(op_type: str, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        options.setdefault("soc", SOC)
        if options["soc"] == SOC and _has_bfloat16(inputs, options):
            with pytest.raises(AclnnError) as caught:
                run(op_type, inputs, *args, **options)
            assert caught.value.status == 161002
            if currently_in_test_context():
                reject()
            pytest.skip("no bfloat16")
        return run(op_type, inputs, *args, **options)

    return run_on_910


@pytest.fixture(scope="module", autouse=True)
def patched() -> Iterator[None]:
    """Let the tests of this module run on the product."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "run", _on_910(module.run))
        yield
