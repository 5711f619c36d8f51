"""Scenarios of commands.py: files and keys of a job, from a laptop to the volume and back, over the whole life of the job."""
import base64
import filecmp
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import yaml

from bench import NAME, expect
from controllers import STOCK
from models import decided
from network import HUB_ADDRESS, inside

POD = "batch.kubernetes.io/job-name"


def program(bench):
    """The binary under test without its debug information: what a release ships."""
    path = os.path.join(bench.folder, "canoe")
    subprocess.run(["strip", "-o", path, bench.binary], check=True)
    return path


def reference(bench, passes):
    """What `canoe run` makes of the same folder: the pass directories."""
    job = os.path.join(bench.folder, "laptop")
    shutil.copytree(bench.job, job)
    ran = subprocess.run([bench.binary, "run", job, "--nodes=3", f"--passes={passes}", "--config=trainer_config.emb.py"], capture_output=True, text=True)
    expect(ran.returncode == 0, ran.stdout + ran.stderr)
    return os.path.join(job, "output")


def same_model(one, other, ignored=("path.txt",)):
    """Every file of a pass directory that training decides, byte for byte; what servers keep beside it names their run."""
    files = sorted(name for name in os.listdir(one) if name not in ignored and os.path.isfile(os.path.join(one, name)))
    expect(files, f"{one} is empty")
    for name in files:
        expect(os.path.exists(os.path.join(other, name)), f"{other} has no {name}")
        expect(decided(os.path.join(one, name)) == decided(os.path.join(other, name)), f"{name} differs in {other}")
    return files


def until(what, condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"waited {seconds} s for {what}")
        time.sleep(0.1)


def pods(bench):
    return bench.store.list("pods", "default", f"{POD}={NAME}")[0]


def five_minutes(bench):
    """No image, data from the laptop, one command: the model is here, and it is the one that `canoe run` makes. Then what is left of the job."""
    bench.claim()
    bench.demo(3)
    bench.job_file(image=None, config="trainer_config.emb.py", args=["--log_period=1"], passes=3)
    wanted = reference(bench, 3)
    binary, here = program(bench), os.path.join(bench.folder, "here")
    said = bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"), "--binary", binary, "--wait", "--get", "--to", here, seconds=300)
    expect("the program is on the volume" in said and "all verified" in said and f"{here}/pass-00002" in said, said)
    files = same_model(os.path.join(wanted, "pass-00002"), os.path.join(here, "pass-00002"))
    print(f"    {len(files)} files of the model, byte for byte those of `canoe run`; image {pods(bench)[0]['spec']['containers'][0]['image']}")
    expect(all(pod["spec"]["containers"][0]["image"] == STOCK for pod in pods(bench)), "another image")
    helpers = lambda: [pod["metadata"]["name"] for pod in bench.store.list("pods", "default")[0] if re.search("-(reader|upload)", pod["metadata"]["name"])]
    until("the end of pods that only carry files", lambda: not helpers())
    said = bench.canoe("status", NAME)
    expect("3 finished" in said, said)
    # Another model in the same place is not replaced unasked.
    first = os.path.join(here, "pass-00002", files[0])
    with open(first, "ab") as file:
        file.write(b"mine")
    said = bench.canoe("get", NAME, "--to", here, code=1)
    expect("exists and differs from the model to be copied" in said and "--force" in said, said)
    bench.canoe("get", NAME, "--to", here, "--force")
    same_model(os.path.join(wanted, "pass-00002"), os.path.join(here, "pass-00002"))
    # Deleted: the files stay, and so does what says where they are.
    bench.canoe("delete", NAME, "--yes")
    said = bench.canoe("ls")
    expect(re.search(r"quick-start +only files +- +- +- +canoe-files", said), said)
    there = os.path.join(bench.folder, "there")
    bench.canoe("get", NAME, "best", "--to", there)
    best = os.path.basename(os.readlink(os.path.join(wanted, "best")))
    same_model(os.path.join(wanted, best), os.path.join(there, best))
    said = bench.canoe("get", NAME, "7", "--to", there, code=1)
    expect("there is no finished pass 7; there are 0, 1, 2" in said, said)
    bench.canoe("get", NAME, "logs", "--to", there)
    expect("Batch=" in open(os.path.join(there, "node_0", "train.log")).read(), "no log")
    said = bench.canoe("get", NAME, "output", "--to", there)
    expect(all(f"{there}/{name}" in said for name in ("pass-00000", "node_2")) and "snapshots" not in said, said)
    expect(os.readlink(os.path.join(there, "best")) == best, "no link to the best model")
    said = bench.canoe("rm-data", NAME, code=1)
    expect("data, models, logs and snapshots; add --yes" in said, said)
    bench.canoe("rm-data", NAME, "--yes")
    expect(not os.path.exists(os.path.join(bench.kubelet.claim_folder("default", "canoe-files"), NAME)), "the files are there")
    said = bench.canoe("get", NAME, code=1)
    expect("nothing says where its files are" in said, said)
    expect("there are no jobs" in bench.canoe("ls"), "it is listed")


