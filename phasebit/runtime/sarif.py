"""Findings as SARIF 2.1.0, which code hosts show beside the lines.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import phasebit
from phasebit.emulator import Finding, digest, rulebook
from phasebit.emulator.findings import Place
from phasebit.runtime.report import End

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def log(program: str, findings: Sequence[Finding], end: End) -> dict[str, Any]:
    """The whole log, of one run. `program`: as the user called it."""
    sites = digest.merged(findings)
    names = sorted({site.first.rule for site in sites})
    invocation: dict[str, Any] = {"executionSuccessful": not end.status, "exitCode": end.status}
    if end.signal:
        invocation["exitSignalName"] = end.signal
    driver = {
        "name": "phasebit",
        "version": phasebit.__version__,
        "rules": [_rule(rulebook.rule(name)) for name in names],
    }
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"phasebit/{os.path.basename(program)}"},
                "invocations": [invocation],
                "results": [_result(site, names) for site in sites],
                "columnKind": "utf16CodeUnits",
            }
        ],
    }


def _rule(rule: rulebook.Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": f"{rule.sentence} {rule.source}."},
        "defaultConfiguration": {"level": _level(rule.name)},
        "properties": {"kind": rule.kind, "grade": rule.grade},
    }


def _level(rule: str) -> str:
    return "error" if rulebook.rule(rule).grade == rulebook.CAN_CORRUPT else "warning"


def _result(site: digest.Site, names: Sequence[str]) -> dict[str, Any]:
    finding = site.first
    places = [finding.at, *finding.places, *(wait.place for wait in finding.waits)]
    known = [place for place in dict.fromkeys(places) if place and place.calls]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": names.index(finding.rule),
        "level": _level(finding.rule),
        "message": {"text": digest.sentence(finding)},
        "locations": [_location(known[0], finding.kernel)] if known else [],
        "occurrenceCount": site.count,
        "partialFingerprints": {"site/v1": _fingerprint(finding)},
    }
    if known[1:]:
        result["relatedLocations"] = [
            {"id": number, **_location(place, finding.kernel)}
            for number, place in enumerate(known[1:], 1)
        ]
    return result


def _location(place: Place, kernel: str) -> dict[str, Any]:
    region = {"startLine": place.line}
    if place.column:
        region["startColumn"] = place.column
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(place.path or place.file)},
            "region": region,
        }
    }
    if kernel:
        location["logicalLocations"] = [{"fullyQualifiedName": kernel, "kind": "function"}]
    return location


def _uri(path: str) -> str:
    """A path below the current folder as one that counts from there, others as they are."""
    with contextlib.suppress(OSError):  # the current folder may be gone
        here = os.path.relpath(path) if os.path.isabs(path) else path
        if here.startswith(os.pardir + os.sep):
            return Path(path).resolve().as_uri()
        path = os.path.normpath(here)
    return Path(path).as_uri() if os.path.isabs(path) else quote(os.fsencode(path))


def _fingerprint(finding: Finding) -> str:
    return hashlib.sha256(repr(digest.site_of(finding)).encode()).hexdigest()[:32]
