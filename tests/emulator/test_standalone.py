"""The emulator without the book: what it needs, what of it others use, a kernel run by it alone.

``proof/`` and ``tests/emulator`` may look inside; all else takes the names of its ``__all__``.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phasebit import emulator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "phasebit"

APPENDIX = {
    "phasebit.emulator.checker.proxies.Engine",
    "phasebit.emulator.checker.races.Races",
    "phasebit.emulator.machine.agents.Agent",
    "phasebit.emulator.machine.barrier_sites.BarrierSite",
    "phasebit.emulator.machine.barrier_sites.BarrierSites",
    "phasebit.emulator.machine.device_memory.POISON",
    "phasebit.emulator.machine.scheduler.Machine",
    "phasebit.emulator.ops.control",
    "phasebit.emulator.ptx.control_flow",
    "phasebit.emulator.ptx.lexer.tokens",
}
"""What the appendix *A GPU you can read* opens up, besides."""

INSIDE = {
    "book/appendix/a_gpu_you_can_read.ipynb": APPENDIX,
    # Readers of the appendix add instructions: its exercises put them into the table.
    "phasebit/chapters/a_gpu_you_can_read/exercises.py": {
        "phasebit.emulator.ptx.table.TABLE",
        "phasebit.emulator.ptx.table.value",
    },
    "phasebit/chapters/a_gpu_you_can_read/view.py": {"phasebit.emulator.ptx.table"},
    "tests/book/test_replays.py": {"phasebit.emulator.machine.room"},  # a machine without memory
    "tests/chapters/a_gpu_you_can_read/test_exercises.py": {"phasebit.emulator.ptx.table.TABLE"},
    "tests/chapters/a_gpu_you_can_read/test_view.py": {"phasebit.emulator.ptx.table.entries"},
    "tests/chapters/chain/test_view.py": {"phasebit.emulator.machine.events.Told"},
    "tests/runtime/test_two_devices.py": {  # counts how often launches are compared
        "phasebit.emulator.checker.other_launches.OtherLaunches",
    },
}
"""File -> what it takes from inside."""


def imported(source: str) -> set[str]:
    """The dotted names that a Python text imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def code(path: Path) -> str:
    """The Python of a file, or of a notebook's cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = ("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "code")
    lines = "\n".join(cell for cell in cells if not cell.startswith("%%")).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def inside(names: set[str]) -> set[str]:
    """Those of the names that are the emulator's, and not public."""
    front = "phasebit.emulator."
    ours = {name.removeprefix(front) for name in names if name.startswith(front)}
    return {front + name for name in ours if name.partition(".")[0] not in emulator.__all__}


def outside() -> list[Path]:
    """Every file of the repository that is to use the emulator by its public names."""
    folders = ("phasebit", "tests", "tools", "bench", "book")
    found = [p for f in folders for e in ("*.py", "*.ipynb") for p in (ROOT / f).rglob(e)]
    own = (PACKAGE / "emulator", ROOT / "tests" / "emulator")
    mine = [p for p in found if not any(p.is_relative_to(folder) for folder in own)]
    return sorted(p for p in mine if ".ipynb_checkpoints" not in p.parts)


def test_others_use_its_public_names() -> None:
    looked = {p.relative_to(ROOT).as_posix(): inside(imported(code(p))) for p in outside()}
    assert {name: wanted for name, wanted in looked.items() if wanted} == INSIDE


def test_a_planted_look_inside_is_found() -> None:
    planted = (
        "from phasebit.emulator import Module, formats\n"
        "from phasebit.emulator.findings import Place\n"
        "def f():\n    from phasebit.emulator.numbers.formats import encode\n"
    )
    assert inside(imported(planted)) == {"phasebit.emulator.numbers.formats.encode"}


def test_its_public_names_are_there_and_in_its_text() -> None:
    for name in emulator.__all__:
        assert getattr(emulator, name) is not None
        assert f"``{name}``" in (emulator.__doc__ or ""), f"{name} is not explained"
    with pytest.raises(AttributeError, match="no attribute 'finding'"):
        emulator.finding  # noqa: B018


@pytest.mark.parametrize(
    "path", [*(PACKAGE / "emulator").rglob("*.py"), PACKAGE / "mbarrier.py"],
    ids=lambda p: p.relative_to(PACKAGE).as_posix(),
)  # fmt: skip
def test_it_needs_numpy_and_nothing_else(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"numpy"}
    names = imported(path.read_text(encoding="utf-8"))
    others = {n for n in names if not n.startswith(("phasebit.emulator.", "phasebit.mbarrier."))}
    assert {n for n in others if n.partition(".")[0] not in allowed} == set()


SHIFT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry shift(.param .u64 data)
{
    .reg .b32 %r<6>; .reg .b64 %rd<4>;
    .shared .align 4 .b32 tile[64];
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4;
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    xor.b32 %r4, %r4, 128; add.u32 %r5, %r3, %r4;
    ld.shared.u32 %r2, [%r5];
    st.global.u32 [%rd1], %r2;
    ret;
}
"""

PROGRAM = """
import sys
import numpy as np
from phasebit.emulator import Module

text = open("shift.ptx").read()
for broken in False, True:
    kernel = Module(text.replace("bar.sync 0;", "") if broken else text)["shift"]
    data = np.arange(64, dtype=np.uint32)
    run = kernel.launch(block=64, args=[data], check=True)
    print(data.tolist() == [(i + 32) % 64 for i in range(64)] or broken, len(run.findings) > 0)
    print(run.findings[0] if broken else run.counters["smsp__inst_executed.sum"])
loaded = {n.split(".")[1] for n in sys.modules if n.startswith("phasebit.")}
print(*sorted(loaded), sys.modules["phasebit"].__file__)
"""


def test_it_runs_a_kernel_by_itself(tmp_path: Path) -> None:
    """Copied with ``mbarrier`` alone to an interpreter that has NumPy, and no checkout."""
    alone = tmp_path / "phasebit"
    shutil.copytree(PACKAGE / "emulator", alone / "emulator",
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    shutil.copy(PACKAGE / "mbarrier.py", alone)
    (alone / "__init__.py").touch()
    (tmp_path / "shift.ptx").write_text(SHIFT)
    import numpy

    site = tmp_path / "site"
    site.mkdir()
    installed = Path(numpy.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (installed / name).exists():
            (site / name).symlink_to(installed / name)
    # -I -S: neither the environment nor a site folder leads back to this checkout
    paths = f"import sys; sys.path[:0] = {[str(tmp_path), str(site)]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", paths + PROGRAM], cwd=tmp_path, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    right, executed, raced, finding, where = done.stdout.splitlines()
    assert right == "True False" and int(executed) > 0
    assert raced == "True True" and "race" in finding and "tile" in finding
    assert where == f"emulator mbarrier {alone / '__init__.py'}"
