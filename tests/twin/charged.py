"""Cycles that the time model charges, from instruction counts and the constants of twin/npu_model.json."""

from __future__ import annotations

from opforge.twin.build import npu_model

MODEL: dict[str, float] = {name: row["value"] for name, row in npu_model()["constants"].items()}
REPEAT_BYTES = 256
FAST = MODEL["vector_cycles_per_repeat"]
SLOW = MODEL["vector_slow_cycles_per_repeat"]
DIV = MODEL["vector_div_cycles_per_repeat"]
TWO_OPERANDS = 2 * MODEL["vector_bank_conflict_cycles"]  # sources that begin in one bank group
UB, GM = MODEL["scalar_ub_access_cycles"], MODEL["scalar_gm_access_cycles"]
COPY = MODEL["dma_issue_cycles"]  # of few bytes
ISSUE = 1.0  # an instruction of the scalar unit that has no effect on the twin
FREE = 0.0  # registers, flags and other scalar code


def repeats(count: int, size: int) -> int:
    """Return the repeats of an instruction for `count` elements of `size` bytes."""
    return -(-count * size // REPEAT_BYTES)


def vector(number: float, each: float = FAST, instructions: int = 1) -> float:
    """Return the cycles of instructions with `number` repeats of `each` cycles."""
    return instructions * (MODEL["vector_issue_cycles"] + number * each)
