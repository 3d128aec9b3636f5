"""Programs on the emulator, by the commands that a reader types. What they print is compared with
what they printed on an H200 (`*.out`). None was written with the stand-in in mind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from phasebit.runtime import command

from .conftest import PROGRAMS

pytest.importorskip("phasebit.emulator")
pytestmark = pytest.mark.nvcc

WHOLE = PROGRAMS.parent / "whole"
RECORDED = sorted([*PROGRAMS.glob("*.out"), *WHOLE.glob("*.out")])


def phasebit(*words: object, limit: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "phasebit", *map(str, words)],
        capture_output=True, text=True, timeout=limit,
    )  # fmt: skip


@pytest.fixture(scope="session")
def built(tmp_path_factory, compiled):
    """The program that a `.out` file belongs to; those in `whole/` are compiled by the command."""
    folder = tmp_path_factory.mktemp("whole")

    def build(recorded, *options):
        if recorded.parent == PROGRAMS:
            return compiled(recorded.stem, *options)
        program = folder / f"{recorded.stem}{abs(hash(options))}"
        if not program.exists():
            done = phasebit("nvcc", *options, recorded.with_suffix(".cu"), "-o", program)
            assert done.returncode == 0, done.stderr
        return program

    return build


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_prints_what_it_printed_on_an_h200(recorded, built):
    done = phasebit("run", "--fast", "--error-exitcode", 0, built(recorded))  # some fail on purpose
    assert done.stdout == recorded.read_text()
    assert done.returncode == 0


@pytest.mark.parametrize("recorded", sorted(WHOLE.glob("*.out")), ids=lambda path: path.stem)
def test_checked_run_finds_nothing(recorded, built):
    done = phasebit("run", built(recorded))
    assert done.stdout == recorded.read_text()
    assert done.stderr == ""


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_100a"])
@pytest.mark.parametrize("name", ["histogram", "life"])
def test_other_targets(name, target, built):
    recorded = WHOLE / f"{name}.out"
    if (name, target) == ("life", "sm_75"):
        pytest.skip("__reduce_add_sync needs sm_80")
    assert (
        phasebit("run", "--fast", built(recorded, f"-arch={target}")).stdout == recorded.read_text()
    )


FAILURES = {
    "out of bounds": (
        "p[64 + threadIdx.x] = 1;",
        "cudaErrorIllegalAddress",
        "0 bytes after the end of cudaMalloc #1 (256 bytes)",
    ),
    "null": ("*(volatile int *)0 = 1;", "cudaErrorIllegalAddress", "0x0"),
    "misaligned": (
        "*(volatile int *)((char *)p + 2) = 1;",
        "cudaErrorMisalignedAddress",
        "not a multiple of 4",
    ),
    "trap": ('asm("trap;");', "cudaErrorLaunchFailure", "trap"),
    "assertion": ("assert(p == nullptr);", "cudaErrorAssert", "Assertion `p == nullptr` failed"),
}


def choice(of):
    """The statements of a table, of which the number `which` chooses one."""
    cases = (f"case {number}: {{ {each} break; }}" for number, each in enumerate(of))
    return f"switch (which) {{ {' '.join(cases)} }}"


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    source, program = folder / "failing.cu", folder / "failing"
    source.write_text(
        "#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n"
        "__global__ void failing(int *p, int which) {\n"
        f"    {choice(statement for statement, _, _ in FAILURES.values())}\n"
        "}\n"
        "int main(int, char **arguments) {\n"
        "    int *p;\n"
        "    cudaMalloc(&p, 256);\n"
        "    failing<<<1, 1>>>(p, atoi(arguments[1]));\n"
        '    printf("%s\\n", cudaGetErrorName(cudaGetLastError()));\n'
        '    printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));\n'
        "}\n"
    )
    assert phasebit("nvcc", source, "-o", program).returncode == 0
    return program


@pytest.mark.parametrize("name", FAILURES)
def test_failing_kernel_gives_a_gpus_error_and_the_finding(name, failing):
    _, error, words = FAILURES[name]
    done = phasebit("run", failing, list(FAILURES).index(name))
    assert done.stdout == f"cudaSuccess\n{error}\n"
    assert words in done.stderr and "kernel failing" in done.stderr


WRITERS = {
    "nobody": "",
    "cudaMemset": "cudaMemset(p, 0, 256);",
    "half a cudaMemset": "cudaMemset(p, 0, 128);",
    "cudaMemcpy": "int host[64] = {}; cudaMemcpy(p, host, 256, cudaMemcpyDefault);",
    "a kernel": "fill<<<1, 64>>>(p);",
    "half a kernel": "fill<<<1, 32>>>(p);",
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    source, program = folder / "reading.cu", folder / "reading"
    source.write_text(
        "#include <cstdlib>\n"
        "__global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }\n"
        "__global__ void twice(int *p) { p[threadIdx.x] *= 2; }\n"
        "int main(int, char **arguments) {\n"
        "    int *p, which = atoi(arguments[1]);\n"
        "    cudaMalloc(&p, 256);\n"
        f"    {choice(WRITERS.values())}\n"
        "    twice<<<1, 64>>>(p);\n"
        "    twice<<<1, 64>>>(p);\n"
        "    cudaDeviceSynchronize();\n"
        "}\n"
    )
    assert phasebit("nvcc", "-lineinfo", source, "-o", program).returncode == 0
    return program


@pytest.mark.parametrize("name", WRITERS)
def test_a_kernel_may_read_only_what_somebody_has_written(name, reading):
    done = phasebit("run", reading, list(WRITERS).index(name))
    wrong = name.startswith(("nobody", "half"))
    assert done.returncode == (command.FOUND if wrong else 0)
    if wrong:
        byte = 128 if "half" in name else 0
        assert f"reads cudaMalloc #1[{byte} bytes in], which nobody has written" in done.stderr
        assert "reading.cu:3" in done.stderr and done.stderr.count("\n") == 1
    else:
        assert done.stderr == ""


def test_status_and_arguments_pass_through(built):
    program = built(PROGRAMS / "printing.out")
    done = phasebit("run", program, "--fast", "-x")
    assert done.returncode == 0, "what a GPU would lose too is no finding"
    assert "phasebit: 24 bytes that kernels printed are lost" in done.stderr
    assert done.stdout.endswith("after the wait\n")


def test_other_kernels_in_a_programs_place(tmp_path):
    source, program, other = (tmp_path / name for name in ("k.cu", "k", "other.ptx"))
    source.write_text(
        "#include <cstdio>\n"
        "__global__ void k(int *p) { *p = ANSWER; }\n"
        "int main() {\n"
        "    int *p, answer;\n"
        "    cudaMalloc(&p, 4);\n"
        "    k<<<1, 1>>>(p);\n"
        "    cudaMemcpy(&answer, p, 4, cudaMemcpyDefault);\n"
        '    printf("%d\\n", answer);\n'
        "}\n"
    )
    assert phasebit("nvcc", "-DANSWER=1", source, "-o", program).returncode == 0
    assert phasebit("nvcc", "-DANSWER=2", "-ptx", source, "-o", other).returncode == 0
    assert phasebit("run", program).stdout == "1\n"
    assert phasebit("run", "--ptx", other, program).stdout == "2\n"
    done = phasebit("run", "--ptx", tmp_path / "none.ptx", program)
    assert done.returncode == 2 and done.stderr.startswith("phasebit: cannot read ")


def test_what_cannot_run_is_refused_in_one_sentence(tmp_path):
    done = phasebit("run", tmp_path / "absent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("phasebit: no program") and done.stderr.count("\n") == 1


def test_limit(compiled):
    done = phasebit("run", "--limit", "1", compiled("trouble"), "endless", limit=20)
    assert done.returncode == 124
    assert "ended after 1 s, the time limit" in done.stderr


@pytest.mark.parametrize(
    ("options", "targets"),
    [
        ([], ["90a"]),
        (["-arch", "sm_80"], ["80"]),
        (["--gpu-architecture=compute_75", "-code=sm_75"], ["75"]),
        (["-gencode", "arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90]"],
         ["80", "90"]),
        (["--generate-code=arch=compute_90,code=[compute_90,sm_90]"] * 2, ["90"]),
        (["-arch=sm_100a", "-code", "sm_100a"], ["100a"]),
    ],
)  # fmt: skip
def test_every_way_to_name_a_target_makes_ptx_and_no_machine_code(options, targets):
    words = command.nvcc_command([*options, "x.cu"])
    made = [word for word in words if word.startswith("arch=")]
    assert made == [f"arch=compute_{n},code=compute_{n}" for n in targets]
    assert words.count("x.cu") == 1 and not any("sm_" in word for word in words)


def test_options_in_files_are_options(tmp_path):
    (tmp_path / "a.rsp").write_text("-DA='x y' -lcudadevrt -arch=sm_80")
    (tmp_path / "b.rsp").write_text(f"-optf={tmp_path}/a.rsp\nx.cu\n")
    for words in ([f"--options-file={tmp_path}/b.rsp"], ["-optf", f"{tmp_path}/b.rsp"]):
        made = command.nvcc_command([*words, "-DB"])
        assert made[-3:] == ["-DA=x y", "x.cu", "-DB"]
        assert "arch=compute_80,code=compute_80" in made


def test_bad_options_of_nvcc():
    for words in (["-optf", "absent.rsp"], ["-optf"]):
        done = phasebit("nvcc", *words)
        assert done.returncode == 2 and "name a file of options" in done.stderr
    done = phasebit("nvcc", "-arch=volta", "x.cu")
    assert done.returncode == 2 and "write -arch=sm_90a" in done.stderr
    for other in ("code=sm_90", "arch=native,code=sm_90", "arch=compute_90,code=lto_90"):
        done = phasebit("nvcc", "-gencode", other, "x.cu")
        assert done.returncode == 2 and f"-gencode={other} is not a target" in done.stderr
    done = phasebit("nvcc", "-rdc=true", "-dlto", "x.cu")
    assert done.returncode == 2 and "this leaves no PTX" in done.stderr


UNITS = Path(__file__).with_name("units")


@pytest.mark.parametrize("option", ["-O3", "-G"])
def test_two_units_at_once(option, tmp_path):
    program = tmp_path / "program"
    sources = [UNITS / "main.cu", UNITS / "library.cu"]
    assert not phasebit("nvcc", "-rdc=true", option, *sources, "-o", program).returncode
    assert phasebit("run", program).stdout == "0 wrong, no error\n"


def test_two_units_one_by_one(tmp_path):
    objects = []
    for name in ("main", "library"):
        objects.append(tmp_path / f"{name}.o")
        assert not phasebit("nvcc", "-dc", UNITS / f"{name}.cu", "-o", objects[-1]).returncode
    assert not phasebit("nvcc", *objects, "-o", tmp_path / "program").returncode
    assert phasebit("run", tmp_path / "program").stdout == "0 wrong, no error\n"


def test_a_kernel_that_launches_a_kernel(tmp_path):
    program = tmp_path / "program"
    assert not phasebit("nvcc", "-rdc=true", UNITS / "nested.cu", "-o", program).returncode
    done = phasebit("run", program)
    assert "outer launches a kernel; the emulator runs kernels that the host" in done.stderr


def test_copies_in_a_graph(tmp_path):
    program = tmp_path / "program"
    assert not phasebit("nvcc", UNITS / "graph_copies.cu", "-o", program).returncode
    assert phasebit("run", program).stdout == "0 wrong, no error\n"


def test_the_stack_is_as_large_as_the_program_asked_for(tmp_path):
    program = tmp_path / "program"
    assert not phasebit("nvcc", UNITS / "deep.cu", "-o", program).returncode
    done = phasebit("run", program)
    assert done.stdout == "cudaErrorIllegalAddress, 0 wrong\n"
    assert "allow more with cudaDeviceSetLimit(cudaLimitStackSize, bytes)" in done.stderr
    done = phasebit("run", program, 400_000)
    assert (done.stdout, done.stderr) == ("cudaSuccess\ncudaSuccess, 0 wrong\n", "")
    done = phasebit("run", program, 1 << 20)
    assert done.stdout == "cudaErrorInvalidValue\ncudaErrorIllegalAddress, 0 wrong\n"


def test_a_kernel_may_wait_for_the_host_or_a_clock_but_not_for_nobody(tmp_path):
    program = tmp_path / "program"
    assert not phasebit("nvcc", UNITS / "looking.cu", "-o", program).returncode
    done = phasebit("run", program)
    assert done.stdout.splitlines() == [
        "pinned: cudaSuccess", "managed: cudaSuccess", "a clock: cudaSuccess",
        "nobody: cudaErrorLaunchTimeout",
    ]  # fmt: skip
    assert done.stderr.count("livelock") == 1 and "looking.cu:7" in done.stderr
    assert "work that is issued later runs later" in done.stderr


def test_system_atomics_hold_against_the_host(tmp_path):
    program = tmp_path / "program"
    assert not phasebit("nvcc", UNITS / "both_sides.cu", "-o", program).returncode
    done = phasebit("run", program)
    assert done.stdout == "cudaSuccess: 0 lost, largest 199, bits 0, host counted\n"
