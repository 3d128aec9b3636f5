"""Make .venv and .vendor: all that `make setup` promises, each part once.

    python tools/setup.py [--named]

A part is done when its stamp names what it would be made from: a changed requirements file is
installed again, a second run finds everything done. Any sound environment is kept, whatever Python
it has; with --named only one of the Python that runs this. Needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
VENDOR = ROOT / ".vendor"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "setup.log"  # what the last command said
IDENTITY = VENV / ".made"  # of the environment, once it is whole
INSTALLING = VENV / ".installing"  # there while pip changes the environment

UNPINNED = bool(os.environ.get("UNPINNED"))
REQUIREMENTS = "requirements.in" if UNPINNED else "requirements.txt"
NEWEST = ("--upgrade", "--upgrade-strategy", "eager") if UNPINNED else ()

_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|Failed to establish a new connection|ProxyError"
    "|SSLError|Connection(Reset|Refused|Aborted)Error|ConnectTimeout|ReadTimeout|timed out"
    "|Network is unreachable|Temporary failure in name resolution|Name or service not known"
)
_NO_SPACE = re.compile("No space left on device|Disk quota exceeded|No usable temporary directory")


def main() -> None:
    """Do what is to be done, while no other process does."""
    check_folders()
    if not (environment_fault() or any(part.due() for part in PARTS)):
        return
    with alone():
        if fault := environment_fault():
            make_environment(fault)
        for part in PARTS:
            if part.due():
                part.make()
        (VENV / ".setup").touch()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process sets this folder up, and keep others waiting."""
    with open(ROOT / ".setup.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is at work in this folder: waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- the environment --------------------------------------------------------


def identity(python: Path) -> list[Any] | None:
    """Version, home and environment of a Python; ``None`` where it does not run."""
    ask = "import json, sys; print(json.dumps([sys.version_info[:2], sys.base_prefix, sys.prefix]))"
    try:
        answer = subprocess.run([python, "-c", ask], capture_output=True, timeout=60)
        return list(json.loads(answer.stdout)) if answer.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def environment_fault() -> str:
    """Why .venv must be made anew; nothing where it is sound."""
    if not os.path.lexists(VENV):
        return "there is none"
    found = identity(PYTHON)
    if found is None:
        return "its Python does not run"
    if not IDENTITY.is_file():
        return "it was not made by 'make setup', or not to its end"
    if INSTALLING.exists():
        return "its set-up was interrupted"
    if IDENTITY.read_bytes() != json.dumps(found).encode() or found[2] != str(VENV):
        return "it was made with another Python, or in another folder"
    if "--named" in sys.argv and found[:2] != [[*sys.version_info[:2]], sys.base_prefix]:
        return f"it has Python {found[0][0]}.{found[0][1]} of {found[1]}, and you name another"
    return ""


def make_environment(fault: str) -> None:
    """A virtual environment of the Python that runs this."""
    if leads_elsewhere():
        print(f"== {VENV.name} was a link to what is not this folder's: that stays", flush=True)
        VENV.unlink()
    elif os.path.lexists(VENV):
        print(f"== {VENV.name} is made anew: {fault}", flush=True)
        empty(VENV)
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"== A virtual environment in {VENV.name}, with Python {version} (10 s)", flush=True)
    VENV.mkdir(exist_ok=True)
    # What runs this may have been the Python of the environment that is gone.
    python = Path(getattr(sys, "_base_executable", sys.executable))
    said = failure([python, "-m", "venv", VENV.resolve()])
    if said is not None:
        empty(VENV)
        if _NO_SPACE.search(said):
            raise SystemExit(f"There could be no virtual environment: {explain(said)}.")
        raise SystemExit(
            f"{python} could not make a virtual environment; "
            "on Debian or Ubuntu: apt-get install python3-venv"
        )
    IDENTITY.write_text(json.dumps(identity(PYTHON)))


