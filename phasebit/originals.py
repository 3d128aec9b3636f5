"""Others' programs as they were: at the commit with a bug, and without it.

None of their code is kept here. ``bugs/originals.toml`` says which files of which commit, with a
checksum, how they are compiled, and what the emulator must say of them. They come from GitHub, or
from a clone, into the folder of builds, and once there are not asked for again.
"""

from __future__ import annotations

import datetime
import hashlib
import http.client
import importlib.util
import io
import json
import os
import subprocess
import tarfile
import tomllib
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, cast

from phasebit import bugs, build_cache, files, process, toolchain
from phasebit.bugs import Outcome
from phasebit.runtime import apart
from phasebit.runtime.command import nvcc_command

RECORD = "originals.json"
"""The name of the record: what the page of the book shows."""

SECONDS = 600.0
"""How long a program may run on the emulator; alone on a machine each takes less than a minute."""

BUILD_SECONDS = 1800.0
FETCH_SECONDS = 120.0


class Refused(Exception):
    """Something that is missing or not as it should be, in a sentence."""


class NotHere(Refused):
    """What a program needs is not on this machine: it is left out, the others run."""


@dataclass(frozen=True)
class Original:
    """One program; the fields but ``name`` are those of its table in ``originals.toml``.

    ``commits``: twin -> the commit.  ``checksums``: twin -> the SHA-256 of the files in
    ``folders`` at it, as :func:`checksum` has it.  Where nobody has mended it, both commits are
    one, and ``repair`` has pairs of a line and what takes its place in ``program`` of the fixed
    twin.  ``program`` lies in the repository, or here where the repository is a library only
    (``ours``).  A program of CuTe DSL is not compiled beforehand: ``driver`` is a program of ours
    that is given its path, and runs its kernel.  ``rule`` is what must be said of the broken one,
    ``place`` a word of the report.
    """

    name: str
    title: str
    repository: str
    thread: str
    kind: str
    state: str
    arch: str
    folders: tuple[str, ...]
    program: str
    arguments: tuple[str, ...]
    rule: str
    place: str
    commits: dict[str, str]
    checksums: dict[str, str]
    include: tuple[str, ...]
    options: tuple[str, ...] = ()
    ours: bool = False
    driver: str = ""
    repair: tuple[tuple[str, str], ...] = ()

    def tree(self, twin: str, clone: Path | None = None) -> Path:
        """The folder with its files, at the commit of ``"broken"`` or ``"fixed"``.

        From ``clone`` where one is given, else from GitHub. Raises :class:`Refused` where they
        cannot be had or are not those of the checksum.
        """
        commit, wanted = self.commits[twin], self.checksums[twin]

        def make(path: Path) -> None:
            found = (
                from_clone(clone, commit, self.folders) if clone
                else from_github(self.repository, commit, self.folders)
            )  # fmt: skip
            if (got := checksum(found)) != wanted:
                raise Refused(
                    f"{self.name}: the files of {self.repository} at {commit} have the checksum "
                    f"{got}, and bugs/originals.toml has {wanted}: nothing is compiled"
                )
            for name, content in found.items():
                target = path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)

        return build_cache.keep(f"original-{wanted[:32]}", make)

    def build(self, twin: str, clone: Path | None = None) -> Path:
        """The program, compiled for the emulator.  Raises as :meth:`tree`, and for the compiler."""
        tree = self.tree(twin, clone)
        source = (files.book().parent if self.ours else tree) / self.program
        text = self._mended(source, twin)
        if self.driver:
            return self._kept(text, source.name)
        options = [f"-arch={self.arch}", "-std=c++17", "--expt-relaxed-constexpr", "-O1", "-w"]
        options += ["-lineinfo", *self.options]
        named = "\n".join([text, self.checksums[twin], *options, str(toolchain.nvcc().version)])
        key = hashlib.sha256(named.encode()).hexdigest()[:32]

        def make(path: Path) -> None:
            path.mkdir()
            program = path / source.name
            program.write_text(text, encoding="utf-8")
            folders = [f"-I{tree / folder}" for folder in self.include]
            command = [*nvcc_command([*options, *folders, f"-I{source.parent}", str(program)]),
                       "-o", str(path / "program")]  # fmt: skip
            done = process.run(command, timeout=BUILD_SECONDS)
            if not done.ok:
                why = f"not within {BUILD_SECONDS:g} s" if done.stopped == "time" else ""
                raise Refused(
                    f"{self.name}: nvcc does not compile it{why and f' {why}'}:\n"
                    f"{done.stderr[-2000:]}"
                )

        return build_cache.keep(f"built-{key}", make) / "program"

    def _mended(self, source: Path, twin: str) -> str:
        """The program's text, of the fixed twin with our repair where there is one."""
        if not source.is_file():
            raise Refused(f"{self.name}: there is no {source}: run from a checkout of the book")
        text = source.read_text(encoding="utf-8")
        for old, new in self.repair if twin == "fixed" else ():
            if text.count(old) != 1:
                raise Refused(f"{self.name}: {self.program} has no single line {old!r} to mend")
            text = text.replace(old, new)
        return text

    def _kept(self, text: str, name: str) -> Path:
        """The text as a file of that name, in the folder of builds."""

        def make(path: Path) -> None:
            path.mkdir()
            (path / name).write_text(text, encoding="utf-8")

        key = hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:32]
        return build_cache.keep(f"mended-{key}", make) / name

    def run(self, twin: str, clone: Path | None = None, *, schedule: str = "late") -> Outcome:
        """What it prints, how it ends, and what the emulator finds.

        Raises as :meth:`build`, and :class:`NotHere` for a kernel of CuTe DSL without CuTe DSL.
        """
        if self.driver and importlib.util.find_spec("cutlass") is None:
            raise NotHere(f"{self.name}: needs CuTe DSL: pip install nvidia-cutlass-dsl")
        options = ("--schedule", schedule)
        command: list[str | os.PathLike[str]] = [self.build(twin, clone), *self.arguments]
        if self.driver:
            tree = self.tree(twin, clone)
            folders = [*(tree / folder for folder in self.include), os.environ.get("PYTHONPATH")]
            modules = os.pathsep.join(os.fspath(folder) for folder in folders if folder)
            driven = [files.book().parent / self.driver, *command]
            done, told = apart.reported(
                lambda report: ["phasebit.cute", "--target", self.arch, "--report", report,
                                *options, *driven],
                2 * SECONDS,
                {**os.environ, "PYTHONPATH": modules, "PYTHONWARNINGS": "ignore"},
            )  # fmt: skip
        else:
            done, told = apart.run(command, SECONDS, 2 * SECONDS, *options)
        return Outcome(done.stdout + done.stderr, done.status, told.findings)

    def verdict(self, twin: str, seen: Outcome) -> str:
        """One word: found, other or silent; clean or false alarm."""
        if twin == "fixed":
            return "false alarm" if seen.findings else "clean"
        named = [f for f in seen.findings if f.rule == self.rule and self.place in str(f)]
        return "found" if named else "other" if seen.findings else "silent"


