#!/usr/bin/env python3
"""How long it takes from the announcement that a server is about to end (SIGUSR1) until all servers have a snapshot.

    python3 e2e/reliability/drain.py --canoe target/release/canoe

Starts a job of two nodes with a large embedding and no regular snapshots, announces the end of one server after the
other, and reads from the server's status when the snapshot that it asked for is on all servers. Prints the times; the
exit code is 1 if one was longer than two seconds.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

CONFIG = "trainer_config.emb.py"


def servers(parent):
    """Process id and status port of each server of the run."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
            line = pathlib.Path("/proc", entry, "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        ports = [part.split("=")[1] for part in line if part.startswith("--status_port=")]
        if stat.rsplit(")", 1)[1].split()[1] == str(parent) and "pserver" in line and ports:
            found.append((int(entry), int(ports[0])))
    return found


def status(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=10) as page:
        return json.load(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    canoe, times = os.path.abspath(args.canoe), []
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder, "job")
        subprocess.run([canoe, "demo", "quick_start", job, "--train-samples=20000", "--test-samples=200"], check=True, capture_output=True)
        command = [canoe, "run", str(job), "--nodes=2", "--config", CONFIG, "--passes=100000", "--snapshot-period=1000000000", "--watch=off"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (job / "output/pass-00000/done").exists():
                assert run.poll() is None, "the job has ended"
                time.sleep(0.1)
            found = servers(run.pid)
            assert len(found) == 2, found
            for number in range(args.rounds):
                pid, port = found[number % 2]
                before = status(port)["step"]
                begun = time.monotonic()
                os.kill(pid, signal.SIGUSR1)
                while (status(port)["snapshot_on_all"] or 0) <= before:
                    assert time.monotonic() < begun + 60, "no snapshot within a minute"
                    time.sleep(0.005)
                times.append(time.monotonic() - begun)
                time.sleep(0.5)
            size = sum(file.stat().st_size for file in max((job / "output/snapshots").glob("step-*")).rglob("*"))
        finally:
            run.terminate()
            run.wait()
    print(f"{len(times)} announcements, snapshots of {size / 1e6:.0f} MB: on all servers after {min(times):.2f} to {max(times):.2f} s")
    sys.exit(0 if max(times) <= 2 else 1)


if __name__ == "__main__":
    main()
