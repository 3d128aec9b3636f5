"""`make setup`: each part once, an environment that is sound, and a sentence for each fault.

pip, venv and the fetching of MathJax are stand-ins here, which write down how they were called.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .notebooks import ROOT
from .test_makefile import make, plain

REAL = "Makefile", "pyproject.toml", "requirements.txt", "requirements.in", "tools/setup.py"
STAND_INS = {
    "tools/vendor.py": """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).mkdir(exist_ok=True)
raise SystemExit(os.environ.get("NPM_FAULT"))
""",
    "tools/compile_stdlib.mjs": "",
    "phasebit/__init__.py": "",
    "phasebit/toolchain.py": """
import os, pathlib, sys
class ToolMissing(Exception): pass
class Nvcc: path = "/usr/local/bin/nvcc"
def nvcc():
    if "requirements-cuda" in pathlib.Path("calls").read_text():
        Nvcc.path = sys.prefix + "/bin/nvcc"
    elif "NVCC_FAULT" in os.environ:
        raise ToolMissing(os.environ["NVCC_FAULT"] + ": install one with: pip")
    return Nvcc
""",
    "stand-ins/pip/__init__.py": "",
    "stand-ins/pip/__main__.py": """
import os, sys, time
with open("calls", "a") as file: print(*sys.argv[5:], file=file)
print(os.environ.get("PIP_SAYS", ""))
end = time.monotonic() + float(os.environ.get("PIP_SECONDS", 0))
while time.monotonic() < end and not os.path.exists("enough"): time.sleep(0.01)
raise SystemExit("PIP_SAYS" in os.environ)
""",
    "stand-ins/venv.py": """