def leads_elsewhere() -> bool:
    """Whether .venv is a link to a folder with something in it that was not made for this one."""
    if not VENV.is_symlink() or not VENV.is_dir() or not any(VENV.iterdir()):
        return False
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads(IDENTITY.read_text())[2] != str(VENV))
    return True


def empty(path: Path) -> None:
    """Remove what is in a folder; a link to a folder stays, anything else that is none goes."""
    if not path.is_dir():
        path.unlink()
        return
    for each in path.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


# -- the parts --------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Something that is made once from files of the checkout."""

    title: str
    stamp: Path
    made_from: tuple[str, ...]
    do: Callable[[], None]
    fault: Callable[[], str | None] = lambda: ""  # why it is needed; None where it is not

    def facts(self) -> str:
        """What the stamp says when this is done."""
        texts = [self.made_from[0], *((ROOT / each).read_text("utf-8") for each in self.made_from)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def due(self) -> bool:
        """Whether this is to be done."""
        fault = self.fault()
        done = self.stamp.is_file() and self.stamp.read_bytes() == self.facts().encode()
        return fault is not None and (bool(fault) or not done)

    def make(self) -> None:
        """Do it, and say so."""
        fault = self.fault()
        print(f"== {fault + ': ' if fault else ''}{self.title}", flush=True)
        self.do()
        self.stamp.write_text(self.facts())
        if fault := self.fault():
            raise SystemExit(f"{fault}, also after this: {self.title}")


def pip(*words: str) -> Callable[[], None]:
    """A function that installs with pip, or raises ``SystemExit`` with a sentence."""

    def install() -> None:
        INSTALLING.touch()
        options = ("--disable-pip-version-check", "--progress-bar", "off")
        said = failure([PYTHON, "-m", "pip", "install", *options, *words])
        # While pip only looked and fetched, it changed nothing.
        if said is None or "Installing collected packages" not in said:
            INSTALLING.unlink()
        if said is not None:
            raise SystemExit(f"pip install {' '.join(words)} failed: {explain(said)}.")

    return install


def be_quiet() -> None:
    """Two things would speak up on first use, in a notebook or in the middle of a build.

    Matplotlib lists the machine's fonts; a kernel warns that it talks to its client over this
    machine's loopback without encryption.
    """
    failure([PYTHON, "-c", "import matplotlib.font_manager"])
    folder = VENV / "etc" / "ipython"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')


def nvcc_fault() -> str | None:
    """Why pip's nvcc is needed; ``None`` where the machine has a usable one of its own."""
    ask = (
        "from phasebit import toolchain\n"
        "try: print(toolchain.nvcc().path)\n"
        "except toolchain.ToolMissing as error: raise SystemExit(str(error))"
    )
    answer = subprocess.run(
        [PYTHON, "-c", ask], cwd=ROOT, capture_output=True, text=True, errors="replace"
    )
    if answer.returncode:
        said = answer.stderr.strip().splitlines() or [f"{PYTHON} ended with {answer.returncode}"]
        return said[-1].partition(": install")[0]
    return "" if Path(answer.stdout.strip()).is_relative_to(VENV) else None


def gpu() -> str | None:
    """Whether a driver lists a GPU: nothing if so, else ``None``."""
    # Not into a pipe: what it has started may hold that open, when it is gone itself.
    with contextlib.suppress(OSError, subprocess.TimeoutExpired), TemporaryFile() as said:
        quiet = subprocess.DEVNULL
        subprocess.run(["nvidia-smi", "-L"], stdin=quiet, stdout=said, stderr=quiet, timeout=20)
        return "" if os.fstat(said.fileno()).st_size else None
    return None


def fetch() -> None:
    """Pyodide, a font and axe-core, with npm."""
    said = failure([PYTHON, "tools/vendor.py", VENDOR])
    if said is not None:
        raise SystemExit(said.strip().splitlines()[-1])


VENDORED = ("book/_vendor/package-lock.json", "tools/vendor.py", "tools/compile_stdlib.mjs")
PARTS = (
    Part(
        f"The packages of {REQUIREMENTS} (1 to 3 minutes, 300 MB on disk)",
        VENV / ".packages",
        (REQUIREMENTS,),
        pip(*NEWEST, "-r", REQUIREMENTS),
    ),
    Part(
        "The package phasebit, from this folder (5 s)",
        VENV / ".phasebit",
        ("pyproject.toml",),
        pip("--no-deps", "--no-build-isolation", "-e", "."),
    ),
    Part(
        "Matplotlib's list of fonts, and a kernel that is quiet (10 s)",
        VENV / ".quiet",
        (REQUIREMENTS,),
        be_quiet,
    ),
    Part(
        "NVIDIA's compiler, from pip (1 to 2 minutes, 400 MB on disk)",
        VENV / ".nvcc",
        ("requirements-cuda.txt",),
        pip("-r", "requirements-cuda.txt"),
        nvcc_fault,
    ),
    Part(
        "A GPU: CuPy, from pip (1 minute)",
        VENV / ".cupy",
        ("requirements-gpu.txt",),
        pip("-r", "requirements-gpu.txt"),
        gpu,
    ),
    Part(
        "No npm on PATH: Node.js, from pip (20 s, 200 MB on disk)",
        VENV / ".node",
        ("requirements-node.txt",),
        pip("-r", "requirements-node.txt"),
        lambda: None if shutil.which("npm") else "",
    ),
    Part(
        "Pyodide and a font for formulas, which the pages serve themselves (10 s)",
        VENDOR / ".done",
        VENDORED,
        fetch,
    ),
)


# -- what can go wrong, in a sentence ---------------------------------------


def failure(command: list[str | Path]) -> str | None:
    """What a command said, if it failed. The log keeps it."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with contextlib.suppress(OSError):  # a full disk, say: that sentence matters, not the log
        LOG.write_text(done.stdout, encoding="utf-8")
    return done.stdout if done.returncode else None


def check_folders() -> None:
    """Refuse a folder in which no environment can be, and a TMPDIR that is none.

    The latter Python, though not every compiler, would silently replace.
    """
    if os.pathsep in str(ROOT):
        raise SystemExit(
            f"{ROOT} has a {os.pathsep} in its name, which stands between folders in PATH, so it "
            "can hold no virtual environment: give it another name"
        )
    given = os.environ.get("TMPDIR")
    if given and not os.access(given, os.W_OK | os.X_OK):
        raise SystemExit(
            f"TMPDIR={given} is no folder that can be written: unset TMPDIR or name another"
        )


def explain(said: str) -> str:
    """Why pip or venv failed and what to do, from what it said."""
    if _NO_SPACE.search(said):
        return space()
    if _NO_NETWORK.search(said):
        return "the package index does not answer: check the network, and run 'make setup' again"
    errors = re.findall(r"^(?:ERROR|error): *(.+)$", said, re.MULTILINE)
    what = errors[-1].rstrip(".") if errors else "it does not say why"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = project["classifiers"][-1].rpartition(" ")[2]
    if [*sys.version_info[:2]] > [*map(int, newest.split("."))]:
        return f"{what}; the pins are for Python up to {newest}: make setup PYTHON=python{newest}"
    return f"{what}; all that it said is in {LOG}"


def space() -> str:
    """Which disk is full, and what to do."""
    folders = (ROOT, Path(os.environ.get("TMPDIR", "/tmp")))
    left = [f"{shutil.disk_usage(each).free / 1e6:.0f} MB in {each}" for each in folders]
    return (
        f"a disk is full, with {' and '.join(left)} left: make room (1.5 GB in all) "
        "or set TMPDIR to a folder elsewhere, and run 'make setup' again"
    )


def unwritable(error: OSError) -> str:
    """Why a file of the checkout could not be written, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return space()
    return (
        f"{error.filename or ROOT} could not be written, {error.strerror}: "
        "copy the book to a folder of your own, and run make there"
    )


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        raise SystemExit(unwritable(error)) from None
    except KeyboardInterrupt:
        raise SystemExit("Interrupted: run 'make setup' again.") from None
