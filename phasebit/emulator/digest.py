"""Many findings in few words: each site once, with a count, and no rule crowded out by another.

A site is where a rule is broken: a kernel, and the source lines of the accesses in question, or
the PTX lines where there is no source.  One loop that a compiler unrolls is found as often as it
was unrolled; people are told of its line once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from phasebit.emulator.findings import Finding, Place

MOST = 5
"""Sites of one rule in one kernel that are told."""

Key: TypeAlias = tuple[str, str, tuple[tuple[str, int], ...]]


def site_of(finding: Finding) -> Key:
    """What findings of one site have in common: the rule, the kernel, the lines."""
    places = _places(finding)
    lines = tuple(map(_line, places)) if places else ((finding.message, 0),)
    return finding.rule, finding.kernel, lines


def _places(finding: Finding) -> list[Place]:
    """Of the access that noticed, then the others that it names; of a deadlock those of waits."""
    places = [finding.at] if finding.at else []
    places += [place for place in finding.places if place != finding.at]
    return [wait.place for wait in finding.waits if wait.place] if finding.waits else places


def _line(place: Place) -> tuple[str, int]:
    return (place.file, place.line) if place.calls else ("PTX", place.ptx_line)


@dataclass
class Site:
    """Findings of one site: the first of them, and how many there are."""

    first: Finding
    count: int = 0
    launches: int = 0
    """Launches that have one."""

    @property
    def where(self) -> str:
        """``kernel.cu:7 and kernel.cu:5``, as far as it is known."""
        places = [place.source or f"PTX line {place.ptx_line}" for place in _places(self.first)]
        return " and ".join(dict.fromkeys(places))


def merged(findings: Iterable[Finding]) -> list[Site]:
    """Findings by site, in order of the first of each."""
    sites: dict[Key, Site] = {}
    last: dict[Key, int] = {}
    for finding in findings:
        key = site_of(finding)
        site = sites.setdefault(key, Site(finding))
        site.count += 1
        if last.get(key) != finding.launch:
            last[key] = finding.launch
            site.launches += 1
    return list(sites.values())


class Digest:
    """Tells findings as they come; at the end, how often what was told came again.

    ``most``: the sites of one rule in one kernel that are told; None: every finding by itself.
    """

    def __init__(self, most: int | None = MOST) -> None:
        self.most = most
        self._sites: dict[Key, Site] = {}
        self._told: Counter[tuple[str, str]] = Counter()
        self._untold: Counter[tuple[str, str]] = Counter()

    def tell(self, findings: Sequence[Finding]) -> list[str]:
        """What there is to say of the findings of one launch: how it ended comes last."""
        findings = sorted(findings, key=lambda finding: finding.ends)
        if self.most is None:
            return [sentence(finding) for finding in findings]
        texts = []
        for site in merged(findings):
            key, rule = site_of(site.first), (site.first.rule, site.first.kernel)
            known = self._sites.setdefault(key, site)
            if known is not site:
                known.count += site.count
                known.launches += 1
            elif self._told[rule] < self.most or site.first.ends:
                self._told[rule] += 1
                more = f" (and {site.count - 1} more there)" if site.count > 1 else ""
                texts.append(sentence(site.first) + more)
            else:
                self._untold[rule] += 1
        return texts

    def rest(self) -> list[str]:
        """What came again, and what was one site too many."""
        texts = []
        for site in self._sites.values():
            if (more := site.launches - 1) and site.first.kernel:
                s = "es" if more > 1 else ""
                texts.append(
                    f"kernel {site.first.kernel}: {site.first.rule} at {site.where} again, in "
                    f"{more} more launch{s}"
                )
            elif more:
                texts.append(f"{site.first.rule} {more} more time{'s' if more > 1 else ''}")
        for (rule, kernel), count in self._untold.items():
            who = f"kernel {kernel}: " if kernel else ""
            texts.append(f"{who}{rule} at {count} more place{'s' if count > 1 else ''}")
        return texts


def sentence(finding: Finding) -> str:
    """One finding, with the name of its kernel where it is known."""
    if not finding.kernel:
        return str(finding)
    return f"kernel {finding.kernel}{' ' if finding.kind == 'time' else ': '}{finding}"


def told(findings: Iterable[Finding], most: int | None = MOST) -> list[str]:
    """What people are told of all findings of a run, launch by launch."""
    digest = Digest(most)
    texts: list[str] = []
    launches: dict[tuple[int, str], list[Finding]] = {}
    for finding in findings:
        launches.setdefault((finding.launch, finding.kernel), []).append(finding)
    for group in launches.values():
        texts += digest.tell(group)
    return texts + digest.rest()


__all__ = ["MOST", "Digest", "Site", "merged", "sentence", "site_of", "told"]
