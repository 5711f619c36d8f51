#!/usr/bin/env python3
"""What a second host gains: quick_start on two hosts, which are network namespaces joined by a veth pair, against one process.

    sudo python3 bench/two_hosts.py --canoe target/release/canoe [--model cnn] [--tcp] [--rounds 3]

Needs root, ip (iproute2) and openssl. Each host has a server and a trainer with one thread, and a shard as large as all of the one process's data; with TLS,
as on a cluster, unless --tcp. Each figure is the difference of two runs that differ in their number of passes, so that start, first reading of the data and
saving are not in it. CPU time is that of all processes. The namespaces are removed at the end; others are not touched.
"""

import argparse
import os
import pathlib
import resource
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ADDRESSES = ("10.231.77.1", "10.231.77.2")
SIZES = {"lr": (20_000, 2, 42), "cnn": (8_000, 1, 4)}
PORT = 7164
QUIET = [
    "--trainer_count=1",
    "--data_workers=1",
    "--test_period=1000000000",
    "--saving_period=1000000000",
    "--log_period=0",
    "--dot_period=0",
]


def shell(*words, **options):
    subprocess.run(words, check=True, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options})


class Hosts:
    """Two namespaces with an address each."""

    def __init__(self):
        tag = f"{os.getpid():x}"
        self.names = [f"canoe-{tag}-{host}" for host in "ab"]
        self.links = [f"cn{tag}{host}" for host in "ab"]

    def __enter__(self):
        try:
            for name in self.names:
                shell("ip", "netns", "add", name)
            one, other = self.links
            shell("ip", "link", "add", one, "type", "veth", "peer", "name", other)
            for name, link, address in zip(self.names, self.links, ADDRESSES):
                shell("ip", "link", "set", link, "netns", name)
                shell("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
                shell("ip", "-n", name, "link", "set", link, "up")
                shell("ip", "-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name])

    def command(self, host, words):
        return ["ip", "netns", "exec", self.names[host], *words]


def keys(folder):
    """A certificate authority and a certificate of servers and trainers; the options that name them."""
    folder.mkdir()
    kind = ["-newkey", "rsa:2048", "-nodes"]
    request = ["openssl", "req", "-x509", *kind, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=bench"]
    shell(*request, cwd=folder)
    request = ["openssl", "req", *kind, "-keyout", "job.key", "-out", "job.csr", "-subj", "/CN=pserver"]
    shell(*request, cwd=folder)
    (folder / "names").write_text("subjectAltName=DNS:pserver")
    sign = ["openssl", "x509", "-req", "-in", "job.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    shell(*sign, "-out", "job.pem", "-extfile", "names", cwd=folder)
    return [f"--tls_ca={folder}/ca.pem", f"--tls_cert={folder}/job.pem", f"--tls_key={folder}/job.key"]


def measured(run):
    """Seconds and seconds of CPU time of the processes that a call starts and waits for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun, before = time.monotonic(), used.ru_utime + used.ru_stime
    run()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begun, used.ru_utime + used.ru_stime - before


class Bench:
    def __init__(self, options, hosts, folder):
        self.canoe, self.hosts, self.folder = str(pathlib.Path(options.canoe).resolve()), hosts, folder
        self.config = f"trainer_config.{options.model}.py"
        self.samples, self.short, self.long = SIZES[options.model]
        self.tls = [] if options.tcp else keys(folder / "keys")
        for name, samples, shards in (("two", 2 * self.samples, ["--shards=2"]), ("one", self.samples, [])):
            shell(self.canoe, "demo", "quick_start", name, f"--train-samples={samples}", *shards, cwd=folder)
        self.runs = 0
        for host in range(2):
            place = folder / f"host-{host}"
            place.mkdir()
            (place / "data").symlink_to(folder / "two" / "data" / str(host))
            (place / "quick_start").symlink_to(folder / "two" / "quick_start")

    def on_two_hosts(self, passes):
        self.runs += 1
        out = self.folder / f"run-{self.runs}"
        out.mkdir()
        environment = dict(os.environ, CANOE_JOB_TOKEN=secrets.token_hex(32))
        shared = [f"--pservers={','.join(ADDRESSES)}", f"--port={PORT}", "--num_gradient_servers=2", *self.tls]
        processes = []
        try:
            for host in range(2):
                server = [f"--nics={self.hosts.links[host]}", f"--server_id={host}", f"--snapshot_dir={out}/snapshots", *shared]
                trainer = ["--local=0", f"--trainer_id={host}", f"--num_passes={passes}", f"--save_dir={out}/model", *shared, *QUIET]
                trainer.append(f"--config=quick_start/{self.config}")
                for name, words, folder in (
                    ("pserver", server, out),
                    ("train", trainer, self.folder / f"host-{host}"),
                ):
                    log = open(out / f"{name}-{host}.log", "w")
                    command = self.hosts.command(host, [self.canoe, name, *words])
                    processes.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
            for process in processes:
                if process.wait(600) != 0:
                    raise SystemExit(f"a process failed; its log is in {out}")
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def in_one_process(self, passes):
        words = [self.canoe, "train", f"--config=quick_start/{self.config}", f"--num_passes={passes}", "--save_dir=alone"]
        shutil.rmtree(self.folder / "one" / "alone", ignore_errors=True)
        log = self.folder / "alone.log"
        with open(log, "w") as out:
            shell(*words, *QUIET, cwd=self.folder / "one", stderr=out)

    def rate(self, run, samples):
        """Samples per second and per CPU-second."""
        short, long = (measured(lambda passes=passes: run(passes)) for passes in (self.short, self.long))
        count = samples * (self.long - self.short)
        return tuple(count / (one - other) for one, other in zip(long, short))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="target/release/canoe")
    parser.add_argument("--model", choices=sorted(SIZES), default="cnn")
    parser.add_argument("--tcp", action="store_true", help="without TLS")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="canoe-two-hosts-"))
    ratios = []
    with Hosts() as hosts:
        bench = Bench(options, hosts, folder)
        for _ in range(options.rounds):
            two = bench.rate(bench.on_two_hosts, 2 * bench.samples)
            one = bench.rate(bench.in_one_process, bench.samples)
            ratios.append((two[0] / one[0], two[1] / one[1]))
            print(
                f"two hosts {two[0]:9,.0f} samples/s {two[1]:9,.0f} per CPU-second; one process {one[0]:9,.0f} and {one[1]:9,.0f};"
                f" ratio {ratios[-1][0]:.2f}, by CPU time {ratios[-1][1]:.2f}",
                flush=True,
            )
    shutil.rmtree(folder)
    clock, cpu = (statistics.median(column) for column in zip(*ratios))
    print(f"{options.model} over {'TCP' if options.tcp else 'TLS'}, median: ratio {clock:.2f}, by CPU time {cpu:.2f}")


if __name__ == "__main__":
    main()
