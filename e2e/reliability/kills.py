#!/usr/bin/env python3
"""Kills processes of real jobs in every phase and compares every file of every pass directory with an undisturbed run.

    python3 e2e/reliability/kills.py --canoe target/release/canoe --runs 100 --kills 1000

Each run is a small job of two nodes (--keep-going) with a sparse embedding and four passes. It is held at one moment
after the other (the fail points of docs/reliability.md, and moments that chance alone selects); while it is held, the
victims are killed: one server, one trainer, all servers, all trainers or everything. The table says what was killed in
which phase. A process is killed at most five times in a run, because one that crashes more than eight times within five
minutes ends its job.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = "trainer_config.emb.py"
SERVERS, TRAINERS = ["server_id=0", "server_id=1"], ["trainer_id=0", "trainer_id=1"]
VICTIMS = {
    "server 0": SERVERS[:1],
    "another server": SERVERS[1:],
    "trainer 0": TRAINERS[:1],
    "another trainer": TRAINERS[1:],
    "all servers": SERVERS,
    "all trainers": TRAINERS,
    "everything": SERVERS + TRAINERS,
}
# Of each phase: the processes that may be held there, and how many times they may have been there before.
PHASES = {
    "joining": (["trainer-0", "trainer-1"], 1),
    "pulling": (["trainer-0", "trainer-1"], 6),
    "pushing": (["trainer-0", "trainer-1"], 6),
    "applying": (["pserver-0", "pserver-1"], 6),
    "snapshot": (["pserver-0", "pserver-1"], 2),
    "testing": (["trainer-0"], 1),
    "saving": (["trainer-0"], 1),
    "finishing": (["trainer-0", "trainer-1"], 1),
}
ANY = "any moment"
MOST = 5
PATIENCE = 240


def prepare(canoe, folder):
    """A job folder, split for two nodes."""
    job = folder / "job"
    subprocess.run([canoe, "demo", "quick_start", job, "--train-samples=200", "--test-samples=200"], check=True, capture_output=True)
    config = job / "quick_start" / CONFIG
    text = config.read_text().replace("else 128", "else 16")
    text = text.replace("embedding_layer(input=words, size=128)", "embedding_layer(input=words, size=128, param_attr=ParamAttr(sparse_update=True))")
    config.write_text(text)
    subprocess.run([canoe, "data", "split", job, "--shards=2"], check=True, capture_output=True)
    return job


def start(canoe, job, log, points):
    command = [canoe, "run", job, "--nodes=2", "--config", CONFIG, "--passes=4", "--keep=all", "--snapshot-period=2", "--watch=off", "--keep-going", "--peer-timeout=2"]
    environment = dict(os.environ, CANOE_FAIL_POINTS=str(points))
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=log, env=environment)


def saved(job):
    """Every file of every pass directory, hidden ones as well."""
    files = {}
    for path in sorted((job / "output").glob("*pass-*")):
        for file in path.rglob("*"):
            if file.is_file():
                files[str(file.relative_to(job / "output"))] = file.read_bytes()
    return files


def children(parent):
    """Processes that the run has started: (pid, command line)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
            line = pathlib.Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if stat.rsplit(")", 1)[1].split()[1] == str(parent):
            found.append((int(entry), line))
    return found


class Disturbed:
    """One run of the job, and the kills in it."""

    def __init__(self, canoe, job, seed):
        self.chance, self.job = random.Random(seed), job
        self.points = job.parent / "points"
        self.points.mkdir()
        self.table, self.own = collections.Counter(), collections.Counter()
        self.log = open(job.parent / "run.log", "w+")
        plan = ["joining", *self.chance.sample([*PHASES, "joining", ANY, ANY], k=8), "finishing"]
        self.arm(plan[0])
        self.run = start(canoe, job, self.log, self.points)
        for phase, after in zip(plan, [*plan[1:], None]):
            self.disturb(phase, after)
        try:
            self.code = self.run.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.run.kill()
            self.code = "hangs"

    def arm(self, phase):
        """Asks a process to wait where it is in this phase for the n-th time."""
        if phase in PHASES:
            processes, most = PHASES[phase]
            order = self.points / f"{self.chance.choice(processes)}.{phase}"
            order.write_text(str(self.chance.randint(1, most)))

    def held(self, phase):
        """Waits until a process is in this phase. A phase that has passed already comes no more: then there is no kill."""
        if phase == ANY:
            time.sleep(self.chance.uniform(0, 1))
            return True
        deadline = time.monotonic() + 20
        while self.run.poll() is None and time.monotonic() < deadline:
            if any(self.points.glob("*.reached")):
                return True
            time.sleep(0.005)
        return False

    def disturb(self, phase, after):
        if self.held(phase):
            fit = [what for what, words in VICTIMS.items() if all(self.own[word] < MOST for word in words)]
            what = self.chance.choice(fit) if fit else None
            for pid, line in children(self.run.pid) if what else []:
                word = next((word for word in VICTIMS[what] if word in line), None)
                if word:
                    os.kill(pid, signal.SIGKILL)
                    self.own[word] += 1
                    self.table[(what, phase)] += 1
        # The next moment is named before this one ends, so that it can be the start of the killed process.
        reached = list(self.points.glob("*.reached"))
        for path in set(self.points.iterdir()).difference(reached):
            path.unlink(missing_ok=True)
        self.arm(after)
        for path in reached:
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    args = parser.parse_args()
    canoe = os.path.abspath(args.canoe)
    table, codes, bad, lock = collections.Counter(), [], [], threading.Lock()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job = prepare(canoe, folder)
        copy = folder / "undisturbed"
        shutil.copytree(job, copy / "job")
        (copy / "points").mkdir()
        with open(copy / "run.log", "w") as log:
            assert start(canoe, copy / "job", log, copy / "points").wait() == 0, (copy / "run.log").read_text()
        wanted = saved(copy / "job")
        assert len({name.split("/")[0] for name in wanted}) == 4, sorted(wanted)

        def one(number):
            place = folder / f"run-{number}"
            shutil.copytree(job, place / "job")
            result = Disturbed(canoe, place / "job", args.seed * 100_000 + number)
            with lock:
                codes.append(result.code)
                table.update(result.table)
                if result.code != 0 or saved(place / "job") != wanted:
                    keep = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
                    shutil.copytree(place, keep / "run")
                    bad.append((number, result.code, str(keep)))
                print(f"run {number}: {result.table.total()} kills, exit code {result.code}; {table.total()} kills in {len(codes)} runs, {len(bad)} bad", file=sys.stderr, flush=True)
            shutil.rmtree(place)

        number = 0
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            while len(codes) < args.runs or table.total() < args.kills:
                for _ in pool.map(one, range(number, number + 2 * args.jobs)):
                    pass
                number += 2 * args.jobs
    phases = [*PHASES, ANY]
    print("| killed | " + " | ".join(phases) + " | all |")
    print("|---|" + "---|" * (len(phases) + 1))
    for what in [*VICTIMS, "all"]:
        row = [sum(count for (who, where), count in table.items() if where == phase and what in (who, "all")) for phase in phases]
        print(f"| {what} | " + " | ".join(map(str, row)) + f" | {sum(row)} |")
    print(f"\n{table.total()} kills in {len(codes)} runs; {len(codes) - len(bad)} runs ended with the bytes of the undisturbed one")
    for number, code, keep in bad:
        print(f"run {number}: exit code {code}, kept in {keep}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
