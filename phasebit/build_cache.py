"""What was built is kept, in a folder that only its owner may write, since it will be executed.

An entry appears whole or not at all, however many processes make it at once. They work in
:class:`Scratch` folders; those of processes that were killed go when another one starts.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_OWNER = ".phasebit-scratch"  # in a scratch folder: locked as long as its process lives
_YOUNG = 60.0  # seconds in which a scratch folder may be there and not be locked yet
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR)


class CacheError(RuntimeError):
    """The cache cannot be used; the text says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the sentence, without the frames of this package."""
        return [f"{type(self).__name__}: {self}"]


class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary folder, in ``parent`` or where such folders are, that outlives no process.

    Whoever is killed leaves it behind unlocked, and :func:`sweep` removes it.
    """

    def __init__(self, parent: Path | None = None, prefix: str = "phasebit-") -> None:
        super().__init__(prefix=prefix, dir=parent)
        self._owner = Path(self.name, _OWNER).open("w")  # noqa: SIM115
        with contextlib.suppress(OSError):  # a file system without locks: it is never swept
            fcntl.flock(self._owner, fcntl.LOCK_EX)

    def cleanup(self) -> None:
        """Remove the folder."""
        super().cleanup()
        self._owner.close()


def sweep(parent: Path, prefix: str) -> None:
    """Remove our own scratch folders in ``parent`` whose process is gone."""
    for each in parent.glob(f"{prefix}*/{_OWNER}"):
        with contextlib.suppress(OSError), each.open("r+") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            facts = os.fstat(owner.fileno())
            if facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > _YOUNG:
                shutil.rmtree(each.parent, ignore_errors=True)


def folder() -> Path:
    """Where builds are kept: ``$PHASEBIT_CACHE``, else the user's cache folder.

    Raises :class:`CacheError` where it cannot be made, or where others may write.
    """
    given = os.environ.get("PHASEBIT_CACHE")
    if given:
        return _opened(Path(given).absolute())  # compilers work in folders of their own
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # it then counts for nothing (XDG Base Directory Specification)
        home = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home):  # not into whatever folder this is
        raise CacheError(
            "there is no home folder to keep builds in: set PHASEBIT_CACHE to a folder"
        )
    return _opened(Path(home, "phasebit"))


@functools.cache
def _opened(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    _check(path)
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise CacheError(
            "no folder for temporary files can be written: set TMPDIR to one, and lift this "
            "process's limits, ulimit -f unlimited"
        ) from error
    for parent, prefix in ((path, ".new-"), (temporary, "phasebit-")):
        sweep(parent, prefix)
    return path


def _check(path: Path) -> None:
    """What lies here will be executed. Raises :class:`CacheError` if others may have put it."""
    facts = path.stat()
    if facts.st_uid != os.geteuid():
        raise CacheError(
            f"{path} belongs to another user, and programs would be run from it: "
            "set PHASEBIT_CACHE to a folder of your own"
        )
    if facts.st_mode & 0o022:
        raise CacheError(
            f"others may write to {path}, and programs would be run from it: chmod go-w {path}, "
            "or set PHASEBIT_CACHE to another folder"
        )


def keep(name: str, make: Callable[[Path], None], holds: Sequence[str] = ()) -> Path:
    """The entry of this name, a file or a folder, made first where there is none.

    ``make`` makes it at the path that it is given, in a scratch folder. ``holds``: files of a
    folder; one that has lost some of them, as to whoever clears caches by age, is made anew.
    Raises :class:`CacheError` and whatever ``make`` raises.
    """
    entry = folder() / name
    if not all((entry / each).exists() for each in holds or ("",)):
        try:
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with Scratch(folder(), ".new-") as scratch:
                with contextlib.suppress(FileNotFoundError):
                    entry.rename(Path(scratch, ".hollow"))
                made = Path(scratch, entry.name)
                make(made)
                made.chmod(0o700 if made.is_dir() else 0o600)  # whatever the umask is
                _publish(made, entry)
        except OSError as error:
            if error.errno in _UNWRITABLE:
                raise _unwritable(folder(), error) from error
            raise
    _check(entry)
    return entry


def shrink(folder: Path, most: int) -> None:
    """Remove files of a folder, the oldest first, until all together have ``most`` bytes."""
    files = []
    with os.scandir(folder) as entries:  # which makes no Path of each: there are thousands
        for entry in entries:
            with contextlib.suppress(OSError):  # another process removes it, too
                facts = entry.stat()
                files.append((facts.st_mtime, facts.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - most
    files.sort(reverse=True)
    while excess > 0:
        _, size, path = files.pop()
        Path(path).unlink(missing_ok=True)
        excess -= size


def _publish(made: Path, entry: Path) -> None:
    try:
        made.replace(entry)
    except OSError:  # a folder that another process has made meanwhile
        if not entry.exists():
            raise


def _unwritable(path: Path, error: OSError) -> CacheError:
    return CacheError(
        f"{path}, where builds are kept, cannot be written ({error.strerror}): "
        "set PHASEBIT_CACHE to a folder of your own"
    )
