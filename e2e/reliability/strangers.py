#!/usr/bin/env python3
"""What strangers cost a running job: 10,000 connections without a hello, slow-loris, limits of processes and descriptors.

    python3 e2e/reliability/strangers.py --canoe target/release/canoe [--descriptors 256] [--tasks 200] [--rounds 4]

Starts a job of two nodes under limits of descriptors per process and, with --tasks (root), of processes and threads
together, as a pod has them. A crowd holds, drips and renews connections to every port of a server. The job has all cores
but one, the crowd that one. Three speeds of the trainers are measured in turn, several rounds: alone; with the crowd at a
listener that is no part of the job, on the crowd's core, because two cores of a machine share caches and more, and what
the crowd itself uses of them is no cost of strangers; and with the crowd at the server. Then a trainer is killed in the
crowd: until its replacement trains, an authenticated peer joins again and again (the handshake of docs/protocol.md,
written here a second time), as the replacement does. Prints the figures; the exit code is 1 if a promise of
docs/reliability.md is not kept.
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
import signal
import socket
import statistics
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
            "server": 0, "servers_hash": 0, "job_hash": 0, "job": "", "shapes": 0, "holders": 2, "map": 0, "epoch": 0,
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


class Progress:
    """How many samples the trainers have had. Their state files are written once a second, so the clock is that of the files."""

    def __init__(self, job):
        self.files = [job / f"output/node_{node}/train.beat.json" for node in range(2)]

    def read(self, file):
        while True:
            try:
                when = file.stat().st_mtime_ns
                count = json.loads(file.read_text())["samples"]
                if file.stat().st_mtime_ns == when:
                    return when / 1e9, count
            except (OSError, ValueError):
                pass

    def next(self):
        """Waits until each file has changed. Returns the time and the samples of each."""
        old, new = [self.read(file) for file in self.files], []
        for file, before in zip(self.files, old):
            while (now := self.read(file))[0] == before[0]:
                time.sleep(0.002)
            new.append(now)
        return new

    def total(self):
        return sum(self.read(file)[1] for file in self.files)


class Speed:
    """Samples per second, and processor time of the job per sample, since the object was made."""

    def __init__(self, progress, processes):
        self.progress, self.processes = progress, processes
        self.begin, self.used = progress.next(), used_time(processes)

    def end(self):
        end, used = self.progress.next(), used_time(self.processes)
        counts = [after[1] - before[1] for before, after in zip(self.begin, end)]
        rate = sum(count / (after[0] - before[0]) for count, before, after in zip(counts, self.begin, end))
        return rate, (used - self.used) / sum(counts)


def memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def processor_time(pid, name):
    """Seconds that the threads of this name have used."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text().strip() != name:
                continue
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            # It has ended meanwhile.
            continue
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

    def end(self):
        self.stop.set()
        self.process.join()


class Elsewhere:
    """Listeners that are no part of the job and serve a crowd as a server does: a challenge, and the oldest goes. They share
    the crowd's core."""

    def __init__(self, count, pace):
        self.listeners = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(count)]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]
        self.stop = multiprocessing.Event()
        self.process = multiprocessing.Process(target=self.run, args=(pace,), daemon=True)
        self.process.start()

    def run(self, pace):
        os.sched_setaffinity(0, CORES[-1:])
        held, batch = [], 20
        while not self.stop.is_set():
            begun = time.monotonic()
            for at in range(batch):
                listener = self.listeners[at % len(self.listeners)]
                listener.setblocking(False)
                try:
                    stream, _ = listener.accept()
                    stream.send(bytes(130))
                    held.append(stream)
                except OSError:
                    pass
            while len(held) > 384:
                held.pop(0).close()
            time.sleep(max(0, batch / pace - (time.monotonic() - begun)))

    def end(self):
        self.stop.set()
        self.process.join()
        for listener in self.listeners:
            listener.close()


