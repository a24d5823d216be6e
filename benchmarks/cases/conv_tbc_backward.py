"""Cases of ConvTbcBackward: large products in every dtype, narrow and odd channels, a large batch, a long kernel."""

from __future__ import annotations

from collections.abc import Iterator

from case import Case, Target, values
from floor import Floor

KEEP, FP16, HF32 = 0, 2, 3
LARGE_HALVES = Target(bytes=1.5, eff=0.85, bal=1.5)
HALVES = Target(bytes=1.5, eff=0.65, bal=1.5)
SINGLE = Target(bytes=1.5, eff=0.60, bal=1.5)
NARROW = Target(bytes=2.0, eff=0.50, bal=2.0, of_small=True)
SUFFIXES = {KEEP: "", FP16: " as FP16", HF32: " as HF32"}


BLOCK = 16  # channels of a block of the cube unit
ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}


def _floor(sizes: tuple[int, int, int, int, int], dtype: str, rate: str) -> Floor:
    """Return the floor: both products. Cores share the sums over all rows; the merge overlaps with grad_input."""
    time, batch, c_in, c_out, taps = sizes
    padded = -(-c_in // BLOCK) * -(-c_out // BLOCK) * BLOCK**2
    # Rows of the padding need no product.
    steps = sum(max(time - abs(tap - taps // 2), 0) for tap in range(taps))
    summed = batch * (time * c_in + (time + 2 * (taps // 2) + 1 - taps) * c_out) * ELEMENT_BYTES[dtype]
    return Floor(barriers=1, summed_bytes=summed, macs=2 * steps * batch * padded, rate=rate)


def _case(
    sizes: tuple[int, int, int, int, int], dtype: str, target: Target | None, kind: int = KEEP, *, quick: bool = False
) -> Case:
    """Return a case for the `sizes` T, B, Cin, Cout, K.

    The result of the forward operator is as long as its input, or one step longer.
    """
    time, batch, c_in, c_out, taps = sizes
    pad = taps // 2
    return Case(
        name=f"[T,B,Cin,Cout,K]=[{','.join(map(str, sizes))}]{SUFFIXES[kind]}",
        dtype=dtype,
        inputs=lambda: {
            "self": values((time + 2 * pad + 1 - taps, batch, c_out), dtype, 1),
            "input": values((time, batch, c_in), dtype, 2),
            "weight": values((taps, c_in, c_out), dtype, 3),
            "bias": values((c_out,), dtype, 4),
        },
        attrs={"pad": pad, "cube_math_type": kind},
        target=target,
        floor=_floor(sizes, dtype, "hf32" if kind == HF32 else "fp16" if kind == FP16 else dtype),
        quick=quick,
    )


LARGE = ((512, 32, 512, 512, 3), (128, 64, 1024, 1024, 5), (2048, 8, 256, 256, 9), (64, 16, 1600, 4096, 1))
ODD = ((512, 32, 80, 1, 3), (512, 32, 97, 97, 3), (16, 4096, 64, 64, 2), (300, 2, 64, 64, 255))


def _cases() -> Iterator[Case]:
    for sizes in LARGE:
        for dtype in ("fp16", "bf16"):
            yield _case(sizes, dtype, LARGE_HALVES)
    for sizes in (LARGE[0], LARGE[3]):
        for kind in (KEEP, HF32):
            yield _case(sizes, "fp32", SINGLE, kind)
    yield _case(LARGE[0], "fp32", None, FP16)
    for sizes in ODD:
        yield _case(sizes, "fp16", NARROW)
    yield _case((64, 8, 128, 96, 3), "fp16", HALVES, quick=True)
    yield _case((64, 8, 96, 128, 3), "fp32", SINGLE, HF32, quick=True)


CASES = tuple(_cases())