def path() -> Path:
    """The list."""
    return files.bugs() / "originals.toml"


@cache
def every() -> tuple[Original, ...]:
    """All of them. Raises :class:`Refused` for a list that is off."""
    found = []
    for name, table in tomllib.loads(path().read_text(encoding="utf-8")).items():
        given: dict[str, Any] = dict(table)
        given |= {key: tuple(v) for key, v in table.items() if isinstance(v, list)}
        given["repair"] = tuple((old, new) for old, new in table.get("repair", ()))
        try:
            one = Original(name, **given)
        except TypeError as error:
            raise Refused(f"{path()}: {name}: {error}") from None
        if one.kind not in bugs.KINDS or {*one.commits} != {*bugs.TWINS} != {*one.checksums}:
            raise Refused(f"{path()}: {name}: a kind of bugs/, and two commits and checksums")
        found.append(one)
    return tuple(found)


def named(name: str) -> Original:
    """One of them. Raises :class:`Refused` for a name that none has."""
    for one in every():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in every())
    raise Refused(f"no original is called {name!r}: choose from {known}")


def checksum(found: dict[str, bytes]) -> str:
    """The SHA-256 of the lines that ``sha256sum`` prints of all files, sorted by their paths."""
    lines = (f"{hashlib.sha256(found[name]).hexdigest()}  {name}\n" for name in sorted(found))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def from_github(repository: str, commit: str, folders: Iterable[str]) -> dict[str, bytes]:
    """Path -> content of the files in these folders. Raises :class:`Refused`."""
    address = f"https://codeload.github.com/{repository}/tar.gz/{commit}"
    found = {}
    try:
        with urllib.request.urlopen(address, timeout=FETCH_SECONDS) as answer:
            data = answer.read()
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if member.isfile() and _within(name, folders):
                    held = archive.extractfile(member)
                    assert held is not None
                    found[name] = held.read()
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        raise Refused(
            f"cannot fetch {address}: {error}; with a clone of {repository}: --from FOLDER"
        ) from None
    return found


