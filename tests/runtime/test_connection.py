"""Messages over a socket: whole, in parts, and when one end goes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from phasebit.runtime import connection
from phasebit.runtime.protocol import REPLY, REQUEST, Kind, Op
from phasebit.runtime.server import Reply


class Echo:
    """A device that answers with what it was asked, and prints now and then."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Sequence[int], bytes]] = []
        self.printed = b""
        self.fault = 7

    def handle(self, op: int, words: Sequence[int], blob: bytes) -> Reply | None:
        self.asked.append((op, tuple(words), bytes(blob)))
        if blob == b"print":
            self.printed += b"text"
        return Reply(3, words) if op < Op.CALLS else None


def request(op: int, words: Sequence[int] = (), blob: bytes = b"") -> bytes:
    return REQUEST.pack(op, len(words), len(blob)) + struct.pack(f"<{len(words)}Q", *words) + blob


def served(*parts: bytes) -> tuple[Echo, bytes]:
    """What a device was asked by these bytes, sent one after another, and what it answers."""
    device: Any = Echo()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = threading.Thread(target=connection.serve, args=(device, ours))
        thread.start()
        for part in parts:
            theirs.sendall(part)
        theirs.shutdown(socket.SHUT_WR)
        thread.join(10)
        assert not thread.is_alive()
        ours.close()
        answer = b""
        while part := theirs.recv(4096):
            answer += part
    return device, answer


def test_a_message_is_answered_with_its_status_and_the_fault() -> None:
    device, answer = served(request(5, (1, 2**64 - 1), b"blob"), request(6))
    assert device.asked == [(5, (1, 2**64 - 1), b"blob"), (6, (), b"")]
    assert answer == REPLY.pack(Kind.REPLY, 3, 7, 16) + struct.pack("<2Q", 1, 2**64 - 1) \
        + REPLY.pack(Kind.REPLY, 3, 7, 0)  # fmt: skip


def test_what_kernels_printed_comes_before_the_next_answer_and_once() -> None:
    device, answer = served(request(Op.LAUNCH, (), b"print"), request(5), request(5))
    plain = REPLY.pack(Kind.REPLY, 3, 7, 0)
    assert answer == REPLY.pack(Kind.TEXT, 0, 0, 4) + b"text" + plain + plain
    assert len(device.asked) == 3


def test_a_message_may_come_in_parts() -> None:
    message = request(5, (9,), b"x" * 100)
    device, _ = served(*(message[i : i + 7] for i in range(0, len(message), 7)))
    assert device.asked == [(5, (9,), b"x" * 100)]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 24, 27])
def test_a_message_that_is_cut_off_is_no_message(size: int) -> None:
    message = request(5, (9,), b"blob")
    assert len(message) == 28
    assert served(message[:size])[0].asked == []


def test_a_large_message_is_read_whole() -> None:
    blob = bytes(range(256)) * (3 << 12)
    device, _ = served(request(Op.MODULE, (1,), blob))
    assert device.asked == [(Op.MODULE, (1,), blob)]


def test_a_large_message_is_asked_for_a_mebibyte_at_a_time() -> None:
    class Patient:
        left = request(Op.MODULE, (), bytes(5 << 19))
        asked: list[int] = []  # noqa: RUF012

        def recv(self, size: int) -> bytes:
            self.asked.append(size)
            part, self.left = self.left[:size], self.left[size:]
            return part

    device: Any = Echo()
    connection.serve(device, Patient())  # type: ignore[arg-type]
    assert Patient.asked == [16, 1 << 20, 1 << 20, 1 << 19, 16]


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_program_that_is_gone_is_answered_no_more(error: type[OSError]) -> None:
    class Gone:
        left = request(5) * 2

        def recv(self, size: int) -> bytes:
            part, self.left = self.left[:size], self.left[size:]
            return part

        def sendall(self, frames: bytes) -> None:
            raise error

    device: Any = Echo()
    connection.serve(device, Gone())  # type: ignore[arg-type]
    assert len(device.asked) == 1


def test_a_reset_is_an_end() -> None:
    class Reset:
        def recv(self, size: int) -> bytes:
            raise ConnectionResetError

    device: Any = Echo()
    connection.serve(device, Reset())  # type: ignore[arg-type]
    assert device.asked == []
