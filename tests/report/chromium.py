"""A headless Chromium that tests drive through its DevTools protocol, over a pipe: no library needed."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds for one answer; the first start on a busy machine takes ten


def installed():
    """Path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. `events` are all messages of it that were not asked for."""

    def __init__(self, profile):
        """`profile`: an empty folder for what the browser keeps."""
        down, up = os.pipe(), os.pipe()  # to and from the browser, which reads 3 and writes 4
        words = [installed(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                 "--no-first-run", "--disable-component-update", "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        redirected = f'exec "$0" "$@" 3<&{down[0]} 4>&{up[1]}'
        self.process = subprocess.Popen(
            ["bash", "-c", redirected, *words], pass_fds=(down[0], up[1]), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(down[0])
        os.close(up[1])
        self.out, self.back, self.rest = down[1], up[0], b""
        self.numbers, self.events, self.session = itertools.count(1), [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        """The result of a command of the protocol."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda found: found.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _until(self, wanted):
        """The first message that is `wanted`; those before it are events."""
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.rest:
                text, _, self.rest = self.rest.partition(b"\0")
                found = json.loads(text)
                if wanted(found):
                    return found
                self.events.append(found)
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            self.rest += (part := os.read(self.back, 1 << 20))
            if not part:
                raise RuntimeError("Chromium has ended")

    def open(self, path, width, height=900, dark=False):
        """Open a file at a width in pixels; returns when it is loaded."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        if not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._until(lambda found: found.get("method") == "Page.loadEventFired"))

    def run(self, script):
        """What a script in the page comes to, as JSON."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def press(self, key):
        """Press and release a key: "Tab", "Enter", " "."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                     **({"text": text} if text and kind == "keyDown" else {}))  # fmt: skip

    def screenshot(self, path, whole=True):
        """A .png of the page, or of the window alone."""
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def said(self, *methods):
        """The parameters of the events of these kinds."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def close(self):
        """End the browser and its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
