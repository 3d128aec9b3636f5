"""Programs that cannot use the stand-in are refused before they start."""

from __future__ import annotations

import subprocess

import pytest

from phasebit import toolchain
from phasebit.runtime import elf, fatbin, library

from .conftest import PROGRAMS
from .fake import FakeBackend


def test_no_such_program(tmp_path):
    with pytest.raises(elf.UnsuitableProgram, match="no program"):
        elf.check(tmp_path / "absent")


def test_damaged_program(tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF\x02\x01" + bytes(20))
    with pytest.raises(elf.UnsuitableProgram, match="not a program for this machine"):
        elf.check(broken)


def test_every_prefix_of_a_program_is_refused_or_read():
    with open("/proc/self/exe", "rb") as file:
        data = file.read(1 << 20)
    for size in range(0, 4096, 37):
        try:
            elf.needed(data[:size])
        except (ValueError, IndexError, StopIteration) as error:
            assert str(error) is not None
        except Exception as error:
            assert type(error).__name__ == "error"  # struct.error


def test_script_passes(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    elf.check(script)


def to_link() -> str:
    """Where the linker finds a shared runtime library: an nvcc from pip comes without one."""
    return f"-L{library.for_linking(toolchain.nvcc().major)}"


@pytest.mark.nvcc
class TestOtherBuilds:
    def build(self, folder, *options):
        program = folder / "program"
        try:
            nvcc = toolchain.nvcc().path
        except toolchain.ToolMissing as error:
            pytest.skip(str(error))
        command = [nvcc, PROGRAMS / "missing.cu", *options, to_link(), "-o", program]
        subprocess.run(command, check=True)
        return program

    def test_runtime_linked_in(self, tmp_path):
        program = self.build(tmp_path)
        with pytest.raises(elf.UnsuitableProgram, match=r"linked into it; build it with `python"):
            elf.check(program)

    def test_other_version(self, tmp_path):
        program = self.build(tmp_path, "-cudart", "shared")
        data = program.read_bytes().replace(b"libcudart.so.13\0", b"libcudart.so.11\0")
        program.write_bytes(data)
        with pytest.raises(elf.UnsuitableProgram, match=r"built for libcudart.so.11"):
            elf.check(program)

    @pytest.mark.parametrize(
        ("output", "message"),
        [
            ("program of PTX", "compressed"),
            ("program", "only machine code, and the emulator reads PTX"),
        ],
    )
    def test_ptx_that_cannot_be_read(self, output, message, tmp_path, run):
        program = tmp_path / "program"
        command = toolchain.nvcc_command(output, "sm_90", options=["-cudart", "shared"])
        subprocess.run([*command, PROGRAMS / "basics.cu", to_link(), "-o", program], check=True)
        ran = run(program, backend=FakeBackend())
        assert message in ran.said and "python -m phasebit nvcc" in ran.said
        assert ran.status != 0


def entry(kind, target, payload, flags=0):
    head = bytearray(64)
    head[0:2] = kind.to_bytes(2, "little")
    head[4:8] = (64).to_bytes(4, "little")
    head[8:16] = len(payload).to_bytes(8, "little")
    head[28:32] = target.to_bytes(4, "little")
    head[40:48] = flags.to_bytes(8, "little")
    return bytes(head) + payload


def fat(*entries):
    body = b"".join(entries)
    return (
        fatbin.MAGIC.to_bytes(4, "little") + b"\1\0\x10\0" + len(body).to_bytes(8, "little") + body
    )


class TestFatBinary:
    def test_newest_ptx_that_fits(self):
        blob = fat(
            entry(fatbin.PTX, 80, b"eighty\0\0"),
            entry(fatbin.MACHINE_CODE, 90, b"machine code"),
            entry(fatbin.PTX, 90, b"ninety\0\0"),
        )
        assert fatbin.newest_ptx(blob) == "ninety"
        assert fatbin.newest_ptx(blob, 89) == "eighty"
        with pytest.raises(fatbin.FatBinaryError, match="needs sm_80, the device is sm_75"):
            fatbin.newest_ptx(blob, 75)

    def test_compressed(self):
        blob = fat(entry(fatbin.PTX, 90, b"\x28\xb5\x2f\xfdnonsense", 0x8011))
        with pytest.raises(fatbin.FatBinaryError, match="compressed"):
            fatbin.newest_ptx(blob)

    def test_no_code(self):
        with pytest.raises(fatbin.FatBinaryError, match="no code"):
            fatbin.newest_ptx(fat())

    def test_entry_longer_than_the_file(self):
        image = bytearray(entry(fatbin.PTX, 90, b"ninety\0\0"))
        image[8] += 1
        with pytest.raises(fatbin.FatBinaryError, match="unknown layout"):
            fatbin.newest_ptx(fat(bytes(image)))

    def test_every_cut_and_every_changed_byte_is_refused_or_read(self):
        blob = fat(entry(fatbin.PTX, 90, b"ninety\0\0"), entry(fatbin.MACHINE_CODE, 90, b"code"))
        for size in range(len(blob)):
            with pytest.raises(fatbin.FatBinaryError):
                fatbin.newest_ptx(blob[:size])
        for at in range(len(blob)):
            for value in (0, 1, 0x7F, 0xFF):
                damaged = bytearray(blob)
                damaged[at] = value
                try:
                    fatbin.newest_ptx(bytes(damaged))
                except fatbin.FatBinaryError as error:
                    assert "phasebit nvcc" in str(error)
