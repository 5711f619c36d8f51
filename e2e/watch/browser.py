"""A headless Chromium, driven over the DevTools protocol: open pages, evaluate scripts, click, take screenshots, collect errors."""

import base64
import itertools
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

import websocket

PROGRAM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        assert PROGRAM, "no Chromium: apt-get install chromium"
        self.profile = tempfile.TemporaryDirectory(prefix="canoe-browser-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
             "--no-first-run", "--disable-background-networking", "--remote-debugging-port=0", "--remote-allow-origins=*",
             f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.errors = []
        self.ids = itertools.count(1)
        self.socket = websocket.create_connection(self._page(), timeout=60)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        if dark:
            self.dark(True)

    def _page(self):
        port_file = pathlib.Path(self.profile.name) / "DevToolsActivePort"
        for _ in range(600):
            if port_file.exists() and port_file.read_text().strip():
                port = port_file.read_text().split()[0]
                pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list"))
                for page in pages:
                    if page["type"] == "page":
                        return page["webSocketDebuggerUrl"]
            time.sleep(0.05)
        raise AssertionError("Chromium did not start")

    def call(self, method, **params):
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message.get('error')}"
                return message["result"]
            self._hear(message)

    def _hear(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details.get("text"))
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([value.get("value") for value in params["args"]]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def goto(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'", "the page to load")

    def leave(self):
        """Leaves a page before its server ends, so that its last requests do not fail."""
        self.goto("about:blank")
        self.errors.clear()

    def ask(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, expression, what, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                value = self.ask(expression)
            except AssertionError:
                value = None  # the document may just be changing
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited {seconds} s for {what}; errors so far: {self.errors}")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, x0, x1, y):
        self.move(x0, y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x0, y=y, button="left", clickCount=1)
        self.move((x0 + x1) / 2, y)
        self.move(x1, y)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x1, y=y, button="left", clickCount=1)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else "")

    def picture(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        try:
            self.socket.close()
        finally:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
