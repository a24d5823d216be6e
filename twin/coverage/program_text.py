"""Read the output of programs (findings, reports of right and wrong results) and of compilers."""

from __future__ import annotations

import re

_MOST_LINE = 300
_FAILED = re.compile(r"\b(?:fail(?:ed|ures?)?|errors?|mismatch(?:ed|es)?|incorrect|wrong|ng)\b", re.IGNORECASE)
_PASSED = re.compile(r"\b(?:pass(?:ed)?|success(?:ful)?(?:ly)?|correct)\b", re.IGNORECASE)
# A success that is denied, as in "not passed", "success: false", "0 passed"; and a part of all: "pass 7/8", "pass 99%".
_DENIED = re.compile(
    rf"\b(?:not|never)\s+(?:\w+\s+){{0,2}}?{_PASSED.pattern}|\b0+(?:\s*%)?\s+(?:\w+\s+)?{_PASSED.pattern}"
    rf"|{_PASSED.pattern}(?:\s+(?:rate|ratio|count|number))?(?:\s+is)?\s*[:=?]?\s*(?:false\b|no\b|not\b|0+(?:\.0*)?\s*%?(?![\w./]))",
    re.IGNORECASE,
)
_PART = re.compile(
    rf"{_PASSED.pattern}\W*(?:\w+\W+)?(?P<some>\d+)\s*(?:/|of|out of)\s*(?P<all>\d+)"
    rf"|^(?P<first>\d+)\s*(?:/|of|out of)\s*(?P<last>\d+)\s+(?:\w+\s+){{0,2}}?{_PASSED.pattern}"
    rf"|{_PASSED.pattern}(?:\s+(?:rate|ratio))?\s*[:=]?\s*(?P<percent>\d+(?:\.\d+)?)\s*%",
    re.IGNORECASE,
)
# A number of errors that is zero, and an error that is a measured value. A line may state whether the value is small.
_ZERO = re.compile(
    rf"(?:(?:^|[:,;(=])\s*0(?:\s*(?:/|of|out of)\s*\d+)?\s+(?:\w+\s+){{0,3}}?|\b(?:no|zero)\s+){_FAILED.pattern}"
    rf"|{_FAILED.pattern}(?:\s+(?:count|number|num|ratio|rate))?s?\s*[:=]\s*0+(?:\.0*)?\s*%?(?![\w.])",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"\b(?:largest|max(?:imum|imal)?|mean|average|avg|relative|absolute|rel|abs)\s+(?:\w+\s+)?errors?\b"
    r"|\berror\s+(?:ratio|rate|tolerance|threshold|limit|bound)\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r":\s*(yes|no)\W*$", re.IGNORECASE)
# Lines of the twin: findings, and notes at the end of a program.
_NOTE = re.compile(r": (?:error|warning): \w+ \(block \d+|^exit: ")
_FINDING = re.compile(r"opforge finding\t(?P<kind>[^\t]*)\t(?P<where>[^\t]*)\t(?P<message>.*)")


def printed_findings(output: str) -> list[dict[str, str]]:
    """Return the findings in the output of a unit test, each kind and line once."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in output.splitlines():
        if match := _FINDING.fullmatch(line):
            found.setdefault((match["kind"], match["where"]), match.groupdict())
    return list(found.values())


def reported_result(output: str) -> tuple[bool | None, str]:
    """Return whether the output of a program reports a right result, None if it reports nothing; and the line."""
    lines = [line.strip() for line in output.splitlines() if not _NOTE.search(line)]
    results = {_result_of_line(line): line[:_MOST_LINE] for line in reversed(lines)}
    return next(((result, results[result]) for result in (False, True) if result in results), (None, ""))


def _result_of_line(line: str) -> bool | None:
    rest = _VALUE.sub("", _ZERO.sub("", line))
    if _FAILED.search(rest) or _DENIED.search(rest) or _is_part(rest):
        return False
    if _VALUE.search(line) and (answer := _ANSWER.search(line)):
        return answer[1].lower() == "yes"
    return True if _ZERO.search(line) or _PASSED.search(rest) else None


def _is_part(line: str) -> bool:
    if not (found := _PART.search(line)):
        return False
    if found["percent"]:
        return float(found["percent"]) < 100
    # Not int, which refuses very long numbers.
    return float(found["some"] or found["first"]) < float(found["all"] or found["last"])


def first_error(text: str) -> str:
    """Return the first error of a compiler as one line, without the folders of its file."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|undefined reference", line)]
    line = (errors or lines or ["no message"])[0]
    return re.sub(r"(?<![\w.])(?:/[^\s:/]+)+/([^\s:/]+)", r"\1", line)[:300]
