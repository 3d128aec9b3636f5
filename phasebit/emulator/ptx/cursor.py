"""A place in the tokens of a text, and how a reader moves on from it."""

from __future__ import annotations

import struct

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.lexer import Token, tokens
from phasebit.emulator.ptx.syntax import Immediate


class Cursor:
    """``token`` is the next one to be read; the last one marks the end of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.token = self.tokens[0]

    def fail(self, message: str, token: Token | None = None) -> PtxError:
        """The error for this token, or for another."""
        token = token or self.token
        if token.kind == "end":
            message += "; the text seems to be cut short"
        return PtxError(message, token.line)

    def next(self) -> Token:
        """Read a token, whatever it is."""
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def following(self) -> Token:
        """The token after the next one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def accept(self, text: str) -> bool:
        """Read this token if it comes next: whether it did."""
        if self.token.text == text and self.token.kind != "string":
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Read this token; raises :class:`PtxError` where another one stands."""
        if self.token.text != text or self.token.kind == "string":
            raise self.fail(f"expected {text!r} but found {self.token.text!r}")
        return self.next()

    def skip_to(self, text: str, unclosed: str) -> None:
        """Read up to and with this token; ``unclosed`` says what is wrong where there is none."""
        while not self.accept(text):
            if self.next().kind == "end":
                raise self.fail(unclosed)

    def word(self) -> str:
        """Read a name."""
        if self.token.kind != "word":
            raise self.fail(f"expected a name but found {self.token.text!r}")
        return self.next().text

    def integer(self) -> int:
        """Read an integer, perhaps negative."""
        negative = self.accept("-")
        if self.token.kind != "int":
            raise self.fail(f"expected an integer but found {self.token.text!r}")
        value = self.constant(self.next())
        return -value if negative else value

    def constant(self, token: Token) -> int:
        """The value of a token that is an integer."""
        try:
            value = integer(token.text)
        except ValueError:  # Python reads no number of some thousands of digits
            value = 1 << 64
        if value >> 64:
            raise self.fail("an integer constant has 64 bits at most", token)
        return value

    def offset(self) -> int:
        """Read ``+4-8`` …, the empty text included: its sum."""
        total = 0
        while self.token.text in ("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            total += sign * self.integer()
        return total

    def immediate(self) -> Immediate:
        """Read a number of any form that PTX has (4.5)."""
        sign = 1
        while self.token.text in ("-", "+"):
            sign = -sign if self.next().text == "-" else sign
        token = self.next()
        if token.kind == "int":
            return Immediate(sign * self.constant(token))
        if token.kind == "float":
            return Immediate(sign * float(token.text))
        if token.kind == "bits":
            bits = int(token.text[2:], 16)
            single = token.text[1] in "fF"
            value = struct.unpack(">f" if single else ">d", bits.to_bytes(4 if single else 8))[0]
            if sign < 0:
                bits ^= 1 << (31 if single else 63)
                value = -value
            return Immediate(value, bits)
        raise self.fail(f"expected a number but found {token.text!r}", token)


def integer(text: str) -> int:
    """The value of an integer constant: decimal, ``0x``, ``0b`` or octal."""
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return int(text, 0)
    if len(text) > 1 and text[0] == "0" and text.isdecimal() and set(text) <= set("01234567"):
        return int(text, 8)
    return int(text)


__all__ = ["Cursor", "integer"]
