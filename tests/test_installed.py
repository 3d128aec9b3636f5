"""What `pip install .` installs: the package with its kernels and records, no proof, no tests."""

from __future__ import annotations

import configparser
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import phasebit

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel."""
    if not importlib.util.find_spec("hatchling") or not importlib.util.find_spec("pip"):
        pytest.skip("no pip and hatchling here to build a wheel with")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
               "--disable-pip-version-check", "-w", folder, ROOT]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture
def names(wheel: zipfile.ZipFile) -> list[str]:
    """The files of the wheel."""
    return wheel.namelist()


def test_a_wheel_holds_the_package_and_nothing_beside_it(names: list[str]) -> None:
    tops = {PurePosixPath(name).parts[0] for name in names}
    assert "phasebit" in tops
    assert all(top == "phasebit" or top.endswith(".dist-info") for top in tops)
    folders = {PurePosixPath(name).parts[1:-1] for name in names}
    beside = {"proof", "tests", "bench", "tools", "book"}
    assert not beside & {part for folder in folders for part in folder if folder[0] != "score"}
    assert not beside & {folder[0] for folder in folders if folder}


def test_a_wheel_has_every_file_of_the_package(names: list[str]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "phasebit"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [name for name in tracked if name not in names and (ROOT / name).is_file()] == []
    assert "phasebit/emulator/ops/agreed.json" in names  # all of the proof that is installed
    assert any(name.startswith("phasebit/_data/kernels/") for name in names)
    assert any(name.startswith("phasebit/_data/records/") for name in names)


def test_a_wheel_tells_pytest_of_the_plugin_and_the_shell_of_the_command(
    wheel: zipfile.ZipFile,
) -> None:
    folder = f"phasebit-{phasebit.__version__}.dist-info"
    told = configparser.ConfigParser()
    told.read_string(wheel.read(f"{folder}/entry_points.txt").decode())
    assert dict(told["pytest11"]) == {"phasebit.pytest_plugin": "phasebit.pytest_plugin"}
    assert dict(told["console_scripts"]) == {
        "phasebit": "phasebit.__main__:main", "phasebit-nvcc": "phasebit.__main__:nvcc"
    }  # fmt: skip
