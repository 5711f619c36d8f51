"""What the tests of watching share: a demo job, a running `canoe run`, pages, waiting with a time limit."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request


def canoe_from_arguments():
    at = sys.argv.index("--canoe")
    return pathlib.Path(sys.argv[at + 1]).resolve()


def pictures():
    """The directory for screenshots."""
    folder = pathlib.Path(os.environ.get("CANOE_PICTURES", tempfile.gettempdir()))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="canoe-watch-", ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)


def demo(canoe, folder):
    subprocess.run([canoe, "demo", "quick_start", folder / "demo"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "demo"


def get(address):
    with urllib.request.urlopen(address, timeout=120) as answer:
        return answer.read()


def get_json(address):
    return json.loads(get(address))


def until(check, what, seconds=180):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s for {what}")


class Program:
    """A canoe command that serves a page."""

    def __init__(self, *args):
        self.log = tempfile.NamedTemporaryFile(prefix="canoe-log-", suffix=".txt")
        self.process = subprocess.Popen(list(map(str, args)), stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.page = until(self._address, "the page's address")

    def text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def _address(self):
        found = re.search(r"watch it at (http://\S+?)/\s", self.text() + "\n")
        assert found or self.process.poll() is None, self.text()
        return found and found.group(1)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def run(canoe, job, *args, passes=400, nodes=3, config="trainer_config.lr.py"):
    shutil.rmtree(job / "output", ignore_errors=True)
    return Program(canoe, "run", job, "--nodes", nodes, "--config", config, "--passes", passes, "--watch", "127.0.0.1:0", *args)


def dashboard(canoe, *jobs):
    return Program(canoe, "dashboard", *jobs, "--address", "127.0.0.1:0")


def update(page, job=0):
    return get_json(f"{page}/api/jobs/{job}/update")


def pid_of(job, node, role="train"):
    return json.loads((job / f"output/node_{node}/{role}.beat.json").read_text())["pid"]
