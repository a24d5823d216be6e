"""Define the results of a run on the twin: outputs, report, findings, and errors of calls and kernels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opforge.codegen.errors import UserError
from opforge.twin.compiler.npu_model import error_range

from .acl import Array


class AclnnError(Exception):
    """An aclnn function rejected the call.

    Attributes:
        function: The aclnn function.
        status: Its status code: 161001, 161002, 561002, ...
    """

    def __init__(self, function: str, status: int, message: str) -> None:
        super().__init__(f"{function} returned {status}: {message}")
        self.function = function
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Finding:
    """An error that the twin found in a kernel.

    Attributes:
        kind: Name of the check.
        block: Core that was running, -1 for a finding about the launch as a whole.
        pipe: Pipe of the instruction.
        where: Source file and line.
        message: The error, the expected behavior, and the fix.
        warning: Not an error by itself: a call with only warnings succeeds.
    """

    kind: str
    block: int
    pipe: str
    where: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        kind = f"warning: {self.kind}" if self.warning else self.kind
        place = f"{self.where}: " if self.where else ""
        core = f" (block {self.block}, pipe {self.pipe})" if self.block >= 0 else ""
        return f"{place}{kind}{core}: {self.message}"


class TwinWarning(UserWarning):
    """A finding of a call that succeeded."""


class FindingsError(Exception):
    """A kernel ran, but the twin found errors; `findings` has all of them."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


@dataclass(frozen=True)
class Report:
    """Traffic and estimated time of a call; all sizes in bytes, summed over its kernel launches.

    Attributes:
        gm_bytes_read: Bytes that DMA read from global memory, including repeated reads.
        gm_bytes_written: Bytes that DMA wrote.
        first_touch_bytes: Bytes of the 128-byte sectors of all accesses that L2 does not serve.
        minimal_bytes: The size of all inputs and outputs, each counted once.
        dma_count: DMA instructions.
        blocks: Cores of the largest launch.
        balance: Estimated time of the busiest core over the mean of all cores of its kind.
        traffic_balance: The same of DMA bytes.
        estimate_us: Time by the model of npu_model.json, including launch overhead; an estimate, not a measurement.
        launch_us: The launch overhead in it.
        bound_us: Roofline bound of the problem: all inputs, and the outputs that L2 cannot keep, at the bandwidth of
            global memory. If the other outputs at the bandwidth of L2 or the products at the peak of all cube cores
            take longer, it is their time.
        error_range: The range of the device time relative to `estimate_us`: (-0.25, 0.32) means -25 % / +32 %.
        outside_range: The reasons why no published time is comparable with a launch; empty in the calibrated range of
            the model.
    """

    gm_bytes_read: int
    gm_bytes_written: int
    first_touch_bytes: int
    minimal_bytes: int
    dma_count: int
    blocks: int
    balance: float
    traffic_balance: float
    estimate_us: float
    launch_us: float
    bound_us: float
    error_range: tuple[float, float] = field(default_factory=error_range)
    outside_range: tuple[str, ...] = ()

    @property
    def efficiency(self) -> float:
        """The bound divided by the estimate without launch overhead; 0 if no kernel ran."""
        running = self.estimate_us - self.launch_us
        return self.bound_us / running if running > 0 else 0.0


class Result(Mapping[str, Any]):
    """The outputs of a call by name, `report`, `warnings`, and `launches`: the report of each launch as plain data.

    An output is an array, or a list of arrays for a list of tensors.
    """

    def __init__(self, outputs: Mapping[str, Array | list[Array]], launches: Sequence[Mapping[str, Any]]) -> None:
        self._outputs = outputs
        self.launches = tuple(launches)
        self.report = _total(launches)
        self.warnings = tuple(findings_of(launches))

    def __getitem__(self, name: str) -> Any:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)


def warn(findings: Sequence[Finding]) -> None:
    """Issue findings as Python warnings at the caller of `run`; Python prints equal ones once."""
    for finding in findings:
        warnings.warn(str(finding), TwinWarning, stacklevel=3)


def findings_of(reports: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings in the reports of launches.

    Raises:
        UserError: The process had too little memory, addresses or threads for a launch.
    """
    keys = ("kind", "block", "pipe", "where", "message", "warning")
    if lacking := [found for report in reports for found in report["findings"] if found["kind"] == "resources"]:
        raise UserError(lacking[0]["message"])
    return [Finding(**{key: found[key] for key in keys}) for report in reports for found in report["findings"]]


def _total(reports: Sequence[Mapping[str, Any]]) -> Report:
    sums = ("gm_bytes_read", "gm_bytes_written", "first_touch_bytes", "minimal_bytes", "dma_count")
    return Report(
        **{key: sum(report[key] for report in reports) for key in sums},
        blocks=max((report["blocks"] for report in reports), default=0),
        balance=max((report["balance"] for report in reports), default=0.0),
        estimate_us=sum((report["estimate_us"] for report in reports), 0.0),
        launch_us=sum((report["launch_us"] for report in reports), 0.0),
        bound_us=sum((report["bound_us"] for report in reports), 0.0),
        traffic_balance=max((report["traffic_balance"] for report in reports), default=0.0),
        outside_range=tuple(dict.fromkeys(reason for report in reports for reason in report["outside_range"])),
    )
