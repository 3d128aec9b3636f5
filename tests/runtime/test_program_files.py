"""Programs that cannot use the stand-in are refused before they start."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

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


LOADED_AT, SHIFT = 0x10000, 0x1000


def program(libraries: Sequence[str], more: bytes = b"", *, tables: int = 1) -> bytes:
    """An ELF file that asks for libraries; its segment lies elsewhere than in the file."""
    segments = 3 + tables
    head = 64 + 56 * segments
    names = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    at, offsets = 1, []
    for name in libraries:
        offsets.append(at)
        at += len(name) + 1
    entries = [(1, each) for each in offsets] + [(5, LOADED_AT), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *each) for each in entries)
    whole = head + len(names) + len(dynamic) + len(more)
    header = struct.pack("<6s10xHHIQQQIHHHHHH", b"\x7fELF\2\1", 3, 62, 1, 0, 64, 0, 0, 64, 56,
                         segments, 0, 0, 0)  # fmt: skip
    # Of other kinds; loaded; the dynamic section.
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, 0, LOADED_AT, 0, whole, whole, 8) for kind in (6, 0)
    )
    table += struct.pack("<IIQQQQQQ", 1, 4, head, LOADED_AT, 0, len(names), len(names), 8)
    for _ in range(tables):
        table += struct.pack("<IIQQQQQQ", 2, 4, head + len(names), 0, 0, len(dynamic), 0, 8)
    return header + table + names + dynamic + more


@pytest.mark.parametrize("libraries", [
    [], ["libc.so.6"], ["libcudart.so.13", "libstdc++.so.6", "libc.so.6"],
])  # fmt: skip
def test_the_libraries_that_a_program_asks_for(libraries: list[str]) -> None:
    assert elf.needed(program(libraries)) == libraries


def test_a_program_without_a_dynamic_section_asks_for_nothing() -> None:
    assert elf.needed(program(["libc.so.6"], tables=0)) == []


@pytest.mark.parametrize("head", [b"\x7fELF\1\1", b"\x7fELF\2\2", b"MZ\0\0\0\0"])
def test_what_is_no_program_of_64_bits_and_little_endian(head: bytes, tmp_path: Path) -> None:
    data = head + program([])[6:]
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF file"):
        elf.needed(data)


@pytest.mark.parametrize("address", [LOADED_AT - 1, LOADED_AT + 11, LOADED_AT + 12])
def test_names_that_are_in_no_segment(address: int, tmp_path: Path) -> None:
    given = program(["libc.so.6"])
    data = given.replace(struct.pack("<QQ", 5, LOADED_AT), struct.pack("<QQ", 5, address))
    assert data != given
    with pytest.raises(ValueError, match="an address outside all segments"):
        elf.needed(data)
    file = tmp_path / "program"
    file.write_bytes(data)
    says = "program is not a program for this machine: an address outside all segments"
    with pytest.raises(elf.UnsuitableProgram, match=says):
        elf.check(file)


BUILD = "build it with `python -m phasebit nvcc FILE.cu -o PROGRAM`"


@pytest.mark.parametrize(("libraries", "more", "says"), [
    (["libcudart.so.13"], b".nv_fatbin", ""), (["libc.so.6", "libcudart.so.12"], b"", ""),
    (["libcudart.so.11.0", "libcudart.so.13"], b"", ""), (["libc.so.6"], b"", ""),
    (["libcudart.so.11.0", "libcudart.so.10"], b".nv_fatbin",
     "was built for libcudart.so.11.0, the stand-in is libcudart.so.12 and libcudart.so.13; "),
    (["libc.so.6"], b".nv_fatbin", "has the CUDA runtime linked into it; "),
])  # fmt: skip
def test_which_programs_load_the_stand_in(
    libraries: list[str], more: bytes, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "program"
    file.write_bytes(program(libraries, more))
    if not says:
        elf.check(file)
        return
    with pytest.raises(elf.UnsuitableProgram) as raised:
        elf.check(file)
    assert str(raised.value) == f"{file} {says}{BUILD}"


def test_a_folder_is_no_program_and_a_file_may_be_closed_to_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(elf.UnsuitableProgram, match=f"^no program {tmp_path}: {BUILD}$"):
        elf.check(tmp_path)
    file = tmp_path / "closed"
    file.write_bytes(program([]))

    def closed(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", closed)
    with pytest.raises(elf.UnsuitableProgram, match=f"^cannot read {file}: Permission denied$"):
        elf.check(file)


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
    return b"\x50\xed\x55\xba" + b"\1\0\x10\0" + len(body).to_bytes(8, "little") + body


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

    def test_entries_say_what_they_are(self):
        blob = fat(
            entry(fatbin.PTX, 80, b"eighty", 0x11), entry(fatbin.MACHINE_CODE, 90, b"code", 0x8000),
            entry(fatbin.MACHINE_CODE, 100, b"", 0x2000),
        )  # fmt: skip
        found = fatbin.images(blob)
        assert [(one.kind, one.target, one.flags, one.payload) for one in found] == [
            (1, 80, 0x11, b"eighty"), (2, 90, 0x8000, b"code"), (2, 100, 0x2000, b""),
        ]  # fmt: skip
        assert [one.compressed for one in found] == [False, True, True]

    def test_a_payload_is_as_long_as_it_is_stored(self):
        image = bytearray(entry(fatbin.PTX, 90, b"ninety\0\0"))
        image[16:20] = (6).to_bytes(4, "little")
        assert fatbin.images(fat(bytes(image)))[0].payload == b"ninety"

    @pytest.mark.parametrize("size", [63, 65])
    def test_an_entry_has_a_head_of_64_bytes_or_more(self, size):
        image = bytearray(entry(fatbin.PTX, 90, b"ninety\0\0"))
        image[4:8] = size.to_bytes(4, "little")
        image[8:16] = (72 - size).to_bytes(8, "little")
        if size > 64:
            assert fatbin.images(fat(bytes(image)))[0].payload == b"inety\0\0"
            return
        says = f"^the program's fat binary has an unknown layout; {BUILD}"
        with pytest.raises(fatbin.FatBinaryError, match=says):
            fatbin.images(fat(bytes(image)))

    @pytest.mark.parametrize(("size", "fits"), [(15, False), (16, True), (17, True)])
    def test_the_head_has_16_bytes_or_more(self, size, fits):
        blob = bytearray(fat(bytes(max(0, size - 16)), entry(fatbin.PTX, 90, b"ninety")))
        blob[6:8] = size.to_bytes(2, "little")
        blob[8:16] = (70).to_bytes(8, "little")
        if fits:
            assert fatbin.newest_ptx(bytes(blob)) == "ninety"
            return
        with pytest.raises(fatbin.FatBinaryError, match="unknown layout"):
            fatbin.images(bytes(blob))

    @pytest.mark.parametrize("more", [1, 48, 63])
    def test_what_is_too_short_for_an_entry_is_none(self, more):
        blob = fat(entry(fatbin.PTX, 90, b"ninety"), bytes(more))
        assert [one.payload for one in fatbin.images(blob)] == [b"ninety"]

    def test_text_and_machine_code_stand_alone(self):
        text = b"// \n .target sm_100a\n.target sm_80\n"
        assert fatbin.images(text) == [fatbin.Image(fatbin.PTX, 100, 0, text)]
        code = b"\x7fELF.."
        assert fatbin.images(code) == [fatbin.Image(fatbin.MACHINE_CODE, 0, 0, code)]
        assert fatbin.units(text) == [text]
        assert fatbin.newest_ptx(text, 100) == text.decode().strip("\n")
        assert fatbin.alone(fat(entry(fatbin.PTX, 80, text))) is None
        assert fatbin.alone(b"no text") is None

    def test_units_stand_one_after_another(self):
        one, two = (fat(entry(fatbin.PTX, target, text)) for target, text in
                    ((80, b"eighty\n\0"), (90, b"\nninety")))  # fmt: skip
        assert fatbin.units(one + two) == [one, two] == fatbin.units(one + two + bytes(15))
        assert fatbin.newest_ptx(one + two) == "eighty\nninety"
        for rest in (b"", bytes(16)):
            with pytest.raises(fatbin.FatBinaryError):
                fatbin.units(rest if not rest else one + rest)
        with pytest.raises(fatbin.FatBinaryError, match=r"needs sm_90, the device is sm_80$"):
            fatbin.newest_ptx(one + two, 80)

    def test_machine_code_is_known_by_its_bytes(self):
        code = hashlib.sha256(b"code").digest()
        assert fatbin.digest(fat(entry(1, 80, b"text"), entry(2, 90, b"code"))) == code
        assert fatbin.digest(b"\x7fELF") == hashlib.sha256(b"\x7fELF").digest()
        packed = entry(2, 90, b"zz", 0x2000), entry(2, 90, b"code"), entry(2, 80, b"other")
        assert fatbin.digest(fat(*packed)) == code
        for none in (fat(entry(1, 80, b"text")), b"", fat(packed[0])):
            assert fatbin.digest(none) == b""
