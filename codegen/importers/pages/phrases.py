"""Read the phrases of pages that have one meaning; phrases with conditions or negations are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opforge.codegen.expr.program import MAX_RANK
from opforge.codegen.importers.draft import DTYPE_WORDS

_MOST_CLAUSE = 200
_TOKEN = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9_]*")
# Dtypes in running text have capital letters: "float" and "double" are also C types.
_DTYPE = re.compile(
    r"(?<![A-Za-z0-9_])(?:BFLOAT16|BF16|FLOAT16|FLOAT32|FLOAT|DOUBLE|U?INT(?:1|2|4|8|16|32|64)|BOOL|STRING"
    r"|COMPLEX(?:32|64|128)|HIFLOAT8|FLOAT8_E\dM\d[A-Z0-9]*|FLOAT4_E\dM\d|Q?U?INT\d+)(?![A-Za-z0-9_])"
)
_SENTENCE_END = re.compile(r"[。；;\n]|\.(?=\s|\Z)")
_PRODUCT = re.compile(r"<term>|Atlas|Ascend|Kirin|昇腾|产品|product|\bSoC\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"当|如果|若|场景|时[，,、:：]|时$|只有|\b(?:if|when|unless|otherwise)\b|in the case",
    re.IGNORECASE,
)
_CONVERSION = re.compile(r"可?转[化换]|\b(?:converted|cast)\b", re.IGNORECASE)
_NEGATION = re.compile(
    r"不(?:支持|能|可|为|在|是|允许|一致|同)|暂不|[非除无]|\b(?:not|no|cannot|except|excluding|unsupported|other than"
    r"|without|different)\b|n't\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"仅|只|\bonly\b", re.IGNORECASE)
_QUOTES = "[\\s“”‘’`\"'*]*"
_NAME = r"(?P<name>[A-Za-z]\w*)"
_ALIKE = re.compile(
    rf"(?P<of>数据类型\s*(?:[和、及]\s*(?:shape|数据格式|维度)\s*)*)?(?:需要?|必须|应)?"
    rf"(?:与|和|同){_QUOTES}(?:输入|入参|参数)?{_QUOTES}{_NAME}{_QUOTES}"
    rf"(?:参数)?(?:的)?(?:数据类型|类型)?(?:范围)?(?:保持)?(?:一致|相同)"
    r"|(?:the )?(?P<about>data type )?(?:is |must be )?(?:the )?same as (?:(?:that )?of )?(?:the )?(?:input )?"
    rf"{_QUOTES}(?P<other>[A-Za-z]\w*){_QUOTES}(?: parameter)?(?:'s data type| data type)?",
    re.ASCII | re.IGNORECASE,
)
_RANKS = re.compile(r"(\d)\s*(?:[-~～到至]|to)\s*(\d)|(\d)")
_RANGE = re.compile(
    r"(?:the |its )?(?:当前)?(?:支持)?(?:的)?(?:取值范围|取值区间|取值|value range|values range|range)"
    r"(?:支持|为|是|在|:|：|is|\s)*\[\s*(-?\d{1,9})\s*[,，]\s*(-?\d{1,9})\s*\](?:之?内|之?间)?",
    re.IGNORECASE,
)
# A value with its meaning, as in "-1表示" or "0: sum".
_MEANING = re.compile(r"(?<![\w.,\[-])(-?\d{1,9})(?=\s*(?:表示|代表|为|[:：]|means\b|is\b))")
_OPTIONAL = re.compile(
    r"(?:^|[\s。；;，,(（:：])(?:该参数|此参数|本参数)?(?:为|是)?可选(?!的?(?:操作|范围|值|模式|取值))"
    r"|(?<!不)(?:支持|可|可以|允许)(?:传入|传|为|是)?(?:空指针|nullptr)"
    r"|传入?空指针(?:nullptr)?即可|\b(?:can|may) be (?:a )?null|\bsupports? null"
    r"|(?:^|(?<!not an)[\s(])optional (?:input|parameter|tensor|argument)"
    r"|(?:^|[.;,(]\s*)optional\s*(?:[.;,)]|$)|(?:it|this (?:parameter|input|tensor|argument)) is optional",
    re.IGNORECASE | re.MULTILINE,
)


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, without spaces at their ends."""
    return [part for part in (part.strip() for part in _SENTENCE_END.split(text)) if part]


