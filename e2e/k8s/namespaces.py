"""Trains on three nodes in three network namespaces, as pods made from the manifests of `canoe job render`, and compares the
model with that of `canoe run --nodes 3`, byte for byte: with both kinds of discovery, out of order, killed, frozen, cut off.

Usage: namespaces.py --canoe PATH [--only WORD] [--seed N]
Needs root, `ip` (iproute2), `unshare` and `nsenter` (util-linux); says why and ends well where namespaces are not permitted.
"""
import argparse
import atexit
import base64
import copy
import http.client
import http.server
import json
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import yaml

import certificate
from kubelet import Kubelet, Pod
from models import decided
from network import HUB_ADDRESS, Network, inside, why_not
from policies import why_not as policies_why_not

NAME, CONFIG, PASSES, NODES = "quick-start", "trainer_config.emb.py", 4, 3
DEADLINE = 240
INDEX = "batch.kubernetes.io/job-completion-index"


def canoe(*words, **more):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"canoe {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def model(output):
    """Every file of every pass directory that training decides, by name."""
    found = {}
    for folder, _, files in os.walk(output):
        if os.path.basename(folder).startswith("pass-"):
            for file in files:
                if file not in ("path.txt",):
                    path = os.path.join(folder, file)
                    found[os.path.relpath(path, output)] = decided(path)
    return found


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Cluster:
    """A job on the volume, its manifests, and the pods that run."""

    def __init__(self, network, folder, demo, settings=()):
        self.network = network
        self.kubelet = Kubelet(network, tempfile.mkdtemp(dir=folder), BINARY)
        self.volume = self.kubelet.claim_folder("default", "files")
        self.pods, self.replaced = {}, 0
        job_file = {
            "name": NAME, "image": "canoe:test", "nodes": NODES, "config": CONFIG, "passes": PASSES,
            "volume": {"claim": {"name": "files"}}, "args": ["--snapshot_period=7", "--peer_timeout=2", "--log_period=1"],
        } | dict(settings)
        with open(os.path.join(demo, "job.yaml"), "w") as file:
            yaml.safe_dump(job_file, file)
        self.objects = list(yaml.safe_load_all(canoe("job", "render", demo)))
        for thing in self.objects:
            if thing["kind"] in ("ConfigMap", "Secret"):
                self.kubelet.keep(thing)
        self.kubelet.policies.keep([thing for thing in self.objects if thing["kind"] == "NetworkPolicy"])
        self.job = next(thing for thing in self.objects if thing["kind"] == "Job")
        home = os.path.join(self.volume, NAME)
        os.makedirs(home)
        shutil.copytree(os.path.join(demo, "data"), os.path.join(home, "data"))
        os.chmod(home, 0o777)

    def output(self):
        return os.path.join(self.volume, NAME, "output")

    def start(self, index, **variables):
        """A pod of this index, as the Job controller makes it, with an address that no pod had before."""
        template = copy.deepcopy(self.job["spec"]["template"])
        self.replaced += 1
        metadata, spec = template["metadata"], template["spec"]
        metadata |= {"name": f"{NAME}-{index}-{self.replaced:05x}", "namespace": "default"}
        if self.job["spec"].get("completionMode") == "Indexed":
            metadata["labels"][INDEX] = str(index)
            spec["hostname"] = f"{NAME}-{index}"
            variables["JOB_COMPLETION_INDEX"] = str(index)
        for name, value in variables.items():
            spec["containers"][0]["env"] = [v for v in spec["containers"][0]["env"] if v["name"] != name]
            spec["containers"][0]["env"].append({"name": name, "value": value})
        pod = Pod(self.kubelet, template)
        pod.thread = threading.Thread(target=pod.run, daemon=True)
        pod.thread.start()
        self.pods.setdefault(index, []).append(pod)
        return pod

    def pod(self, index):
        return self.pods[index][-1]

    def logs(self):
        text = ""
        for pods in self.pods.values():
            for pod in pods:
                text += f"--- {pod.name} {pod.address} code {pod.code}\n{pod.log()}\n"
        return text

    def wait(self, what, condition, seconds=DEADLINE):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {what}\n{self.logs()}")
            time.sleep(0.02)

    def batches(self):
        """How many batches trainer 0 has told of, over all its lives."""
        path = os.path.join(self.output(), "node_0", "train.log")
        return open(path).read().count("Batch=") if os.path.exists(path) else 0

    def newest_snapshot(self, index):
        """The step of the newest snapshot that this node's server has completed."""
        steps = [0]
        for folder, _, files in os.walk(os.path.join(self.output(), "snapshots")):
            if f"server-{index:04}.json" in files:
                steps.append(int(os.path.basename(folder).removeprefix("step-")))
        return max(steps)

    def finish(self, reference):
        """All newest pods end well, with the model of the reference."""
        for index in range(NODES):
            self.wait(f"the end of node {index}", lambda: self.pod(index).code is not None)
            expect(self.pod(index).code == 0, f"node {index} ended with {self.pod(index).code}\n{self.logs()}")
        got = model(self.output())
        expect(got.keys() == reference.keys(), f"other files: {sorted(got.keys() ^ reference.keys())}\n{self.logs()}")
        different = [name for name in got if got[name] != reference[name]]
        expect(not different, f"other bytes: {different}\n{self.logs()}")
        # The record of the whole job: begun once and ended once, whatever became of the pods.
        lines = [json.loads(line) for line in open(os.path.join(self.output(), "events.jsonl"))]
        told = [(line["kind"], line.get("nodes", line.get("outcome"))) for line in lines]
        expect(told == [("run", NODES), ("job_end", "finished")], f"events.jsonl tells {told}\n{self.logs()}")

    def does(self, index):
        """What a node says of itself, as `canoe job status` asks it."""
        process = self.pod(index).execute(["canoe", "node", "--show_status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said, failed = process.communicate(timeout=DEADLINE)
        return json.loads(said)["does"] if process.returncode == 0 else failed

    def close(self):
        for pods in self.pods.values():
            for pod in pods:
                pod.signal(signal.SIGKILL)
                pod.thread.join(10)
                pod.remove()
        shutil.rmtree(self.kubelet.folder, ignore_errors=True)


class ApiStub:
    """The one answer that `podlist` asks an API server for; `disturb` may answer instead."""

    def __init__(self, cluster, folder):
        self.cluster, self.disturb, self.requests = cluster, None, 0
        account = cluster.kubelet.account_folder = tempfile.mkdtemp(dir=folder)
        os.chmod(account, 0o755)
        key, authority = certificate.make(account, HUB_ADDRESS)
        os.chmod(key, 0o600)
        with open(os.path.join(account, "token"), "w") as file:
            file.write("the-token-of-the-account")
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                stub.requests += 1
                allowed = self.headers["Authorization"] == "Bearer the-token-of-the-account"
                address = urllib.parse.urlsplit(self.path)
                wanted = address.path == "/api/v1/namespaces/default/pods" and urllib.parse.parse_qs(address.query) == {"labelSelector": [f"job-name={NAME}"]}
                status, body = (200, stub.pods()) if allowed and wanted else (403, None)
                if stub.disturb and (answer := stub.disturb()):
                    status, body = answer
                if status != 200:
                    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "disturbed"}
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        with inside(cluster.network.hub):
            self.server = http.server.ThreadingHTTPServer((HUB_ADDRESS, 6443), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def pods(self):
        items = [{"metadata": {"name": "failed-long-ago"}, "status": {"phase": "Failed", "podIP": "10.77.0.9"}}]
        for pods in self.cluster.pods.values():
            for pod in pods:
                phase = "Running" if pod.code is None else "Succeeded" if pod.code == 0 else "Failed"
                items.append({"metadata": {"name": pod.name}, "status": {"phase": phase, "podIP": pod.address}})
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def out_of_order(cluster, _random):
    cluster.start(2)
    cluster.start(0)
    cluster.wait("node 2 to say whom it waits for", lambda: f"no address yet for {NAME}-1.{NAME}" in cluster.pod(2).log())
    cluster.start(1)


def killed(cluster, random_):
    """The successor has the id and the name, but another address; it is killed at any moment of the job."""
    for index in range(NODES):
        cluster.start(index)
    victim, after = random_.randrange(NODES), random_.randrange(2, 36)
    cluster.wait("some training", lambda: cluster.batches() >= after or cluster.pod(0).code is not None)
    time.sleep(random_.random() * 0.3)
    cluster.pod(victim).signal(signal.SIGKILL)
    cluster.wait("its death", lambda: cluster.pod(victim).code is not None)
    print(f"    node {victim} after {after} log lines: code {cluster.pod(victim).code}", flush=True)
    cluster.start(victim)


def killed_at_the_end(cluster, random_):
    """In the moments in which the last model is there and some nodes have finished, or none, or all."""
    for index in range(NODES):
        cluster.start(index)
    finished = lambda: [i for i in range(NODES) if os.path.exists(f"{cluster.output()}/node_{i}/finished")]
    cluster.wait("the last model", lambda: os.path.exists(f"{cluster.output()}/pass-{PASSES - 1:05}/done"))
    time.sleep(random_.random() * 0.1)
    victim = random_.randrange(NODES)
    cluster.pod(victim).signal(signal.SIGKILL)
    cluster.wait("its death", lambda: cluster.pod(victim).code is not None)
    print(f"    node {victim} when {finished()} had finished: code {cluster.pod(victim).code}", flush=True)
    if cluster.pod(victim).code != 0:
        cluster.start(victim)


def frozen(cluster, random_):
    for index in range(NODES):
        cluster.start(index)
    victim = random_.randrange(NODES)
    cluster.wait("some training", lambda: cluster.batches() >= 10)
    cluster.pod(victim).signal(signal.SIGSTOP)
    time.sleep(4)
    expect(all(cluster.pod(i).code is None for i in range(NODES)), f"a node ended\n{cluster.logs()}")
    cluster.pod(victim).signal(signal.SIGCONT)


def cut_off(cluster, random_):
    for index in range(NODES):
        cluster.start(index)
    victim = random_.randrange(NODES)
    cluster.wait("some training", lambda: cluster.batches() >= 10)
    cluster.network.cut(cluster.pod(victim).namespace, True)
    time.sleep(5)
    expect(all(cluster.pod(i).code is None for i in range(NODES)), f"a node ended\n{cluster.logs()}")
    cluster.network.cut(cluster.pod(victim).namespace, False)


def told(cluster, random_):
    """While a node is away the others name it, not each other; when it is back, all say that they train."""
    for index in range(NODES):
        cluster.start(index)
    cluster.wait("some training", lambda: cluster.batches() >= 10)
    victim = random_.randrange(NODES)
    others = [index for index in range(NODES) if index != victim]
    cluster.pod(victim).signal(signal.SIGKILL)
    cluster.wait("its death", lambda: cluster.pod(victim).code is not None)
    names = lambda index: f"server {NAME}-{victim}.{NAME}" in cluster.does(index)
    for index in others:
        cluster.wait(f"node {index} to name node {victim}", lambda: names(index))
    for index in others * 5:
        expect(names(index), f"node {index} says: {cluster.does(index)}")
    print(f"    node {others[0]} says: {cluster.does(others[0])}", flush=True)
    cluster.start(victim)
    for index in range(NODES):
        cluster.wait(f"node {index} to train", lambda: cluster.does(index).startswith("training: pass "))


def zombie(cluster, random_):
    """A machine that was away for long comes back when its pod has a successor: the state files stay those of the successor."""
    for index in range(NODES):
        cluster.start(index)
    cluster.wait("some training", lambda: cluster.batches() >= 10)
    victim = random_.randrange(NODES)
    state = lambda role: json.load(open(os.path.join(cluster.output(), f"node_{victim}", f"{role}.beat.json")))
    before = state("train")["writer"]
    lost = cluster.pod(victim)
    lost.signal(signal.SIGSTOP)
    cluster.network.cut(lost.namespace, True)
    cluster.start(victim)
    cluster.wait("its successor to train", lambda: state("train")["writer"] > before and (state("train")["batch"] or 0) > 0)
    owners = {role: state(role)["writer"] for role in ("train", "server")}
    lost.signal(signal.SIGCONT)
    cluster.network.cut(lost.namespace, False)
    end = time.monotonic() + 5
    while time.monotonic() < end and cluster.pod(victim).code is None:
        time.sleep(0.02)
        for role, owner in owners.items():
            expect(state(role)["writer"] >= owner, f"{role}.beat.json is that of the lost process\n{cluster.logs()}")


def asked_to_end(cluster, random_):
    """A drained machine: a snapshot is ordered, the node says that it was asked to end, and its successor goes on from there. The name server
    repeats old addresses for half a minute, as CoreDNS does by default, and then for ever: whoever asked it would not find a successor. Where the
    time goes is printed."""
    for index in range(NODES):
        cluster.start(index)
    cluster.wait("some training", lambda: cluster.batches() >= 1)
    for victim, remembers in zip(random_.sample(range(NODES), 2), (30, 10**6)):
        cluster.network.remembers = remembers
        before, batches = cluster.newest_snapshot(victim), cluster.batches()
        cluster.wait("some training", lambda: cluster.batches() >= batches + 24)
        expect(cluster.newest_snapshot(victim) == before, "a snapshot was taken that nobody ordered")
        parts, begun = [], time.monotonic()

        def part(what, condition):
            cluster.wait(what, condition)
            parts.append(f"{what} after {time.monotonic() - begun:.1f} s")

        cluster.pod(victim).signal(signal.SIGTERM)
        part("the pod ended", lambda: cluster.pod(victim).code is not None)
        expect(cluster.pod(victim).code == 143, f"code {cluster.pod(victim).code}\n{cluster.logs()}")
        after = [cluster.newest_snapshot(index) for index in range(NODES)]
        expect(min(after) > before, f"no snapshot after it was asked to end: {before}, {after}\n{cluster.logs()}")
        print(f"    node {victim}: code 143, snapshot of step {min(after)} on all servers, it was {before} when asked", flush=True)
        cluster.start(victim)
        went_on = f"generation \\d+ starts: from the snapshot of step {min(after)}"
        part("its successor knew its peers", lambda: f"node {victim} of {NODES}:" in cluster.pod(victim).log())
        part("all had joined and restored", lambda: re.search(went_on, cluster.pod(victim).log()))
        part("the next step", lambda: "Batch=" in cluster.pod(victim).log())
        print("    " + ", ".join(parts), flush=True)


def all_asked_to_end(cluster, _random):
    """All machines are taken away at once: still one snapshot of all servers, from which the successors go on."""
    for index in range(NODES):
        cluster.start(index)
    cluster.wait("some training", lambda: cluster.batches() >= 24)
    begun = time.monotonic()
    for index in range(NODES):
        cluster.pod(index).signal(signal.SIGTERM)
    cluster.wait("their ends", lambda: all(cluster.pod(index).code is not None for index in range(NODES)), 40)
    codes = [cluster.pod(index).code for index in range(NODES)]
    expect(codes == [143] * NODES, f"codes {codes}\n{cluster.logs()}")
    steps = [cluster.newest_snapshot(index) for index in range(NODES)]
    expect(min(steps) > 0, f"no snapshot on all servers: {steps}\n{cluster.logs()}")
    print(f"    codes {codes} after {time.monotonic() - begun:.1f} s, snapshot of step {min(steps)}", flush=True)
    for index in range(NODES):
        cluster.start(index)
    went_on = f"starts: from the snapshot of step {min(steps)}"
    cluster.wait("the successors to go on from there", lambda: went_on in cluster.pod(0).log())


def read_from(cluster, namespace, address, port, path):
    """What a pod of another namespace gets there; None if it is not let in."""
    place, own = cluster.network.add()
    cluster.kubelet.policies.join(place, namespace, {}, own)
    try:
        with inside(place):
            connection = http.client.HTTPConnection(address, port, timeout=2)
            connection.connect()
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        cluster.kubelet.policies.leave(place)
        cluster.network.remove(place)


def scraped(cluster, _random):
    """A Prometheus of another namespace reads all processes of a pod, and nothing else; others read nothing."""
    for index in range(NODES):
        cluster.start(index)
    cluster.wait("some training", lambda: cluster.batches() >= 6)
    token = base64.b64decode(next(thing for thing in cluster.objects if thing["kind"] == "Secret")["data"]["token"]).decode()
    for index in range(NODES):
        pod = cluster.pod(index)
        annotations = pod.metadata["annotations"]
        port, path = int(annotations["prometheus.io/port"]), annotations["prometheus.io/path"]
        status, page = read_from(cluster, "monitoring", pod.address, port, path)
        expect(status == 200, f"{status}: {page}")
        for line in (rf'canoe_node_up{{name="{NAME}",node="{index}",role="pserver"}} 1', rf'canoe_node_up{{name="{NAME}",node="{index}",role="trainer"}} 1',
                     r"canoe_pserver_step [1-9]\d*", rf'canoe_trainer_batches_total{{trainer="{index}"}} [1-9]\d*'):
            expect(re.search(f"^{line}$", page, re.M), f"no {line} in\n{page}")
        families = re.findall(r"^# TYPE (\S+)", page, re.M)
        expect(len(families) == len(set(families)) and len(families) > 20, f"families: {families}")
        expect(token not in page, "the page tells the job's token")
        expect(read_from(cluster, "monitoring", pod.address, port, "/status")[0] == 404, "there is another page")
    if reason := policies_why_not():
        print(f"    skipped: who may read, because {reason}")
        return
    for namespace, port in (("default", 8472), ("elsewhere", 8472), ("monitoring", 7164), ("monitoring", 8471)):
        expect(read_from(cluster, namespace, cluster.pod(1).address, port, "/metrics") is None, f"port {port} is open for namespace {namespace}")
    print("    pods of namespace monitoring read /metrics of every node; no other port, no other namespace")


def disturbed_api(cluster, random_):
    """500, 429 and a wrong count first; then the truth."""
    answers = [(500, None), (429, None), (200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []})]
    cluster.api.disturb = lambda: answers.pop(0) if answers else None
    cluster.start(0)
    cluster.wait("a sentence with the count", lambda: "1 of 3 pods are running" in cluster.pod(0).log())
    expect("the API server returned 500" in cluster.pod(0).log(), cluster.pod(0).log())
    cluster.start(1)
    cluster.start(2)
    cluster.wait("the ranking", lambda: re.search(r"node \d of 3: 10\.77\.0", cluster.pod(2).log()))


def wrong_count(cluster, _random):
    """The third node never comes."""
    cluster.start(0)
    cluster.start(1)
    for index in (0, 1):
        cluster.wait("it to give up", lambda: cluster.pod(index).code is not None, 30)
        expect(cluster.pod(index).code == 75, f"code {cluster.pod(index).code}")
        expect(cluster.expected in cluster.pod(index).log(), cluster.pod(index).log())


PODLIST = {"discovery": "podlist"}
IMPATIENT = {"args": ["--patience=3"]}
# So long that the job does not end before, and without snapshots that nobody ordered.
LONG = {"passes": 20, "args": ["--snapshot_period=1000000", "--peer_timeout=2", "--log_period=1", "--saving_period=10"]}
SCENARIOS = [
    ("indexed, out of order and with a late joiner", out_of_order, {}, True),
    ("indexed, one killed, its successor has another address", killed, {}, True),
    ("indexed, one killed while the job ends", killed_at_the_end, {}, True),
    ("indexed, one frozen", frozen, {}, True),
    ("indexed, one cut off", cut_off, {}, True),
    ("indexed, what nodes say while one is away and after it", told, LONG, True),
    ("indexed, one away for long and back when it has a successor", zombie, LONG, True),
    ("indexed, two asked to end one after the other, while names are cached", asked_to_end, LONG, True),
    ("indexed, all asked to end at once", all_asked_to_end, LONG, True),
    ("podlist, with a disturbed API server", disturbed_api, PODLIST, True),
    ("podlist, one killed, its successor has another address", killed, PODLIST, True),
    ("indexed, metrics for another namespace", scraped, {"metrics": {"from": ["monitoring"]}}, True),
    ("indexed, a count that never comes", wrong_count, IMPATIENT, False),
    ("podlist, a count that never comes", wrong_count, PODLIST | IMPATIENT, False),
]


def main():
    reason = why_not()
    if reason:
        print(f"skipped: network namespaces are not permitted here ({reason})")
        return
    folder = tempfile.mkdtemp(prefix="canoe-namespaces-")
    os.chmod(folder, 0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    demo = os.path.join(folder, "job")
    canoe("demo", "quick_start", demo, "--train-samples=4000", "--test-samples=100", "--shards=3")
    references = {}

    def reference(passes, flags):
        """What `canoe run` makes of the same job."""
        if passes not in references:
            canoe("run", demo, "--nodes=3", "--config", CONFIG, f"--passes={passes}", *flags)
            references[passes] = model(os.path.join(demo, "output"))
            expect(references[passes], "the reference has no files")
            shutil.rmtree(os.path.join(demo, "output"))
        return references[passes]

    network = Network()
    atexit.register(network.close)
    for number, (name, scenario, settings, trains) in enumerate(SCENARIOS):
        if ARGS.only not in name:
            continue
        begun = time.monotonic()
        cluster = Cluster(network, folder, demo, settings)
        cluster.api = ApiStub(cluster, folder) if "discovery" in settings else None
        cluster.expected = "2 of 3 pods are running" if cluster.api else f"no address yet for {NAME}-2.{NAME}"
        try:
            scenario(cluster, random.Random(ARGS.seed * 1000 + number))
            if trains:
                saving = [flag for flag in settings.get("args", []) if "saving" in flag]
                cluster.finish(reference(settings.get("passes", PASSES), ["--", *saving] if saving else []))
        finally:
            network.remembers = 0
            network.said.clear()
            cluster.close()
            if cluster.api:
                cluster.api.close()
        same = ": the same bytes as canoe run" if trains else ""
        print(f"{name}{same} ({time.monotonic() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    ARGS = parser.parse_args()
    BINARY = os.path.abspath(ARGS.canoe)
    main()
