"""Define the reason why a rule, a formula or an evaluation has no result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """The condition that does not hold, with the observed values.

    Attributes:
        text: One sentence without a subject, which continues the name of the node or the value.
        nodes: Numbers of the nodes in the sentence; empty for the node at which a rule was tried.
    """

    text: str
    nodes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.text


class Unmatched(Exception):  # noqa: N818  # an answer, not a failure
    """Carries a reason out of nested functions: not matched, not lowered, or not constant.

    Attributes:
        reason: The reason.
    """

    def __init__(self, text: str, nodes: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.reason = Reason(text, nodes)


class Unrelated(Unmatched):
    """A node is not a candidate of a rule; a report does not mention it."""

    def __init__(self) -> None:
        super().__init__("is no candidate")


class Malformed(Unmatched):
    """The reason why a value is invalid."""
