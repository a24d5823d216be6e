"""Read the table of dtypes, storage formats and products (codegen/data/tables.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = json.loads(
    Path(__file__).resolve().parent.parent.joinpath("data", "tables.json").read_text(encoding="utf-8")
)