def recover(run, node, progress, port, token):
    """Kills the trainer of a node. Returns the seconds until its replacement has trained, and the times of joins meanwhile."""
    name, file = f"trainer_id={node}", progress.files[node]
    killed = children(run.pid)[name][0]
    os.kill(killed, signal.SIGKILL)
    begun, started, joins, seen = time.monotonic(), time.time(), [], []
    # A state of the replacement, and then one with more samples: files of before the kill do not count.
    while len(seen) < 2:
        joins.append(join(port, token))
        assert time.monotonic() < begun + 120, "the job did not go on within 120 s"
        time.sleep(0.02)
        if children(run.pid).get(name, (killed, []))[0] == killed:
            started = time.time()
            continue
        when, count = progress.read(file)
        if when > started and (not seen or count > seen[-1]):
            seen.append(count)
    return time.monotonic() - begun, joins


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--crowd", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=4)
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

        command = [canoe, "run", str(job), "--nodes=2", "--config", CONFIG, "--passes=100000", "--watch=off", "--keep-going"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limits)
        try:
            deadline = time.monotonic() + 120
            while not (job / "output/pass-00000/done").exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            processes = children(run.pid)
            progress = Progress(job)
            pid, line = processes["server_id=0"]
            flag = lambda name: int(next(part.split("=")[1] for part in line if part.startswith(f"--{name}=")))
            port, status = flag("port"), flag("status_port")
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            token = next(entry.split(b"=", 1)[1] for entry in environment if entry.startswith(b"CANOE_JOB_TOKEN="))
            rss = memory(pid)
            strangers = lambda: processor_time(pid, "gate") + processor_time(pid, "status")
            figures = {"alone": [], "elsewhere": [], "here": []}
            probes, joins, shares, rates, peak = [], [], [], [], 0

            def measure(name, crowd=None):
                if crowd:
                    time.sleep(3)
                opened, used, begun = crowd.opened if crowd else 0, strangers(), time.monotonic()
                speed, stop = Speed(progress, processes), time.monotonic() + args.seconds
                while time.monotonic() < stop:
                    if name == "here":
                        joins.append(join(port, token))
                        asked = time.monotonic()
                        with urllib.request.urlopen(f"http://127.0.0.1:{status}/healthz", timeout=10) as page:
                            assert page.read() == b"ok\n"
                        probes.append(time.monotonic() - asked)
                    time.sleep(0.5)
                figures[name].append(speed.end())
                elapsed = time.monotonic() - begun
                if name == "here":
                    shares.append((strangers() - used) / elapsed)
                if crowd:
                    rates.append((name, (crowd.opened - opened) / elapsed))

            pace = 3000
            for _ in range(args.rounds):
                measure("alone")
                elsewhere = Elsewhere(3, pace)
                crowd = Crowd(elsewhere.ports, args.crowd)
                measure("elsewhere", crowd)
                crowd.end()
                elsewhere.end()
                time.sleep(1)
                crowd = Crowd([port, port + 1, status], args.crowd)
                measure("here", crowd)
                peak, threads = max(peak, memory(pid)), len(os.listdir(f"/proc/{pid}/task"))
                of_all = tasks.count() if tasks else None
                crowd.end()
                # As many connections per second elsewhere as here.
                pace = max(200, rates[-1][1])
                time.sleep(2)
            alone, _ = recover(run, 1, progress, port, token)
            time.sleep(5)
            crowd = Crowd([port, port + 1, status], args.crowd)
            time.sleep(3)
            recovered, awaited = recover(run, 1, progress, port, token)
            crowd.end()
            log = (job / "output/node_0/server.log").read_text().count("\n")
        finally:
            run.terminate()
            run.wait()
            if tasks:
                tasks.remove()
    median = lambda name, at: statistics.median(figure[at] for figure in figures[name])
    rate = lambda name: statistics.mean(rate for of, rate in rates if of == name)
    speeds = {name: median(name, 0) for name in figures}
    costs = {name: median(name, 1) for name in figures}
    limit = f", {of_all} of {args.tasks} tasks in use" if tasks else ""
    print(f"limits: {args.descriptors} descriptors{limit}; a crowd of {args.crowd}; {args.rounds} rounds of {args.seconds:.0f} s")
    print(f"connections opened per second: {rate('elsewhere'):.0f} elsewhere, {rate('here'):.0f} at the server")
    print(f"samples per second: {speeds['alone']:.0f} alone, {speeds['elsewhere']:.0f} with the crowd elsewhere, {speeds['here']:.0f} with the crowd here: "
          f"{speeds['here'] / speeds['alone']:.2f} of alone, {speeds['here'] / speeds['elsewhere']:.2f} of elsewhere")
    print(f"processor time of the job per sample: {costs['here'] / costs['alone']:.2f} times that alone, {costs['here'] / costs['elsewhere']:.2f} times that with the crowd elsewhere")
    print("  each round, here / elsewhere: " + " ".join(f"{h[0] / e[0]:.2f}" for h, e in zip(figures["here"], figures["elsewhere"])))
    print(f"the threads that hear strangers used {statistics.mean(shares):.3f} of a core")
    print(f"a killed trainer trains again after {alone:.1f} s alone, {recovered:.1f} s in the crowd; "
          f"an authenticated peer joins meanwhile within {1e3 * max(awaited):.0f} ms (median {1e3 * statistics.median(awaited):.0f} ms, {len(awaited)} joins)")
    print(f"while all trainers are there, a peer is answered within {1e3 * max(joins):.0f} ms (median {1e3 * statistics.median(joins):.0f} ms, {len(joins)} joins)")
    print(f"/healthz within {1e3 * max(probes):.0f} ms (median {1e3 * statistics.median(probes):.0f} ms, {len(probes)} probes)")
    print(f"memory of the server: {rss:.0f} MB alone, {peak:.0f} MB in the crowd; {threads} threads; {log} lines in its log")
    kept = speeds["here"] >= 0.9 * speeds["elsewhere"] and max(awaited) < 1 and peak < rss + 100
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