import os, sys
if "VENV_SAYS" in os.environ: raise SystemExit(os.environ["VENV_SAYS"])
sys.path.remove(os.environ["PYTHONPATH"])
import venv
venv.main(["--without-pip", *sys.argv[1:]])
""",
    "stand-ins/npm": "#!/bin/sh\n",
    "book/_vendor/package-lock.json": "{}",
    "requirements-cuda.txt": "",
    "requirements-gpu.txt": "",
    "requirements-node.txt": "",
    "calls": "",
}


class Checkout:
    """A folder that is set up with stand-ins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.venv = root / ".venv"
        for name in REAL:
            (root / name).parent.mkdir(exist_ok=True, parents=True)
            (root / name).write_bytes((ROOT / name).read_bytes())
        for name, text in STAND_INS.items():
            (root / name).parent.mkdir(exist_ok=True, parents=True)
            (root / name).write_text(text)
        (root / "stand-ins" / "npm").chmod(0o755)
        for name in ("kernels", "records"):
            (root / name).mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        stand_ins = str(self.root / "stand-ins")
        path = f"{stand_ins}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "PYTHONPATH": stand_ins, "CUDA_VISIBLE_DEVICES": "", **more}

    def setup(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return make("setup", *words, cwd=self.root, **self.environment(**more))

    def calls(self) -> list[str]:
        """What pip was called with since this was asked last."""
        lines = (self.root / "calls").read_text().splitlines()
        (self.root / "calls").write_text("")
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def done(checkout: Checkout) -> Iterator[Checkout]:
    """One that is set up."""
    answer = checkout.setup()
    assert answer.returncode == 0, answer.stderr
    assert checkout.calls()[0].endswith("-r requirements.txt")
    yield checkout


def refused(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    """It ended with one sentence, which has these words, and with what make says of it."""
    assert answer.returncode != 0
    sentence, *rest = answer.stderr.strip().splitlines()
    assert all(line.startswith("make: ***") for line in rest), answer.stderr
    assert [word for word in words if word not in sentence] == [], sentence


def test_a_second_setup_does_nothing(done: Checkout) -> None:
    stamp = (done.venv / ".setup").stat().st_mtime_ns
    answer = done.setup()
    assert answer.returncode == 0 and len(answer.stdout.splitlines()) == 1
    assert done.calls() == [] and (done.venv / ".setup").stat().st_mtime_ns == stamp


def test_changed_requirements_are_installed_again(done: Checkout) -> None:
    (done.root / "requirements.txt").write_text("numpy\n")
    assert done.setup().returncode == 0
    assert [call.endswith("-r requirements.txt") for call in done.calls()] == [True]


def test_the_newest_versions_are_installed_over_the_pinned_ones(done: Checkout) -> None:
    assert done.setup(UNPINNED="1").returncode == 0
    assert [call.endswith("--upgrade-strategy eager -r requirements.in") for call in done.calls()]
    assert done.setup(UNPINNED="1").returncode == 0 and done.calls() == []


# -- the environment ----------------------------------------------------------


def test_an_old_python_is_refused(checkout: Checkout) -> None:
    old = checkout.root / "python3.8"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1\nexit 1\n')
    old.chmod(0o755)
    refused(checkout.setup(f"PYTHON={old}"), "needs Python 3.11 or newer", "3.8.1", "PYTHON=")
    assert not checkout.venv.exists()


def test_a_python_without_venv_is_told_the_remedy(checkout: Checkout) -> None:
    refused(checkout.setup(VENV_SAYS="no ensurepip"), "apt-get install python3-venv")
    assert checkout.setup().returncode == 0


def test_a_python_whose_name_has_spaces(checkout: Checkout) -> None:
    own = checkout.root / "a place" / "python3"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    own.chmod(0o755)
    answer = checkout.setup(f"PYTHON={own}")
    assert answer.returncode == 0, answer.stderr


def test_a_folder_with_a_colon_is_refused(tmp_path: Path) -> None:
    refused(Checkout(tmp_path / "a:b").setup(), "a:b has a : in its name", "another name")


def test_stamps_that_a_power_cut_has_spoilt(done: Checkout) -> None:
    for stamp in (".made", ".packages"):
        (done.venv / stamp).write_bytes(b"\0\xff\xfe")
    answer = done.setup()
    assert answer.returncode == 0 and not answer.stderr
    assert done.calls()[0].endswith("-r requirements.txt")


def test_a_driver_that_never_answers(done: Checkout) -> None:
    """What it has started holds its output open; that is not waited for."""
    driver = done.root / "stand-ins" / "nvidia-smi"
    driver.write_text("#!/bin/sh\nsleep 60 & exit\n")
    driver.chmod(0o755)
    began = time.monotonic()
    assert done.setup().returncode == 0 and not done.calls()
    assert time.monotonic() - began < 30


def test_an_environment_of_others_is_made_anew(checkout: Checkout) -> None:
    (checkout.venv / "lib").mkdir(parents=True)
    (checkout.venv / "lib" / "old").touch()
    answer = checkout.setup()
    assert answer.returncode == 0 and ".venv is made anew" in answer.stdout
    assert not (checkout.venv / "lib" / "old").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(done: Checkout) -> None:
    for name in ("python", "python3"):
        (done.venv / "bin" / name).unlink()
        (done.venv / "bin" / name).symlink_to("/nowhere/python3")
    answer = done.setup()
    assert answer.returncode == 0 and "does not run" in answer.stdout
    assert done.calls()


@pytest.mark.parametrize("link", ["a folder elsewhere", "nowhere"])
def test_a_link_in_place_of_the_environment(checkout: Checkout, link: str) -> None:
    """One to another disk is kept; one that leads nowhere goes."""
    if link != "nowhere":
        (checkout.root / link).mkdir()
    checkout.venv.symlink_to(checkout.root / link)
    for _ in range(2):
        answer = checkout.setup()
        assert answer.returncode == 0, answer.stderr
    assert len(answer.stdout.splitlines()) == 1
    assert checkout.venv.is_symlink() == (link != "nowhere")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", ["another environment", "a folder with a file"])
def test_a_link_to_what_is_somebody_else_s_is_left_alone(
    what: str, done: Checkout, tmp_path: Path
) -> None:
    """As in a second work tree that shares the first one's environment."""
    target = done.venv
    if what != "another environment":
        target = tmp_path / "mine"
        target.mkdir()
        (target / "letter").write_text("dear")
    before = contents(target)
    other = Checkout(tmp_path / "other")
    other.venv.symlink_to(target)
    answer = other.setup()
    assert answer.returncode == 0 and "not this folder's: that stays" in answer.stdout
    assert contents(target) == before
    assert not other.venv.is_symlink() and (other.venv / ".made").is_file()
    assert len(other.setup().stdout.splitlines()) == 1


def test_an_environment_that_was_moved_is_made_anew(done: Checkout, tmp_path: Path) -> None:
    moved = shutil.copytree(tmp_path, tmp_path / "moved", symlinks=True)
    answer = make("setup", cwd=moved, **done.environment())
    assert answer.returncode == 0 and "in another folder" in answer.stdout


def other_python(checkout: Checkout) -> None:
    """Make the environment one of another Python."""
    identity = f'[[3, 12], "/opt/python", "{checkout.venv}"]'
    (checkout.venv / ".made").write_text(identity)
    (checkout.venv / "bin" / "python").unlink()
    real = shutil.which("python3")
    (checkout.venv / "bin" / "python").write_text(
        f'#!/bin/sh\ncase "$2" in *base_prefix*) echo \'{identity}\';; *) exec {real} "$@";; esac\n'
    )
    (checkout.venv / "bin" / "python").chmod(0o755)


def test_another_python_that_is_named_gets_its_environment(done: Checkout) -> None:
    other_python(done)
    answer = done.setup("PYTHON=python3")
    assert answer.returncode == 0 and "Python 3.12 of /opt/python" in answer.stdout
    assert done.calls()
    again = done.setup("PYTHON=python3")
    assert again.returncode == 0 and done.calls() == []


def test_a_sound_environment_is_kept_when_no_python_is_named(done: Checkout) -> None:
    other_python(done)
    answer = done.setup()
    assert answer.returncode == 0 and "made anew" not in answer.stdout


def test_an_environment_that_was_killed_in_the_making_is_made_anew(checkout: Checkout) -> None:
    with started(checkout, PIP_SECONDS="60") as process:
        wait_for(checkout.venv / ".installing")
        os.killpg(process.pid, signal.SIGKILL)
    answer = checkout.setup()
    assert answer.returncode == 0 and "was interrupted" in answer.stdout


# -- two at once, and what can be missing ---------------------------------------


def started(checkout: Checkout, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["make", "--no-print-directory", "setup"],
        cwd=checkout.root,
        env=plain(**checkout.environment(**more)),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_at_once_do_each_part_once(checkout: Checkout) -> None:
    """The first installs until the second has said that it waits, however slow either is."""
    with started(checkout, PIP_SECONDS="60") as first:
        wait_for(checkout.venv / ".installing")
        with started(checkout) as second:
            assert second.stdout is not None
            assert any("waiting for it" in line for line in second.stdout)
            (checkout.root / "enough").touch()
            _, late = second.communicate()
        said, early = first.communicate()
    assert (first.returncode, second.returncode) == (0, 0), early + late
    assert "waiting" not in said
    assert len(checkout.calls()) == 2


def test_an_nvcc_that_cannot_be_used_is_replaced(checkout: Checkout) -> None:
    fault = "/usr/bin/nvcc is 11.8.89 and too old"
    answer = checkout.setup(NVCC_FAULT=fault)
    assert answer.returncode == 0, answer.stderr
    assert f"== {fault}: NVIDIA's compiler, from pip" in answer.stdout
    assert checkout.calls()[-1] == "-r requirements-cuda.txt"


def test_a_python_that_says_nothing_of_its_nvcc(checkout: Checkout) -> None:
    file = checkout.root / "phasebit" / "toolchain.py"
    file.write_text(f"import os\nif 'cuda' not in open('calls').read(): os._exit(3)\n"
                    f"{file.read_text()}")
    answer = checkout.setup()
    assert answer.returncode == 0, answer.stderr
    assert "python ended with 3: NVIDIA's compiler, from pip" in answer.stdout


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError("
            "': [Errno -3] Temporary failure in name resolution')'\n"
            "ERROR: No matching distribution found for numpy==2.4.6",
            "check the network",
        ),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "make room"),
        ("ERROR: No matching distribution found for numpy==9", "No matching distribution found"),
    ],
    ids=["network", "disk", "other"],
)
def test_what_pip_fails_on_is_a_sentence(checkout: Checkout, said: str, sentence: str) -> None:
    refused(checkout.setup(PIP_SAYS=said), "-r requirements.txt failed", sentence)
    # Nothing was changed yet: what there is is kept.
    assert "made anew" not in checkout.setup().stdout


def test_an_interrupted_installation_counts_as_half_made(checkout: Checkout) -> None:
    said = "Installing collected packages: numpy\nERROR: [Errno 28] No space left on device"
    refused(checkout.setup(PIP_SAYS=said), "make room")
    assert "was interrupted" in checkout.setup().stdout


def test_what_npm_fails_on_is_a_sentence(checkout: Checkout) -> None:
    refused(checkout.setup(NPM_FAULT="npm could not fetch: check the network"), "check the network")


def test_a_missing_temporary_folder_is_named(checkout: Checkout) -> None:
    refused(checkout.setup(TMPDIR="/nowhere"), "TMPDIR=/nowhere", "unset")


def test_a_folder_that_cannot_be_written_is_named(checkout: Checkout) -> None:
    shell = "mount --bind . . && mount -o remount,bind,ro . && cd $PWD && exec make setup"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"]).returncode:
        pytest.skip("no mount namespaces here")
    answer = subprocess.run(
        [*command, shell],
        cwd=checkout.root,
        env=plain(**checkout.environment()),
        capture_output=True,
        text=True,
    )
    refused(answer, "Read-only file system", "copy the book")
