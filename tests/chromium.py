"""A page in headless Chromium, spoken to over its debugging pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

#: Seconds that a page may take for anything.
_PATIENCE = 120


class Page:
    """An open page; a context manager, after which the browser has gone.

    Attributes
    ----------
    told : list of str
        Errors and warnings: exceptions, console messages, what the page's own policy refused.
    requested : list of str
        Addresses that were asked for, in the order of asking, but those that hold their own data.
    """

    def __init__(self, path: Path) -> None:
        assert PROGRAM is not None
        self.told: list[str] = []
        self.requested: list[str] = []
        self._address = path.resolve().as_uri()
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        # The browser reads its descriptor 3 and writes its 4; a shell puts them there, whatever numbers they have.
        wiring = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        options = [
            "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--window-size=1200,1000", f"--user-data-dir={self._folder.name}", "about:blank",
        ]  # fmt: skip
        self._browser = subprocess.Popen(
            ["bash", "-c", wiring, "chromium", PROGRAM, *options],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._read = b""
        self._session: str | None = None
        self._loaded = False

    def __enter__(self) -> Self:
        pages = [each for each in self._ask("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self._ask("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self._ask("Page.navigate", url=self._address)
        self._until(lambda: self._loaded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._browser.kill()
        self._browser.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def run(self, script: str) -> Any:
        """What an expression, or a promise, comes to in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        shot = self._ask("Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answers: list[dict[str, Any]] = []
        self._until(lambda: bool(answers), answers)
        assert "error" not in answers[0], (method, answers[0])
        result: dict[str, Any] = answers[0]["result"]
        return result

    def _until(self, done: Callable[[], bool], answers: list[dict[str, Any]] | None = None) -> None:
        while not done():
            message = self._next()
            if message.get("id") == self._number and answers is not None:
                answers.append(message)
            elif "method" in message:
                self._hear(message["method"], message["params"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE)
            assert ready, "the browser says nothing"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has ended"
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _hear(self, method: str, about: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.told.append(str(about["exceptionDetails"].get("exception", about)))
            case "Runtime.consoleAPICalled":
                self.told.append(f"console.{about['type']}: {about['args']}")
            case "Log.entryAdded":
                self.told.append(about["entry"]["text"])
            case "Network.requestWillBeSent":
                if not about["request"]["url"].startswith("data:"):
                    self.requested.append(about["request"]["url"])
