#!/usr/bin/env python3
"""What strangers cost a running job: 10,000 connections without a hello, slow-loris, limits of processes and descriptors.

    python3 e2e/reliability/strangers.py --canoe target/release/canoe [--descriptors 256] [--tasks 200]

Starts a job of two nodes under limits of descriptors per process and, with --tasks (root), of processes and threads
together, as a pod has them. Measures the samples per second of its trainers alone and then in a crowd that holds, drips
and renews connections to every port of a server, and meanwhile joins as an authenticated peer again and again (the
handshake of docs/protocol.md, written here a second time). The job has all cores but one, the crowd that one. Prints the
figures; the exit code is 1 if a promise of docs/reliability.md is not kept.
"""

import argparse
import hashlib
import hmac
import json
import multiprocessing
import os
import pathlib
import resource
import secrets
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

CONFIG = "trainer_config.lr-native.py"
CORES = sorted(os.sched_getaffinity(0))


def frame(kind, body, sequence):
    head = struct.pack("<4sBBBBIQII", b"CANO", 2, kind, 0, 0, len(body), 0, sequence, zlib.crc32(body))
    return head + struct.pack("<I", zlib.crc32(head)) + body


def receive(stream):
    def exactly(count):
        data = b""
        while len(data) < count:
            more = stream.recv(count - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data
    head = exactly(32)
    body = exactly(struct.unpack_from("<I", head, 8)[0])
    return head[5], json.loads(body)


def join(port, token):
    """Seconds until a server has answered an authenticated hello, which is sent again if it goes under, as trainers do."""
    begun = time.monotonic()
    while True:
        try:
            hello(port, token)
            return time.monotonic() - begun
        except ConnectionError:
            assert time.monotonic() < begun + 30, "no answer within 30 s"
            time.sleep(0.01)


def hello(port, token):
    """Says an authenticated hello, with an id that the job does not have."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
        kind, challenge = receive(stream)
        assert kind == 1, kind
        nonce = secrets.token_hex(32)
        text = f"canoe client\n{challenge['nonce']}\n{nonce}\ntcp\n".encode()
        message = {
            "nonce": nonce,
            "proof": hmac.new(token, text, hashlib.sha256).hexdigest(),
            "role": "command", "trainer": 9, "instance": 1, "trainers": 2,
            "topology": {"servers": 2, "ports": 1, "sparse_ports": 1},
            "server": 0, "servers_hash": 0, "job_hash": 0, "job": "", "shapes": 0, "epoch": 0,
        }
        stream.sendall(frame(2, json.dumps(message).encode(), 0))
        kind, answer = receive(stream)
        # Who does not know the token is told 'denied'; this peer is known, but its id is out of range.
        assert kind == 4 and answer["code"] == "mismatch", answer


def children(parent):
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text()
                line = pathlib.Path("/proc", entry, "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if stat.rsplit(")", 1)[1].split()[1] == str(parent):
                for part in line:
                    if part.startswith(("--server_id=", "--trainer_id=")):
                        found[part[2:]] = (int(entry), line)
    return found


def samples(job):
    total = 0
    for node in range(2):
        total += json.loads((job / f"output/node_{node}/train.beat.json").read_text())["samples"]
    return total


def speed(job, seconds):
    first, begun = samples(job), time.monotonic()
    time.sleep(seconds)
    return (samples(job) - first) / (time.monotonic() - begun)


def memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def processor_time(pid, name):
    """Seconds that the threads of this name have used."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def used_time(processes):
    """Seconds of processor time of all processes of the job."""
    total = 0
    for pid, _ in processes.values():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Tasks:
    """A control group that limits the number of processes and threads."""

    def __init__(self, limit):
        root = pathlib.Path("/sys/fs/cgroup/pids")
        root = root if root.is_dir() else root.parent
        self.folder = root / f"canoe-strangers-{os.getpid()}"
        self.folder.mkdir()
        (self.folder / "pids.max").write_text(str(limit))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def count(self):
        return int((self.folder / "pids.current").read_text())

    def remove(self):
        self.folder.rmdir()


class Crowd:
    """Holds so many connections to ports, renews those that are closed, and drips bytes into every tenth. It has the last
    core to itself: strangers are on machines of their own, and must not be counted as a cost of the job."""

    def __init__(self, ports, size):
        self.ports, self.size = ports, size
        self.count, self.stop = multiprocessing.Value("L", 0), multiprocessing.Event()
        self.process = multiprocessing.Process(target=self.run, daemon=True)
        self.process.start()

    @property
    def opened(self):
        return self.count.value

    def run(self):
        os.sched_setaffinity(0, CORES[-1:])
        held, poller = {}, select.poll()
        while not self.stop.is_set():
            for _ in range(min(50, self.size - len(held))):
                stream = socket.socket()
                stream.setblocking(False)
                stream.connect_ex(("127.0.0.1", self.ports[self.opened % len(self.ports)]))
                held[stream.fileno()] = stream
                poller.register(stream, select.POLLIN | select.POLLHUP)
                self.count.value += 1
            for number, (descriptor, _) in enumerate(poller.poll(20)):
                stream = held[descriptor]
                try:
                    gone = stream.recv(4096) == b""
                    if number % 10 == 0:
                        stream.send(b"C")
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    poller.unregister(stream)
                    del held[descriptor]
                    stream.close()
            time.sleep(0.005)
        for stream in held.values():
            stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--crowd", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--descriptors", type=int, default=1024, help="limit of each process")
    parser.add_argument("--tasks", type=int, help="limit of processes and threads of the job (root)")
    args = parser.parse_args()
    canoe = os.path.abspath(args.canoe)
    os.sched_setaffinity(0, CORES[-1:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, args.crowd + 1000), hard))
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder, "job")
        subprocess.run([canoe, "demo", "quick_start", job, "--train-samples=20000", "--test-samples=200"], check=True, capture_output=True)
        tasks = Tasks(args.tasks) if args.tasks else None

        def limits():
            os.sched_setaffinity(0, CORES[:-1] or CORES)
            resource.setrlimit(resource.RLIMIT_NOFILE, (args.descriptors, args.descriptors))
            if tasks:
                tasks.enter()

        command = [canoe, "run", str(job), "--nodes=2", "--config", CONFIG, "--passes=100000", "--watch=off"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limits)
        try:
            deadline = time.monotonic() + 120
            while not (job / "output/pass-00000/done").exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            processes = children(run.pid)
            pid, line = processes["server_id=0"]
            flag = lambda name: int(next(part.split("=")[1] for part in line if part.startswith(f"--{name}=")))
            port, status = flag("port"), flag("status_port")
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            token = next(entry.split(b"=", 1)[1] for entry in environment if entry.startswith(b"CANOE_JOB_TOKEN="))
            rss, busy, seen = memory(pid), used_time(processes), samples(job)
            before = speed(job, args.seconds)
            cost = (used_time(processes) - busy) / (samples(job) - seen)
            joins = [join(port, token) for _ in range(20)]
            alone = max(joins)
            crowd = Crowd([port, port + 1, status], args.crowd)
            time.sleep(3)
            joins, probes, stop = [], [], time.monotonic() + args.seconds
            first, begun = samples(job), time.monotonic()
            used = lambda: processor_time(pid, "gate") + processor_time(pid, "status")
            gate, busy = used(), used_time(processes)
            while time.monotonic() < stop:
                joins.append(join(port, token))
                asked = time.monotonic()
                with urllib.request.urlopen(f"http://127.0.0.1:{status}/healthz", timeout=10) as page:
                    assert page.read() == b"ok\n"
                probes.append(time.monotonic() - asked)
                time.sleep(0.2)
            during = (samples(job) - first) / (time.monotonic() - begun)
            cost = (used_time(processes) - busy) / (samples(job) - first) / cost
            of_all = tasks.count() if tasks else None
            gate = (used() - gate) / (time.monotonic() - begun)
            peak, threads = memory(pid), len(os.listdir(f"/proc/{pid}/task"))
            crowd.stop.set()
            crowd.process.join()
            time.sleep(3)
            before = (before + speed(job, args.seconds)) / 2
            log = (job / "output/node_0/server.log").read_text().count("\n")
        finally:
            run.terminate()
            run.wait()
            if tasks:
                tasks.remove()
    limit = f", {of_all} of {args.tasks} tasks in use" if tasks else ""
    print(f"limits: {args.descriptors} descriptors{limit}")
    print(f"connections opened by the crowd of {args.crowd}: {crowd.opened}")
    print(f"samples per second: {before:.0f} alone, {during:.0f} in the crowd ({during / before:.2f}); processor time per sample {cost:.2f} times that alone")
    print(f"an authenticated peer is answered within {1e3 * alone:.0f} ms alone, {1e3 * max(joins):.0f} ms in the crowd ({len(joins)} joins)")
    print(f"the threads that hear strangers used {gate:.2f} of a core")
    print(f"/healthz within {1e3 * max(probes):.0f} ms ({len(probes)} probes)")
    print(f"memory of the server: {rss:.0f} MB alone, {peak:.0f} MB in the crowd; {threads} threads; {log} lines in its log")
    kept = during >= 0.9 * before and max(joins) < 1 and peak < rss + 100
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
