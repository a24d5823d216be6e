"""Compute the floor of a case: the minimum time by the constants of the time model, in addition to the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opforge.codegen.data.products import SOCS
from opforge.twin.compiler.npu_model import npu_model

# After the last load: a copy to L0, an Mmad and its store; the flag to the vector cores; after the barrier, a load, a
# vector instruction and its store. Five flags connect pipes of a core.
_CHAIN = {
    "l1_load_issue_cycles": 1,
    "mmad_issue_cycles": 1,
    "dma_issue_cycles": 3,
    "cross_core_flag_cycles": 1,
    "vector_issue_cycles": 1,
    "vector_drain_cycles": 1,
    "flag_cycles": 5,
}


@dataclass(frozen=True)
class Floor:
    """The unavoidable costs of a problem in every kernel.

    Attributes:
        dmas: DMA instructions of all vector cores that no order of the data avoids.
        loads: Loads that depend on each other: the latency of reads on a core.
        stores: Stores that depend on each other: the latency of writes on a core.
        barriers: Barriers of all cores, if cores merge sums of other cores.
        summed_bytes: Bytes of the terms of these sums, if the cube computes them, and if other work overlaps with the
            barriers and the merge.
        macs: Multiplications with the channels padded to whole blocks of the cube unit.
        rate: Dtype of these multiplications in `cube_macs_per_cycle`.
    """

    dmas: int = 0
    loads: int = 1
    stores: int = 1
    barriers: int = 0
    summed_bytes: int = 0
    macs: int = 0
    rate: str = "fp16"

    def us(self, bound_us: float, soc: str = "Ascend910B1") -> float:
        """Return the floor in microseconds, without launch overhead."""
        chip, rates = SOCS[soc], _constant("cube_macs_per_cycle")
        latency = self.loads * _constant("dma_read_latency_cycles") + self.stores * _constant(
            "dma_write_latency_cycles"
        )
        latency += (self.loads + self.stores) * _constant("dma_crowded_latency_cycles")
        issue = self.dmas / chip.aiv * _constant("dma_issue_cycles")
        cube = self.macs / chip.aic / rates[self.rate]
        barriers_us = self.barriers * _constant("sync_all_cycles") / chip.mhz
        work_us = max(bound_us, (latency + max(issue, cube)) / chip.mhz)
        if self.summed_bytes == 0:
            return work_us + barriers_us
        # The partial sums are stored and loaded again. The chain begins after the last load of a term.
        chain = 2 * latency + sum(count * _constant(name) for name, count in _CHAIN.items())
        sums_us = self.summed_bytes / _constant("gm_bandwidth_bytes_per_s") * 1e6 + chain / chip.mhz
        return max(work_us, sums_us + barriers_us)


def _constant(name: str) -> Any:
    return npu_model()["constants"][name]["value"]