def keys_and_pauses(bench):
    """Rendered and applied again in the middle, paused, resumed, a pod lost: one set of keys, the same bytes."""
    bench.claim()
    bench.demo(12)
    wanted = reference(bench, 12)
    bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"))
    token = bench.store.get("secrets", "default", NAME)["data"]["token"]
    bench.says(["status", NAME], "3 nodes: 3 ready", seconds=240)
    # Rendered without a word of the data that submit has brought, and applied without force: nothing is anybody else's.
    made = render(bench)
    applied = kubectl(bench, made)
    expect(applied.returncode == 0 and f"configmap/{NAME}-files serverside-applied" in applied.stdout, applied.stderr)
    expect(bench.store.get("secrets", "default", NAME)["data"]["token"] == token, "the token has changed")
    # New keys that somebody applies without asking are refused, and those of the job stay.
    applied = kubectl(bench, render(bench, "--offline"))
    expect(applied.returncode != 0 and ("immutable" in applied.stderr or "conflict" in applied.stderr), applied.stderr)
    expect(bench.store.get("secrets", "default", NAME)["data"]["token"] == token, "the token has changed")
    bench.controllers.delete_pod(pods(bench)[1])
    said = bench.canoe("pause", NAME, seconds=240)
    expect("is paused" in said and "canoe job resume quick-start -n default" in said, said)
    # What has ended may be there for a moment longer.
    left = [pod["metadata"]["name"] for pod in pods(bench) if pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")]
    expect(not left, f"pods are left: {left}")
    said = bench.canoe("status", NAME)
    expect("is suspended: `canoe job resume` continues" in said, said)
    expect("paused" in bench.canoe("ls"), "ls does not say so")
    expect("was paused already" in bench.canoe("pause", NAME), "paused twice")
    said = bench.canoe("rm-data", NAME, "--yes", code=1)
    expect("has not ended" in said, said)
    said = bench.canoe("resume", NAME)
    expect("continues from its last snapshot" in said, said)
    expect("is not paused" in bench.canoe("resume", NAME), "resumed twice")
    bench.canoe("watch", NAME, seconds=300)
    here = os.path.join(bench.folder, "here")
    bench.canoe("get", NAME, "all", "--to", here)
    kept = sorted(name for name in os.listdir(wanted) if name.startswith("pass-"))
    expect("pass-00011" in kept, kept)
    for name in kept:
        same_model(os.path.join(wanted, name), os.path.join(here, name))
    print(f"    {len(kept)} passes, byte for byte those of `canoe run`, after a second apply, a lost pod, a pause")
    # Somebody deletes the Secret and makes another: status names it. The job has ended, so it is a new one.
    bench.canoe("submit", bench.job, "--replace")
    secret = bench.store.get("secrets", "default", NAME)
    expect(secret["data"]["token"] != token, "a new job has the keys of an old one")
    secret["metadata"]["annotations"]["canoe/keys"] = "of-another-generation"
    bench.store.put("secrets", secret)
    bench.says(["status", NAME], "two generations of keys", "--replace")


def kubectl(bench, text):
    command = ["ip", "netns", "exec", bench.network.hub, "kubectl", "--kubeconfig", bench.api.kubeconfig, "apply", "--server-side", "-f", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def render(bench, *words):
    """The manifests alone; the Job of the stand-in cannot be applied anew with defaults of its own."""
    said = bench.canoe("render", bench.job, *words)
    documents = [thing for thing in yaml.safe_load_all(said) if thing["kind"] in ("Secret", "ConfigMap", "Service", "Job") and not thing["metadata"]["name"].endswith("-data")]
    return yaml.safe_dump_all(documents)


def interrupted(bench):
    """Ctrl-C removes the pod on the volume; killed at any request, the next submit finds everything usable."""
    bench.claim()
    bench.demo(1)
    data = os.path.join(bench.job, "data")
    with open(os.path.join(data, "large"), "wb") as file:
        file.write(os.urandom(30_000_000))
    # A pod that cannot be removed is not said to be removed.
    bench.api.faults.add(f"DELETE .*/{NAME}-upload", code=500, message="etcd has no leader")
    for removed in (False, True):
        seen = len(bench.api.requests)
        submit = bench.start("submit", bench.job, "--data", data)
        until("an upload", lambda: any("/exec" in request for request in bench.api.requests[seen:]))
        os.killpg(submit.pid, signal.SIGINT)
        said = submit.communicate(timeout=180)[0]
        expect(submit.returncode == 130 and "the same command resumes" in said, f"{submit.returncode}: {said}")
        word = "the pod on the volume is removed" if removed else f"pod {NAME}-upload on the volume could not be removed (delete pod {NAME}-upload: etcd has no leader): `kubectl delete pod"
        expect(word in said, said)
        bench.api.faults.clear()
    until("the end of the pod", lambda: not bench.store.find("pods", "default", f"{NAME}-upload"))
    # Between two parts of the command, too.
    said = interrupt_at(bench, "is on the volume, in", "submit", bench.job, "--data", data, "--wait", "--get")
    expect("the same command resumes" in said and bench.store.find("jobs", "default", NAME) is None, said)
    kinds = ["pods", "configmaps", "secrets", "services", "networkpolicies", "jobs"]
    for kind in kinds:
        bench.api.faults.add(f"PATCH .*/{kind}/", hang=30, times=1)
        submit = bench.start("submit", bench.job, "--data", data)
        until(f"a request for {kind}", lambda: any(fault["times"] == 0 for fault in bench.api.faults.list))
        os.killpg(submit.pid, signal.SIGKILL)
        submit.communicate()
        bench.api.faults.clear()
    said = bench.canoe("submit", bench.job, "--data", data, seconds=240)
    expect("all verified" in said and "job.batch/quick-start serverside-applied" in said, said)
    # Whoever only waits goes, and the job continues; also after files were carried, when the program listens for signals.
    before = bench.store.get("jobs", "default", NAME)["metadata"]["uid"]
    submit = bench.start("submit", bench.job, "--data", data, "--replace", "--wait", "--get")
    made = lambda: bench.store.find("jobs", "default", NAME)
    until("the new job", lambda: made() and made()["metadata"]["uid"] != before and any("/jobs/" in request and request.startswith("GET") for request in bench.api.requests[-3:]), 120)
    os.killpg(submit.pid, signal.SIGINT)
    said = submit.communicate(timeout=120)[0]
    expect(submit.returncode == 130 and f"interrupted; the job continues: `canoe job watch {NAME} -n default`" in said, f"{submit.returncode}: {said}")
    expect(bench.store.find("jobs", "default", NAME) is not None, "the job is gone")
    bench.canoe("watch", NAME, seconds=200)
    said = interrupt_at(bench, "3 finished", "submit", bench.job, "--data", data, "--wait", "--get", "--to", os.path.join(bench.folder, "never"))
    expect("the same job already exists" in said and not os.path.exists(os.path.join(bench.folder, "never", "pass-00000", "done")), said)
    # A get that is interrupted leaves no pod behind, and the same command brings the model.
    bench.api.faults.add("/exec", hang=30, times=1)
    here = os.path.join(bench.folder, "here")
    getting = bench.start("get", NAME, "--to", here)
    until("a request for the model", lambda: any(fault["times"] == 0 for fault in bench.api.faults.list))
    os.killpg(getting.pid, signal.SIGINT)
    said = getting.communicate(timeout=180)[0]
    expect(getting.returncode == 130, f"{getting.returncode}: {said}")
    bench.api.faults.clear()
    until("the end of the pod", lambda: not any("-reader" in pod["metadata"]["name"] for pod in bench.store.list("pods", "default")[0]))
    bench.canoe("get", NAME, "--to", here)
    expect(os.path.exists(os.path.join(here, "pass-00000", "done")), "no model")
    # Into something that is no folder: said before a pod is made, and nothing is touched.
    mine = os.path.join(bench.folder, "mine")
    with open(mine, "w") as file:
        file.write("mine")
    made = len(bench.api.requests)
    said = bench.canoe("get", NAME, "--to", mine, code=1)
    expect("mine is not a folder" in said and not any("-reader" in request for request in bench.api.requests[made:]), said)


def interrupt_at(bench, words, *command):
    """Ctrl-C in the moment in which the command says this; what it says."""
    process = bench.start(*command)
    said = ""
    while words not in said:
        line = process.stdout.readline()
        expect(line, f"it has ended without {words!r}: {said}")
        said += line
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate(timeout=180)[0]
    expect(process.returncode == 130 and "interrupted; " in said, f"{process.returncode}: {said}")
    return said


class Cutter:
    """Leads connections to the API server. The first `cuts` of them that carry so many bytes, to it or from it, are cut there."""

    def __init__(self, bench, cuts, up=None, down=None):
        self.bench, self.cuts, self.up, self.down = bench, cuts, up, down
        with inside(bench.network.hub):
            self.listener = socket.create_server((HUB_ADDRESS, 0))
        with open(bench.api.kubeconfig) as file:
            config = yaml.safe_load(file)
        config["clusters"][0]["cluster"]["server"] = f"https://{HUB_ADDRESS}:{self.listener.getsockname()[1]}"
        self.kubeconfig = os.path.join(bench.folder, f"cut-{self.listener.getsockname()[1]}")
        with open(self.kubeconfig, "w") as file:
            yaml.safe_dump(config, file)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            with inside(self.bench.network.hub):
                server = socket.create_connection((HUB_ADDRESS, self.bench.api.port))
            threading.Thread(target=self.copy, args=(client, server, self.up), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, self.down), daemon=True).start()

    def copy(self, source, target, limit):
        carried = 0
        try:
            while data := source.recv(65536):
                target.sendall(data)
                carried += len(data)
                if limit is not None and carried > limit and self.cuts > 0:
                    self.cuts -= 1
                    break
        except OSError:
            pass
        for it in (source, target):
            try:
                it.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def cut(bench):
    """A connection that breaks in the middle of a copy, in both directions, is noticed, and the copy is resumed."""
    bench.claim()
    bench.demo(1)
    data = os.path.join(bench.job, "data")
    with open(os.path.join(data, "large"), "wb") as file:
        file.write(os.urandom(40_000_000))
    cutter = Cutter(bench, 2, up=12_000_000)
    said = bench.canoe("submit", bench.job, "--data", data, "--wait", "--kubeconfig", cutter.kubeconfig, seconds=400)
    expect(cutter.cuts == 0 and said.count("; resuming (") == 2 and "all verified" in said, said)
    kept = re.search(r"([\d.]+) MiB were already there", said)
    expect(kept and float(kept[1]) > 10, said)
    volume = bench.kubelet.claim_folder("default", "canoe-files")
    expect(filecmp.cmp(os.path.join(data, "large"), f"{volume}/{NAME}/data/large", shallow=False), "it has not arrived")
    model = f"{volume}/{NAME}/output/pass-00000"
    with open(f"{model}/large", "wb") as file:
        file.write(os.urandom(20_000_000))
    cutter, here = Cutter(bench, 2, down=6_000_000), os.path.join(bench.folder, "here")
    said = bench.canoe("get", NAME, "all", "--to", here, "--kubeconfig", cutter.kubeconfig, seconds=400)
    expect(cutter.cuts == 0 and said.count("; resuming (") == 2 and "all verified" in said, said)
    same_model(model, os.path.join(here, "pass-00000"), ignored=())
    print("    two cuts in a copy to the volume, two in a copy from it, resumed")


def another_run(bench):
    """Of two jobs of the same name, one after the other, each has results of its own; the volume keeps those of the first."""
    bench.claim()
    bench.demo(4)
    data, volume = os.path.join(bench.job, "data"), bench.kubelet.claim_folder("default", "canoe-files")
    here = lambda name: os.path.join(bench.folder, name)
    passes = lambda name: sorted(it for it in os.listdir(here(name)) if it.startswith("pass-"))
    config = lambda name, number: os.path.basename(open(os.path.join(here(name), f"pass-{number:05}", "path.txt")).read().strip())
    bench.canoe("submit", bench.job, "--data", data, "--wait", "--get", "--to", here("first"), seconds=300)
    expect(passes("first") == ["pass-00003"], passes("first"))
    # The same again with other data: told, and no old model is brought.
    listed = os.path.join(data, "train.txt")
    before = open(listed).read()
    with open(listed, "a") as file:
        file.write(before.splitlines()[0] + "\n")
    said = bench.canoe("submit", bench.job, "--data", data, "--wait", "--get", "--to", here("never"), code=1)
    expect("data: " in said and "are on the volume" in said and "--replace" in said and not os.path.exists(here("never")), said)
    with open(listed, "w") as file:
        file.write(before)
    said = bench.canoe("submit", bench.job, "--data", data)
    expect("the same job already exists" in said, said)
    bench.job_file(config="trainer_config.lr.py", passes=2)
    bench.canoe("submit", bench.job, "--data", data, "--wait", "--get", "--to", here("second"), "--replace", seconds=300)
    expect(passes("second") == ["pass-00001"] and config("second", 1) == "trainer_config.lr.py", f"{passes('second')} {os.listdir(volume + '/' + NAME)}")
    bench.canoe("get", NAME, "all", "--to", here("all"))
    expect(passes("all") == ["pass-00000", "pass-00001"] and config("all", 0) == "trainer_config.lr.py", passes("all"))
    bench.canoe("get", NAME, "--earlier", "1", "--to", here("earlier"))
    same_model(os.path.join(here("first"), "pass-00003"), os.path.join(here("earlier"), "pass-00003"), ignored=())
    # Deleted, and submitted with fewer passes; once more from a model that is there.
    bench.canoe("delete", NAME, "--yes")
    bench.job_file(config="trainer_config.lr.py", passes=1)
    bench.canoe("submit", bench.job, "--wait", "--get", "--to", here("third"), seconds=300)
    expect(passes("third") == ["pass-00000"], passes("third"))
    bench.job_file(config="trainer_config.lr.py", passes=1, args=["--start_pass=1"])
    bench.canoe("submit", bench.job, "--wait", "--replace", seconds=300)
    bench.canoe("get", NAME, "all", "--to", here("fourth"))
    expect(passes("fourth") == ["pass-00000", "pass-00001"], passes("fourth"))
    kept = sorted(name for name in os.listdir(f"{volume}/{NAME}") if name.startswith("output"))
    expect(kept == ["output", "output-1", "output-2"], kept)
    bench.canoe("delete", NAME, "--yes")
    bench.canoe("rm-data", NAME, "--only", "output", "--yes")
    kept = sorted(os.listdir(f"{volume}/{NAME}"))
    expect("data" in kept and not any(name.startswith("output") for name in kept), kept)


def refused(bench):
    """Programs that cannot run in a pod, and pods that cannot run the program; no right to run a command in one."""
    bench.claim()
    bench.demo(1)
    bench.api.faults.add("/exec", code=403, message='pods "x" is forbidden: User "tester" cannot get resource "pods/exec" in API group "" in the namespace "default"')
    said = bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"), code=1)
    expect("you need the rights to get and to create `pods/exec`" in said and "data.url" in said and "resuming" not in said, said)
    bench.api.faults.clear()
    bench.job_file(image=None, config="trainer_config.emb.py", passes=1)
    foreign = os.path.join(bench.folder, "foreign")
    with open(foreign, "wb") as file:
        file.write(bytes([0xCF, 0xFA, 0xED, 0xFE, 7, 0, 0, 1]))
    said = bench.canoe("submit", bench.job, "--binary", foreign, code=1)
    expect("is a macOS program" in said and "--binary FILE" in said, said)
    broken = os.path.join(bench.folder, "broken")
    with open(bench.binary, "rb") as file, open(broken, "wb") as copy:
        copy.write(file.read(4096))
    said = bench.canoe("submit", bench.job, "--binary", broken, code=1)
    expect("the program does not run in image docker.io/library/python" in said, said)
    expect(bench.store.find("jobs", "default", NAME) is None, "a job was made")
    bench.job_file(image="canoe:test")
    said = bench.canoe("submit", bench.job, "--binary", foreign, code=1)
    expect("the job has an image of its own" in said, said)


def listed(bench):
    """`ls` for scripts."""
    bench.claim()
    bench.job_file()
    bench.canoe("submit", bench.job)
    rows = json.loads(bench.canoe("ls", "--json"))
    expect([(row["name"], row["state"], row["nodes"], row["claim"]) for row in rows] == [(NAME, "starting", 3, "canoe-files")], rows)
    expect(json.loads(bench.canoe("ls", "-A", "--json")) == rows, "another list")
    said = bench.canoe("delete", "nothing", "--yes")
    expect("there is no job nothing in namespace default; `canoe job ls -n default`" in said, said)
    said = bench.canoe("status", "nothing", code=3)
    expect("there is no such job: nothing in namespace default; `canoe job ls -n default`" in said, said)
    said = bench.canoe("pause", "nothing", code=1)
    expect("there is no job nothing in namespace default to pause" in said, said)


def pinned(bench):
    """The stock image of a job without an image of its own: by digest, from a mirror, in the file or by a flag; a name that no machine takes is refused."""
    bench.claim()
    # What render says to a person comes after the manifests.
    images = lambda text: {container["image"] for thing in yaml.safe_load_all(text.split("the pods run this program")[0]) if thing["kind"] == "Job" for kind in ("initContainers", "containers")
                           for container in thing["spec"]["template"]["spec"].get(kind, [])}
    digest = "sha256:" + "0123456789abcdef" * 4
    bench.job_file(image=None, pythonImage=f"python@{digest}", data={})
    expect(images(bench.canoe("render", bench.job)) == {f"python@{digest}"}, "another image than that of the file")
    mirror = f"mirror.example:5000/library/python@{digest}"
    expect(images(bench.canoe("render", bench.job, "--python-image", mirror)) == {mirror}, "another image than that of the flag")
    bench.canoe("submit", bench.job, "--python-image", mirror, "--dry-run=server")
    for wrong in (f"python@{digest[:-1]}", f"python@{digest.upper()}", "python@latest", "Python:3"):
        said = bench.canoe("render", bench.job, "--python-image", wrong, code=1)
        expect(f'pythonImage: "{wrong}" is not a name of an image' in said and "@sha256:" in said, said)
    bench.job_file()
    said = bench.canoe("render", bench.job, "--python-image", mirror, code=1)
    expect("--python-image: the job has an image of its own" in said, said)


def in_a_store(bench):
    """Data from an object store through the data job, the model back into it: through this machine, and by the pod of `copies`, which is lost once.
    Then the Job expires, and what is left is told and can be had."""
    sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
    from s3 import KEY, SECRET, Server

    bench.claim()
    bench.demo(2)
    store = os.path.join(bench.folder, "store")
    shutil.copytree(os.path.join(bench.job, "data"), os.path.join(store, "bucket", "reviews"))
    wanted = reference(bench, 2)
    server = Server(store, HUB_ADDRESS, ["ip", "netns", "exec", bench.network.hub])
    try:
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_S3": server.url}
        wrong = {key: base64.b64encode(value.encode()).decode() for key, value in (keys | {"AWS_SECRET_ACCESS_KEY": "other"}).items()}
        bench.store.create("secrets", {"metadata": {"name": "s3-keys", "namespace": "default"}, "data": wrong})
        data = {"url": "s3://bucket/reviews/", "environment": "s3-keys"}
        copies = {"to": "s3://bucket/copies/", "environment": "s3-keys"}
        bench.job_file(config="trainer_config.emb.py", passes=2, data=data, copies=copies)
        bench.canoe("submit", bench.job)
        said = bench.says(["status", NAME], "job quick-start-data", "SignatureDoesNotMatch", seconds=240)
        expect(SECRET not in said, said)
        right = bench.store.get("secrets", "default", "s3-keys") | {"data": wrong | {"AWS_SECRET_ACCESS_KEY": base64.b64encode(SECRET.encode()).decode()}}
        bench.store.put("secrets", right)
        clean = {"AWS_PROFILE": "", "HTTPS_PROXY": "", "HTTP_PROXY": ""}
        bench.canoe("submit", bench.job, "--replace")
        copier = lambda: [pod for pod in bench.store.list("pods", "default", f"{POD}={NAME}-copy")[0] if pod.get("status", {}).get("phase") == "Running"]
        until("the pod that copies", copier)
        bench.controllers.delete_pod(copier()[0])
        bench.canoe("watch", NAME, seconds=200)
        until("the copies", lambda: bench.store.get("jobs", "default", f"{NAME}-copy").get("status", {}).get("succeeded") == 1)
        copied = os.path.join(store, "bucket", "copies")
        for number in ("00000", "00001"):
            same_model(os.path.join(wanted, f"pass-{number}"), os.path.join(copied, f"pass-{number}"))
        expect("Batch=" in open(os.path.join(copied, "node_1", "train.log")).read() and not os.path.exists(os.path.join(copied, "snapshots")), os.listdir(copied))
        # Nothing is written to this machine on the way.
        clean["TMPDIR"] = os.path.join(bench.folder, "no-such-folder")
        said = bench.canoe("get", NAME, "--to", "s3://bucket/models/", seconds=200, env=keys | clean)
        expect(said.endswith("\ns3://bucket/models/pass-00001\n") and " 0 B were already there" in said, said)
        copied_model = os.path.join(store, "bucket", "models", "pass-00001")
        files = same_model(os.path.join(wanted, "pass-00001"), copied_model)
        # What is there is not read from the volume again; what is missing is.
        said = bench.canoe("get", NAME, "all", "--to", "s3://bucket/models/", seconds=200, env=keys | clean)
        kept = re.search(r"files, (.*), (.*) were already there", said)
        expect(kept and kept[2] not in ("0 B", kept[1]), said)
        for number in ("00000", "00001"):
            same_model(os.path.join(wanted, f"pass-{number}"), os.path.join(store, "bucket", "models", f"pass-{number}"))
        # Whoever may not write there is told before a pod is made.
        readers = lambda: sum("-reader-" in request for request in bench.api.requests if request.startswith("PATCH"))
        before = readers()
        said = bench.canoe("get", NAME, "--to", "s3://bucket/models/", code=1, env=keys | clean | {"AWS_SECRET_ACCESS_KEY": "other"})
        expect("SignatureDoesNotMatch" in said and readers() == before, said)
        print("    data fetched from s3:// by the data job, models and logs copied to s3:// by a pod that was lost once, byte for byte those of `canoe run`")
        # The Job goes by itself some time after its end.
        for job in (NAME, f"{NAME}-data", f"{NAME}-copy"):
            bench.controllers.expire("default", job)
        until("the Jobs to be gone", lambda: not bench.store.list("jobs", "default")[0] and not pods(bench))
        said = bench.canoe("status", NAME, code=3)
        expect("there is no such job" not in said and "its Job is gone" in said and "ttlSeconds" in said and f"`canoe job get {NAME} -n default` copies them here" in said, said)
        print("    " + said.splitlines()[-1].strip())
        expect(re.search(r"quick-start +only files", bench.canoe("ls")), "it is not listed")
        here = os.path.join(bench.folder, "here")
        bench.canoe("get", NAME, "--to", here)
        same_model(os.path.join(wanted, "pass-00001"), os.path.join(here, "pass-00001"))
        expect("job.batch/quick-start serverside-applied" in bench.canoe("submit", bench.job, "--dry-run=server"), "it cannot be submitted again")
    finally:
        server.close()


def documented(bench):
    """The commands of docs/kubernetes.md, as they stand, one block after the other."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    sys.path.append(os.path.join(root, "e2e", "docs"))
    from blocks import blocks

    bench.claim()
    programs = os.path.join(bench.folder, "bin")
    os.makedirs(programs)
    shutil.move(program(bench), os.path.join(programs, "canoe"))
    env = os.environ | {"KUBECONFIG": bench.api.kubeconfig, "PATH": f"{programs}:{os.environ['PATH']}"}
    ran = 0
    for block in blocks(pathlib.Path(root, "docs", "kubernetes.md")):
        if (block.language, block.note) != ("sh", "cluster"):
            continue
        done = subprocess.run(["ip", "netns", "exec", bench.network.hub, "bash", "-exc", block.text], cwd=bench.folder, env=env, capture_output=True, text=True, timeout=300)
        expect(done.returncode == 0, f"{block.place} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        ran += len([line for line in block.lines if line])
    expect(ran >= 20, f"only {ran} commands")
    print(f"    {ran} commands of docs/kubernetes.md ran as they stand")
    with open(os.path.join(root, "deploy", "role.yaml")) as file:
        rights = {(group, resource, verb) for rule in yaml.safe_load(file)["rules"] for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}
    asked = {right for request in bench.api.requests if (right := right_of(request))}
    expect(asked <= rights, f"not in deploy/role.yaml: {sorted(asked - rights)}")
    print(f"    {len(asked)} rights were used, all of them in deploy/role.yaml")


def right_of(request):
    """What RBAC asks for this request to objects of a namespace: group, resource, verb."""
    found = re.match(r"(\w+) /(?:api|apis/([^/]+))/v1/namespaces/default/(\w+)(?:/([^/?]+)(?:/(\w+))?)?(?:\?|$)", request)
    if not found:
        return None
    method, group, resource, name, part = found.groups()
    verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method]
    return group or "", f"{resource}/{part}" if part else resource, verb


def nowhere(bench):
    """No image: a namespace, and a claim, that do not exist are named before anything is made."""
    os.makedirs(os.path.join(bench.job, "data"))
    bench.job_file(image=None)
    said = bench.canoe("submit", bench.job, "-n", "nosuch", code=1)
    expect("there is no namespace nosuch" in said and "kubectl create namespace nosuch" in said, said)
    said = bench.canoe("submit", bench.job, code=1)
    expect('there is no claim "canoe-files" in namespace default' in said and "--claim" in said and "--nfs" in said, said)
    said = bench.canoe("submit", bench.job, "--claim", "Bad_claim", code=1)
    expect('no claim can be called "Bad_claim"' in said, said)
    expect(not bench.store.list("pods", "default")[0], "a pod was made")
    said = bench.canoe("render", bench.job, "--name", "other", "--claim", "files", "-n", "team", "--offline")
    expect(f"`canoe job upload {bench.job} --name other -n team --claim files` brings it there" in said, said)


FAKE = [("listed", listed), ("a pinned stock image", pinned), ("no namespace, no claim", nowhere)]
REAL = [
    ("no image: submit, wait, get, and what is left", five_minutes),
    ("keys: applied again, paused, resumed", keys_and_pauses),
    ("interrupted anywhere", interrupted),
    ("connections that break in a copy", cut),
    ("one job after the other under one name", another_run),
    ("programs that do not run", refused),
    ("data and models in an object store", in_a_store),
    ("the commands of docs/kubernetes.md", documented),
]
