"""Describe a package for other tools: a CycloneDX list of its files, and an in-toto statement of its build.

Both have no date and no random number, so that equal input gives equal bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from typing import Any

SBOM, PROVENANCE = "sbom.cdx.json", "provenance.json"


def documents(facts: Mapping[str, object], sources: Mapping[str, bytes], tree: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the two documents by name.

    Args:
        facts: The values of the manifest: vendor, version, note, operators, socs, cann.
        sources: Content of the hand-written sources by path below the project folder.
        tree: Content of all other files by path below the vendor folder.
    """
    digests = _digests(tree)
    made = {SBOM: _bill_of_materials(facts, digests), PROVENANCE: _statement(facts, _digests(sources), digests)}
    return {name: (json.dumps(document, indent=1) + "\n").encode() for name, document in made.items()}


def _bill_of_materials(facts: Mapping[str, object], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document (ECMA-424)."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "opforge", "version": _version()}]},
            "component": {
                "type": "library",
                "bom-ref": "package",
                "name": facts["vendor"],
                "version": facts["version"],
                "description": facts["note"],
            },
        },
        "components": [
            {"type": "file", "bom-ref": path, "name": path, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for path, digest in digests.items()
        ],
    }


def _statement(facts: Mapping[str, object], sources: Mapping[str, str], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return an in-toto statement 1 with the predicate "SLSA provenance 1"."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": _resources(digests),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "opforge:pack",
                "externalParameters": {key: facts[key] for key in ("vendor", "version", "operators", "socs", "cann")},
                "resolvedDependencies": _resources(sources),
            },
            "runDetails": {"builder": {"id": "opforge:pack", "version": {"opforge": _version()}}},
        },
    }


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())}


def _resources(digests: Mapping[str, str]) -> Sequence[dict[str, Any]]:
    return [{"name": path, "digest": {"sha256": digest}} for path, digest in digests.items()]


def _version() -> str:
    return importlib.metadata.version("opforge")
