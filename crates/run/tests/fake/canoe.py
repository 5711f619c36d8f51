#!/usr/bin/env python3
"""Stands in for the canoe binary in the tests of the local runner.

`pserver` listens on its ports, `train` prints v1's lines, and both keep a record as the real ones do. What goes wrong
is said by FAKE, a list of role-id:behaviour pairs; a behaviour that ends with -once happens only the
first time (a marker in the working directory remembers it).
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

ROLE = sys.argv[1]
FLAGS = dict(arg.lstrip("-").split("=", 1) for arg in sys.argv[2:] if "=" in arg)


def behaviour(name):
    for pair in filter(None, os.environ.get("FAKE", "").split(",")):
        who, what = pair.split(":")
        if who != name:
            continue
        if what.endswith("-once"):
            marker = name + ".happened"
            if os.path.exists(marker):
                return ""
            open(marker, "w").close()
            what = what[: -len("-once")]
        return what
    return ""


def misbehave(what):
    if what == "die":
        print("something is wrong", flush=True)
        sys.exit(1)
    if what == "usage":
        sys.exit(64)
    if what == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("I do not listen to SIGTERM", flush=True)
        time.sleep(1000)
    if what == "late":
        # Comes to the servers once more when trainer 0 has finished long ago.
        marker = os.path.join(FLAGS["save_dir"], "node_0", "finished")
        while not os.path.exists(marker):
            time.sleep(0.01)
        time.sleep(1)
        for server in FLAGS["pservers"].split(","):
            host, port = server.split(":")
            socket.create_connection((host, int(port))).close()
        print("all servers are still there", flush=True)
    if what == "child":
        child = subprocess.Popen(["sleep", "1000"])
        open(os.path.join(FLAGS["save_dir"], "grandchild"), "w").write(str(child.pid))


def record(event):
    """Appends to the record of this process."""
    with open(record_file("events.jsonl"), "a") as file:
        file.write(json.dumps({"t": time.time(), **event}) + "\n")


def show(status):
    """Replaces the state file of this process."""
    path = record_file("beat.json")
    with open(path + ".new", "w") as file:
        json.dump({"t": time.time(), "pid": os.getpid(), **status}, file)
    os.rename(path + ".new", path)


def record_file(ending):
    node, name = (FLAGS["server_id"], "server") if ROLE == "pserver" else (FLAGS["trainer_id"], "train")
    folder = os.path.join(FLAGS["record_dir"], "node_" + node)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name + "." + ending)


def pserver():
    node = FLAGS["server_id"]
    host = FLAGS["nics"] if "." in FLAGS["nics"] else "127.0.0.1"
    what = behaviour("pserver-" + node)
    if what == "squat":
        # Another program takes the port between our asking the kernel and the server's start.
        script = "import socket,time;s=socket.create_server(('127.0.0.1',%s));print(1,flush=True);time.sleep(1000)"
        squatter = subprocess.Popen(
            [sys.executable, "-c", script % FLAGS["port"]], stdout=subprocess.PIPE, start_new_session=True
        )
        squatter.stdout.readline()
        open("squatter", "w").write(str(squatter.pid))
    if what in ("never-ready",):
        time.sleep(1000)
    first, count = int(FLAGS["port"]), int(FLAGS["ports_num"]) + int(FLAGS["ports_num_for_sparse"])
    sockets = [socket.create_server((host, first + k)) for k in range(count)]
    show({"role": "pserver", "node": int(node), "waits_for": "trainers"})
    print("tcp server start ", flush=True)
    misbehave(what)
    signal.pause()
    del sockets


def connect(server):
    """Like the real trainer, waits for a server that is being started again."""
    host, port = server.split(":")
    for _ in range(2000):
        try:
            return socket.create_connection((host, int(port))).close()
        except OSError:
            time.sleep(0.01)
    sys.exit("no server at " + server)


def train():
    node = FLAGS["trainer_id"]
    for server in FLAGS["pservers"].split(","):
        connect(server)
    print("token", len(os.environ["CANOE_JOB_TOKEN"]), flush=True)
    lines = open("data/train.txt").read().splitlines()
    print("I1116 09:10:17.123121    50 T.cpp:1]  Batch=1 samples=%d AvgCost=0.5 CurrentCost=0.5 Eval: e=0.25  CurrentEval: e=0.25 " % len(lines), flush=True)
    show({"role": "trainer", "node": int(node), "pass": 0, "batch": 1, "samples": len(lines), "cost": 0.5, "evaluators": {"e": 0.25}})
    misbehave(behaviour("trainer-" + node))
    for number in range(int(FLAGS.get("num_passes", "1"))):
        print(" Pass=%d Batch=2 samples=%d AvgCost=0.25 Eval: e=0.125 " % (number, len(lines)), flush=True)
        figures = {"pass": number, "batch": 2, "samples": len(lines), "cost": 0.25, "evaluators": {"e": 0.125}}
        record({"kind": "pass_finished", **figures, "seconds": 1.0, "waited": 0.0})
        if node == "0":
            folder = os.path.join(FLAGS["save_dir"], "pass-%05d" % number)
            print("Saving parameters to " + folder, flush=True)
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, "done"), "w").close()
            record({"kind": "saved", "pass": number, "path": folder})


def split():
    source, count = sys.argv[3], int(FLAGS["shards"])
    if os.environ.get("FAKE") == "split:die":
        print("no space left")
        sys.exit(1)
    lines = open(os.path.join(source, "train.txt")).readlines()
    for shard in range(count):
        os.makedirs(os.path.join(source, str(shard)), exist_ok=True)
        with open(os.path.join(source, str(shard), "train.txt"), "w") as file:
            file.writelines(lines[shard::count])


{"pserver": pserver, "train": train, "data": split}[ROLE]()
