"""A Firefox to look at the pages with, by its own protocol, Marionette: no driver is needed.

What a test does in it, it does by JavaScript in the page; keys and clicks are the browser's.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 60
"""How long one answer may take."""
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name of an element, by the W3C's WebDriver


class FirefoxError(RuntimeError):
    """Firefox said no."""


def find() -> str | None:
    """The path of Firefox, or ``None``."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """A page of a Firefox that runs."""

    def __init__(self, port: int) -> None:
        end = time.monotonic() + SECONDS
        while True:
            try:
                self._line = socket.create_connection(("127.0.0.1", port), SECONDS)
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise FirefoxError(f"Firefox does not answer at port {port}") from None
                time.sleep(0.2)
        self._rest = b""
        self._read()  # who it is
        self._asked = 0
        self.ask("WebDriver:NewSession", {})

    def _read(self) -> Any:
        while b":" not in self._rest:
            self._rest += self._received()
        size, _, self._rest = self._rest.partition(b":")
        while len(self._rest) < int(size):
            self._rest += self._received()
        message, self._rest = self._rest[: int(size)], self._rest[int(size) :]
        return json.loads(message)

    def _received(self) -> bytes:
        if not (data := self._line.recv(65536)):
            raise FirefoxError("Firefox has ended")
        return data

    def ask(self, command: str, arguments: dict[str, Any]) -> Any:
        """The answer to one command. Raises :class:`FirefoxError` with what it says."""
        self._asked += 1
        message = json.dumps([0, self._asked, command, arguments]).encode()
        self._line.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        if error:
            raise FirefoxError(f"{command}: {error['message']}")
        return result.get("value", result) if isinstance(result, dict) else result

    def open(self, url: str) -> None:
        """Load a page, and wait until it is."""
        self.ask("WebDriver:Navigate", {"url": url})

    def evaluate(self, script: str, *arguments: Any) -> Any:
        """What the body of a function of JavaScript returns."""
        return self.ask("WebDriver:ExecuteScript", {"script": script, "args": [*arguments]})

    def wait(self, script: str, *arguments: Any) -> Any:
        """The first value of a script that is true, or an error after :data:`SECONDS`."""
        end = time.monotonic() + SECONDS
        while not (found := self.evaluate(script, *arguments)):
            if time.monotonic() > end:
                raise FirefoxError(f"this was not to be: {script}")
            time.sleep(0.1)
        return found

    def element(self, selector: str) -> str:
        """The first element of a CSS selector."""
        given = {"using": "css selector", "value": selector}
        return str(self.ask("WebDriver:FindElement", given)[_ELEMENT])

    def click(self, selector: str) -> None:
        """Press the first element of a CSS selector."""
        self.ask("WebDriver:ElementClick", {"id": self.element(selector)})

    def type(self, selector: str, text: str) -> None:
        """Put a text in place of what stands in a field, by keys."""
        found = {"id": self.element(selector)}
        self.ask("WebDriver:ElementClear", found)
        self.ask("WebDriver:ElementSendKeys", {**found, "text": text})

    def text(self, selector: str) -> str:
        """What stands in the first element of a CSS selector."""
        return str(self.ask("WebDriver:GetElementText", {"id": self.element(selector)}))


@contextmanager
def running(program: str, folder: Path) -> Iterator[Firefox]:
    """A Firefox without a window, with a profile of its own in ``folder``, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "marionette.port": port,
        "datareporting.policy.dataSubmissionEnabled": False,
        "app.update.enabled": False,
        "ui.prefersReducedMotion": 1,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "browser.shell.checkDefaultBrowser": False,
    }
    lines = (f"user_pref({json.dumps(name)}, {json.dumps(to)});" for name, to in settings.items())
    (folder / "user.js").write_text("\n".join(lines), encoding="utf-8")
    command = [program, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield Firefox(port)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
