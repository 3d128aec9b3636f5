"""Messages over the socket to a program: read one, let the device handle it, answer."""

from __future__ import annotations

import socket
import struct

from phasebit.runtime.protocol import REPLY, REQUEST, Kind
from phasebit.runtime.server import Device


def _receive(connection: socket.socket, size: int) -> bytes | None:
    """Exactly `size` bytes, or None when the program has gone."""
    parts = bytearray()
    while len(parts) < size:
        try:
            part = connection.recv(min(size - len(parts), 1 << 20))
        except ConnectionResetError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)


def serve(device: Device, connection: socket.socket) -> None:
    """Answer a program until it closes its end."""
    while (head := _receive(connection, REQUEST.size)) is not None:
        op, count, size = REQUEST.unpack(head)
        body = _receive(connection, count * 8 + size)
        if body is None:
            return
        reply = device.handle(op, struct.unpack_from(f"<{count}Q", body), body[count * 8 :])
        if reply is None:
            continue
        frames = b""
        if device.printed:
            text, device.printed = device.printed, b""
            frames += REPLY.pack(Kind.TEXT, 0, 0, len(text)) + text
        payload = reply.payload()
        frames += REPLY.pack(Kind.REPLY, reply.status, device.fault, len(payload)) + payload
        try:
            connection.sendall(frames)
        except (BrokenPipeError, ConnectionResetError):
            return
