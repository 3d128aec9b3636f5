"""Findings as JUnit's XML, which servers that build and test can show.

A run is a test suite, each site a test case that failed; the program's own end is one more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from phasebit.emulator import Finding, digest
from phasebit.runtime.report import End

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot say."""


def suites(program: str, findings: Sequence[Finding], end: End) -> str:
    """The whole document. `program`: as the user called it."""
    name = _plain(os.path.basename(program))
    sites = digest.merged(findings)
    bad_end = bool(end.status)
    counts = {
        "tests": str(len(sites) + 1), "failures": str(len(sites)), "errors": str(int(bad_end)),
        "skipped": "0",
    }  # fmt: skip
    root = xml.Element("testsuites", {"name": "phasebit", **counts})
    suite = xml.SubElement(root, "testsuite", {"name": name, **counts})
    case = xml.SubElement(suite, "testcase", {"classname": name, "name": "the program's end"})
    if bad_end:
        how = f"died of {end.signal}" if end.signal else f"ended with status {end.status}"
        how = f"was ended after {end.limit:g} s" if end.limit else how
        xml.SubElement(case, "error", {"type": "end", "message": f"the program {how}"})
    for site in sites:
        finding = site.first
        case = xml.SubElement(suite, "testcase", {
            "classname": _plain(f"{name}.{finding.kernel}" if finding.kernel else name),
            "name": _plain(f"{finding.rule} at {site.where}" if site.where else finding.rule),
        })  # fmt: skip
        text = _plain(digest.sentence(finding))
        more = f"\n{site.count} times" if site.count > 1 else ""
        failure = {"type": finding.rule, "message": text.splitlines()[0]}
        xml.SubElement(case, "failure", failure).text = text + more
    xml.indent(root)
    return xml.tostring(root, "unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