def from_clone(clone: Path, commit: str, folders: Iterable[str]) -> dict[str, bytes]:
    """The same, from a clone, or a bare repository, on this machine. Raises :class:`Refused`."""

    def git(words: list[str], given: bytes = b"") -> bytes:
        command = ["git", "-C", os.fspath(clone), *words]
        try:
            done = subprocess.run(command, input=given, capture_output=True, check=False)
        except OSError as error:
            raise Refused(f"git cannot be started, {error.strerror}: --from needs it") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Refused(f"{clone} gives no files of {commit}: {said[-1] if said else 'git'}")
        return done.stdout

    listed = git(["ls-tree", "-r", "-z", commit, "--", *folders]).decode().split("\0")
    rows = [entry.partition("\t") for entry in listed if entry.startswith("100")]
    blobs = [facts.split()[2] for facts, _, _ in rows]
    data = memoryview(git(["cat-file", "--batch"], "".join(f"{b}\n" for b in blobs).encode()))
    found, at = {}, 0
    for (_, _, name), blob in zip(rows, blobs, strict=True):
        end = at + bytes(data[at : at + 200]).index(b"\n")
        words = bytes(data[at:end]).split()
        if len(words) != 3:
            raise Refused(f"{clone} has not all of {commit}: {name}, {blob}, is missing")
        size = int(words[2])
        found[name] = bytes(data[end + 1 : end + 1 + size])
        at = end + 2 + size
    return found


def _within(name: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these files or lies in one of these folders, and nowhere else."""
    path = PurePosixPath(name)
    return ".." not in path.parts and any(path.is_relative_to(folder) for folder in folders)


def measure(
    of: Iterable[Original], clone: Path | None, told: Callable[[str], None], *,
    schedule: str = "late",
) -> dict[str, Any]:  # fmt: skip
    """The record: what the emulator says of both twins of each.

    ``told`` hears of each as it comes; one that this machine cannot run has no row. Raises
    :class:`Refused`.
    """
    rows: dict[str, Any] = {}
    for one in of:
        row: dict[str, Any] = {"schedule": schedule}
        for twin in bugs.TWINS:
            try:
                seen = one.run(twin, clone, schedule=schedule)
            except NotHere as why:
                told(str(why))
                break
            rows[one.name] = row
            said = [str(f) for f in seen.findings if f.rule == one.rule and one.place in str(f)]
            row[twin] = one.verdict(twin, seen)
            if twin == "broken":
                row["rules"] = ", ".join(sorted({f.rule for f in seen.findings}))
                row["said"] = said[0] if said else ""
            row[f"{twin} ends"] = f"{bugs.result(seen.printed, seen.status)}, status {seen.status}"
            told(f"{one.name}, {twin}: {row[twin]}")
            for finding in seen.findings:
                told(f"  {finding}")
    today = datetime.date.today().isoformat()
    protocol = "files of each commit, checked by SHA-256, compiled and run on the emulator"
    return {"benchmark": "originals", "date": today, "protocol": protocol, "originals": rows}


def listing() -> str:
    """All of them, for a terminal."""
    return "\n".join(
        f"{one.name}  {one.title}\n    {one.thread}\n    {one.repository} at "
        f"{one.commits['broken'][:9]}: must say {one.rule}; "
        + (f"mended at {one.commits['fixed'][:9]}" if not one.repair else "with a repair of ours")
        for one in every()
    )


def read() -> dict[str, Any]:
    """The record that the book shows; empty where there is none."""
    kept = files.records() / RECORD
    if not kept.is_file():
        return {}
    return cast(dict[str, Any], json.loads(kept.read_text(encoding="utf-8")))


def write(record: dict[str, Any]) -> Path:
    """Into the record, beside what it has of others."""
    record["originals"] = {**read().get("originals", {}), **record["originals"]}
    kept = files.records() / RECORD
    files.renew(kept, json.dumps(record, indent=1) + "\n")
    return kept
