"""Flags of the compiler for kernels, host code and the library of the twin."""

from opforge.codegen.data.products import DEFAULT_ARCH

WARNINGS = ("-Wall", "-Wextra", "-Werror")
# Findings name the source line of a return address. The build therefore has a line table, without what takes 40 % of
# the compile time, and no transformation that merges calls of several lines or removes the frame of a caller.
_GNU_LINE_FLAGS = (
    *("-gno-statement-frontiers", "-gno-inline-points", "-gno-variable-location-views", "-fno-var-tracking"),
    *("-fno-crossjumping", "-fno-tree-tail-merge", "-fno-ipa-icf"),
)
LINE_FLAGS = ("-g1", "-gdwarf-4", "-gz=none", "-fno-optimize-sibling-calls", *_GNU_LINE_FLAGS)
# The list of the files that a source includes; with g++, it contains those of precompiled headers.
_GNU_LIST_FLAG = "-fpch-deps"
LIST_FLAGS = (_GNU_LIST_FLAG, "-MD", "-MF")
# Flags that only g++ has.
GNU_FLAGS = frozenset((*_GNU_LINE_FLAGS, _GNU_LIST_FLAG))
# Kernels check their arrays and stack frames (overruns.h); large frames are probed page by page. They run for
# milliseconds, mostly in the library of the twin, and compile in two thirds of the time of -O2.
_FRAME_FLAGS = ("-fsanitize=bounds", "-fstack-protector-strong", "-fstack-clash-protection")
KERNEL_FLAGS = ("-O1", "-fno-math-errno", "-Wcast-qual", *_FRAME_FLAGS, *LINE_FLAGS)
# Kernels must also compile with the types of the device's parameter structures (params.h).
DEVICE_FIELDS = ("-DOPFORGE_TWIN_DEVICE_FIELDS",)
COMMON = ("-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-pthread")
# For the host part of the library; for plans and the library for onnxruntime, which run once per call; for other
# host code. Each one compiles faster than the one before.
HOST_FLAGS, PLAN_FLAGS, GLUE_FLAGS = ("-O1",), ("-Og",), ("-O0",)


def arch_flags(arch: int) -> tuple[str, ...]:
    """Return the flags that compile a kernel for an architecture."""
    return () if arch == DEFAULT_ARCH else (f"-DOPFORGE_TWIN_ARCH={arch}",)


def arch_prefix(arch: int) -> str:
    """Return the folder of objects of an architecture, with a slash."""
    return "" if arch == DEFAULT_ARCH else f"{arch}/"