def is_conditional(text: str) -> bool:
    """Return whether a text has a condition, a negation, or a product."""
    return bool(
        _CONDITION.search(text)
        or _CONVERSION.search(text)
        or _NEGATION.search(text)
        or _PRODUCT.search(text)
        or _ONLY.search(text)
    )


def cell_dtypes(cell: str) -> tuple[list[str], bool]:
    """Return the dtypes of a cell with dtypes, and whether all of them apply to each call.

    Words of clauses with conditions or negations are not dtypes of the parameter.
    """
    found = [
        word
        for clause in _stated(re.split(r"[。；;\n，,（）()]", cell))
        for word in _TOKEN.findall(clause)
        if word.lower() in DTYPE_WORDS or _DTYPE.fullmatch(word)
    ]
    return list(dict.fromkeys(found)), not is_conditional(cell)


def _stated(clauses: list[str]) -> Iterator[str]:
    """Yield the clauses without conditions and negations; a negation extends to the end of its list of words."""
    is_negated = False
    for clause in clauses:
        is_list = re.fullmatch(r"[\w\s、/]*", clause, re.ASCII) is not None
        stated = _CONVERSION.split(clause)[0]
        is_negated = bool(_NEGATION.search(stated) or _CONDITION.search(stated)) or (is_negated and is_list)
        if not is_negated:
            yield stated


def text_dtypes(text: str) -> tuple[list[str], bool]:
    """Return the dtypes that sentences about the data type list, and whether all of them apply to each call."""
    lists = list(_dtype_lists(text))
    every = list(dict.fromkeys(word for words, _ in lists for word in words))
    products = [set(words) for words, is_of_product in lists if is_of_product]
    return every, all(words == set(every) for words in products)


def _dtype_lists(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the dtypes of each sentence without a condition, and whether it is about a product."""
    listed = [
        one for one in sentences(text) if _DTYPE.search(one) and not (_CONDITION.search(one) or _CONVERSION.search(one))
    ]
    about = [one for one in listed if re.search(r"数据类型|data types?|dtypes?", one, re.IGNORECASE)]
    for sentence in about or listed:
        clauses = _stated(re.split(r"[，,（）()]", sentence))
        if words := [word for part in clauses for word in _DTYPE.findall(part)]:
            yield words, bool(_PRODUCT.search(sentence))


def same_as(text: str, *, is_cell: bool) -> str:
    """Return the parameter whose dtypes a clause refers to; empty if there is not one.

    Args:
        text: A cell with dtypes, or sentences about all properties of a parameter.
        is_cell: It is a cell with dtypes.
    """
    clauses = (part.strip() for one in sentences(text) for part in re.split("[，,]", one))
    for found in filter(None, (_ALIKE.fullmatch(clause) for clause in clauses if len(clause) < _MOST_CLAUSE)):
        if is_cell or found["of"] or found["about"]:
            return found["name"] or found["other"]
    return ""


def ranks(text: str) -> tuple[int, int] | None:
    """Return the numbers of dimensions in a cell, if it contains one range and nothing else."""
    found = _RANKS.fullmatch(text.strip().strip("维D"))
    if found is None:
        return None
    low, high = (int(found[3]),) * 2 if found[3] else (int(found[1]), int(found[2]))
    return (low, high) if 0 <= low <= high <= MAX_RANK else None


def value_range(text: str) -> tuple[int, int, str] | None:
    """Return the only range of values that a text states for each call, with its sentence."""
    stated = [one for one in sentences(text) if re.search(r"取值|\brange\b|\[\s*-?\d", one, re.IGNORECASE)]
    is_one = len(stated) == 1 and len(stated[0]) < _MOST_CLAUSE
    found = _RANGE.fullmatch(stated[0]) if is_one else None
    if found is None or _CONDITION.search(text) or _PRODUCT.search(text):
        return None
    low, high = int(found[1]), int(found[2])
    if any(not low <= int(value) <= high for value in _MEANING.findall(text)):
        return None
    return (low, high, stated[0]) if low <= high else None


def is_optional(name: str, text: str) -> bool:
    """Return whether a parameter may be a null pointer, by its name or its description."""
    return re.search(r"Optional(?:Ref)?$", name) is not None or _OPTIONAL.search(text) is not None
