"""`canoe job …` against the stand-in API server, with no kubectl on its PATH: every sentence that a user reads.

Without namespaces, pods are only placed, not run; with them (root), a job is submitted, trains, is looked at, and is deleted.
The real kubectl is what some scenarios compare with.
Usage: commands.py --canoe PATH [--only WORD] [--lane placed|run]      kubectl is taken from PATH
"""
import argparse
import atexit
import http.client
import os
import re
import signal
import subprocess
import sys
import time

import yaml

from acceptance import again_on_the_volume, client_dry_run, foreign, not_ours, refuses
import files
from bench import NAME, Bench, expect
from network import Network, inside, why_not


def submit_again(bench):
    """Apply, the same again, another one, replaced, deleted."""
    bench.claim()
    bench.job_file()
    said = bench.canoe("submit", bench.job, "--dry-run=server")
    expect("job.batch/quick-start serverside-applied (server dry run)" in said, said)
    expect(bench.store.find("jobs", "default", NAME) is None, "a dry run made a job")
    said = bench.canoe("submit", bench.job)
    for kind in ("configmap", "secret", "service", "networkpolicy.networking.k8s.io", "poddisruptionbudget.policy", "job.batch"):
        expect(f"{kind}/quick-start serverside-applied" in said, said)
    expect("next steps" in said, said)
    expect("the same job already exists" in bench.canoe("submit", bench.job), "no word of the same job")
    bench.job_file(nodes=5, resources={"memory": "3Gi"})
    said = bench.canoe("submit", bench.job, code=1)
    for text in ("Job quick-start.spec.completions: 3 is there, 5 is wanted", 'resources.limits.memory: "2Gi" is there, "3Gi" is wanted', "--replace"):
        expect(text in said, said)
    bench.canoe("submit", bench.job, "--replace")
    expect(bench.store.get("jobs", "default", NAME)["spec"]["completions"] == 5, "it was not replaced")
    said = bench.canoe("delete", NAME, code=1)
    expect("everything except the volume" in said and "--yes" in said, said)
    said = bench.canoe("delete", NAME, "--yes")
    expect('job.batch "quick-start" deleted' in said, said)
    left = sorted(f"{kind} {name}" for kind, _, name in bench.store.objects if kind not in ("events", "namespaces", "serviceaccounts"))
    expect(left == ["configmaps quick-start-files", "persistentvolumeclaims canoe-files", "persistentvolumes canoe-demo-files"], f"left: {left}")
    said = bench.canoe("status", NAME, code=3)
    expect("its Job is gone" in said and "there is no such job" not in said, said)


def rejected(bench):
    """What a server refuses is passed on in its words; nothing of ours is left half done without a word."""
    bench.job_file(namespace="nowhere", volume={"claim": {"name": "files"}})
    said = bench.canoe("submit", bench.job, code=1)
    expect('namespaces "nowhere" not found' in said, said)
    bench.job_file(name="Bad_Name")
    said = bench.canoe("submit", bench.job, code=1)
    expect('name: "Bad_Name" must be at most 52 lower-case letters' in said, said)
    bench.job_file(image="UPPER/Bad:tag")
    said = bench.canoe("submit", bench.job, code=1)
    expect('image: "UPPER/Bad:tag" is not a name of an image' in said, said)
    os.remove(os.path.join(bench.job, "quick_start", "trainer_config.py"))
    bench.job_file()
    said = bench.canoe("submit", bench.job, code=1)
    expect("find the configuration in" in said, said)


def write_kubeconfig(bench, name, change):
    """The bench's kubeconfig, changed; its path."""
    with open(bench.api.kubeconfig) as file:
        config = yaml.safe_load(file)
    change(config)
    path = os.path.join(bench.folder, name)
    with open(path, "w") as file:
        yaml.safe_dump(config, file)
    return path


def kubeconfigs(bench):
    """The namespace of the context, several files, a login program, and every way to have no cluster."""
    bench.store.create("namespaces", {"metadata": {"name": "team", "labels": {}}})
    bench.job_file(volume={"claim": {"name": "files"}})
    team = write_kubeconfig(bench, "team", lambda it: it["contexts"][0]["context"].update(namespace="team"))
    said = bench.canoe("submit", bench.job, env={"KUBECONFIG": f"{bench.folder}/none:{team}:{bench.api.kubeconfig}"})
    expect(bench.store.find("jobs", "team", NAME) and not bench.store.find("jobs", "default", NAME), "the namespace of the context was ignored")
    expect(f"canoe job watch {NAME} -n team" in said, said)
    expect("3 nodes" in bench.canoe("status", NAME, "--kubeconfig", team), "status looks elsewhere")
    expect("3 nodes" in bench.canoe("status", NAME, "-n", "team"), "-n is ignored")
    bench.canoe("status", NAME, code=3)
    expect("namespace: team" in bench.canoe("render", bench.job, env={"KUBECONFIG": team}), "render looks elsewhere")
    login = os.path.join(bench.folder, "login")
    with open(login, "w") as file:
        file.write("#!/bin/sh\necho '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"tester\"}}'\n")
    os.chmod(login, 0o755)
    plugin = lambda command: {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "Never"}}
    with_login = write_kubeconfig(bench, "with-login", lambda it: it["users"][0].update(user=plugin(login)))
    bench.canoe("status", NAME, "-n", "team", "--kubeconfig", with_login)
    expect(bench.api.tokens[-1] == "Bearer tester", f"the login program was not asked: {bench.api.tokens[-1]}")
    without = write_kubeconfig(bench, "without-login", lambda it: it["users"][0].update(user=plugin("no-such-login")))
    for words, texts in {
        ("--kubeconfig", without): ("the login program no-such-login", "install it"),
        ("--kubeconfig", "/no/config"): ("there is no kubeconfig: /no/config", "canoe job render"),
        ("--context", "lab"): ('the kubeconfig has no context "lab"; it has: stand-in',),
    }.items():
        said = bench.canoe("status", NAME, *words, code=1)
        expect(all(text in said for text in texts) and len(said.splitlines()) == 1, said)
        print("    " + said.strip()[:230])


def being_deleted(bench):
    """A job on its way out is recognised, and whoever waits for it is told why."""
    bench.claim()
    bench.job_file()
    bench.canoe("submit", bench.job)
    bench.says(["status", NAME], "3 starting")
    pod = bench.store.list("pods", "default", f"batch.kubernetes.io/job-name={NAME}")[0][0]["metadata"]["name"]
    bench.controllers.lost.add(pod)

    def lose(fresh):
        fresh["spec"]["nodeName"] = "worker-2"
        fresh["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]}

    bench.store.update("pods", "default", pod, lose)
    deleting = bench.start("delete", NAME, "--yes")
    said = bench.says(["status", NAME], "the job is being deleted", f"waits for pod {pod} on machine worker-2, which does not respond", f"kubectl delete pod {pod} -n default --force")
    print("    " + said.splitlines()[1].strip()[:230])
    said = bench.canoe("submit", bench.job, code=1)
    expect(f"job {NAME} is being deleted; `canoe job status {NAME} -n default`" in said, said)
    said = ""
    while "waiting: " not in said:
        line = deleting.stdout.readline()
        expect(line, f"it has ended without a word about what it waits for: {said}")
        said += line
    expect(f'job.batch "{NAME}" deleted' in said and f"waits for pod {pod} on machine worker-2" in said, said)
    bench.controllers.lost.clear()
    said = deleting.communicate(timeout=180)[0]
    expect(deleting.returncode == 0, said)
    bench.canoe("submit", bench.job)


def stuck(settings, prepare, *texts, code=0):
    def scenario(bench):
        bench.job_file(**settings)
        prepare(bench)
        bench.canoe("submit", bench.job)
        said = bench.says(["status", NAME], *texts, code=code)
        print("    " + next(line for line in said.splitlines() if texts[0] in line).strip()[:230])

    return scenario


def with_claim(change=lambda bench: None):
    def prepare(bench):
        bench.claim()
        change(bench)

    return prepare


def quota(bench):
    bench.controllers.quota_pods = 1


def released(bench):
    """The claim was deleted, its volume was retained: it remembers the claim that is gone."""
    reference = {"name": f"{NAME}-volume", "namespace": "default", "uid": "of-a-claim-that-is-gone"}
    bench.store.create("persistentvolumes", {"metadata": {"name": f"default.{NAME}-volume"}, "spec": {"claimRef": reference, "accessModes": ["ReadWriteMany"], "storageClassName": "", "nfs": {"server": "10.0.0.5", "path": "/"}}})


def lost_machine(bench):
    """Five minutes after a machine fell silent its pods are to be deleted, but nobody is there to say that they ended."""
    bench.claim()
    bench.job_file()
    bench.canoe("submit", bench.job)
    bench.says(["status", NAME], "3 starting")
    pod = bench.store.list("pods", "default", f"batch.kubernetes.io/job-name={NAME}")[0][0]
    bench.controllers.lost.add(pod["metadata"]["name"])

    def lose(fresh):
        fresh["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        fresh["spec"]["nodeName"] = "worker-2"
        fresh["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}

    bench.store.update("pods", "default", pod["metadata"]["name"], lose)
    said = bench.says(["status", NAME], "machine worker-2: does not respond; node 0 of the job is there", "kubectl delete node worker-2", "out-of-service")
    print("    " + next(line for line in said.splitlines() if "worker-2" in line).strip()[:230])


def login(bench):
    bench.controllers.pull_error = "failed to authorize: 401 Unauthorized: authentication required"


def mutating(bench):
    """A webhook of the cluster that takes the security context out of pods, in a restricted namespace."""
    bench.store.update("namespaces", "", "default", lambda it: it["metadata"]["labels"].update({"pod-security.kubernetes.io/enforce": "restricted"}))
    create = bench.store.create

    def without(plural, thing):
        if plural == "jobs":
            del thing["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        return create(plural, thing)

    bench.store.create = without


def without_account(bench):
    bench.claim()
    create = bench.store.create
    bench.store.create = lambda plural, thing: thing if plural == "serviceaccounts" else create(plural, thing)


def failing_api(bench):
    """500, 429 with Retry-After, hanging, watches that close, RBAC: a clear message, bounded waiting, the right code."""
    bench.claim()
    bench.job_file()
    faults = bench.api.faults
    faults.add("GET /apis/batch/v1/.*jobs/", code=500, message="etcd has no leader")
    said = bench.canoe("status", NAME, code=1)
    expect(f"get job {NAME}" in said and "in namespace default: etcd has no leader" in said, said)
    faults.clear()
    faults.add(rf"GET /apis/batch/v1/.*jobs/{NAME}\??$", code=429, retry_after=1, times=2, message="too many requests")
    begun = time.monotonic()
    said = bench.canoe("status", NAME, code=3)
    expect(time.monotonic() - begun >= 2, f"Retry-After was not heeded: {said}")
    faults.clear()
    faults.add("GET /apis/batch/v1/.*jobs/", hang=30)
    said = bench.canoe("--request-timeout=2", "status", NAME, code=1, seconds=240)
    expect("has not responded within 2 s" in said, said)
    faults.clear()
    faults.add("PATCH", code=403, message='jobs.batch is forbidden: User "tester" cannot patch resource "jobs"')
    said = bench.canoe("submit", bench.job, code=1)
    expect('User "tester" cannot patch resource' in said, said)
    faults.clear()
    bench.canoe("submit", bench.job)
    faults.add("GET /api/v1/.*events", code=403, message='events is forbidden: User "tester" cannot list resource "events"')
    faults.add("GET /api/v1/nodes", code=403, message='nodes is forbidden: User "tester" cannot list resource "nodes"')
    bench.says(["status", NAME], "3 nodes: ")
    faults.clear()
    bench.canoe("delete", NAME, "--yes", seconds=240)
    faults.clear()
    faults.add("GET", code=401, message="Unauthorized")
    said = bench.canoe("status", NAME, code=1)
    expect("does not accept your credentials (Unauthorized)" in said and "log in to the cluster again" in said, said)


def no_server(bench):
    bench.job_file()
    bench.api.server.shutdown()
    bench.api.server.server_close()
    said = bench.canoe("--request-timeout=2", "status", NAME, code=1, seconds=240)
    expect("cannot be reached: Connection refused" in said and "check that the cluster runs" in said and len(said.splitlines()) == 1, said)


def web(bench):
    """The page of the job on this machine, also after the pod behind it is gone; kubectl shows the same, over both ways that it has."""
    bench.claim()
    bench.demo(400)
    bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"))
    bench.says(["status", NAME], "3 nodes: 3 ready", seconds=240)
    watcher = bench.start("watch", NAME, "--web", "--port=7391")
    try:
        for turn in ("first", "after the pod is gone"):
            page = read_page(bench, 7391, "/", b"<title>canoe")
            expect(b"<html" in page.lower(), page[:500])
            metrics = read_page(bench, 7391, "/metrics", b"canoe_job_nodes")
            expect(b"canoe_job_nodes" in metrics, metrics[:500])
            if turn == "first":
                pods = [request for request in bench.api.requests if "/portforward" in request]
                name = re.search(r"pods/([^/]+)/portforward", pods[-1])[1]
                bench.controllers.delete_pod(bench.store.get("pods", "default", name))
                end = time.monotonic() + 240
                while bench.store.find("pods", "default", name):
                    expect(time.monotonic() < end, f"{name} does not go")
                    time.sleep(0.1)
    finally:
        os.killpg(watcher.pid, signal.SIGINT)
        said = watcher.communicate(timeout=180)[0]
    expect("watch it at http://127.0.0.1:7391/" in said, said)
    bench.says(["status", NAME], "3 nodes: 3 ready", seconds=240)
    pod = next(it for it in bench.store.list("pods", "default", f"batch.kubernetes.io/job-name={NAME}")[0] if it["status"]["phase"] == "Running")
    for port, way in ((7392, "true"), (7393, "false")):
        command = ["ip", "netns", "exec", bench.network.hub, "kubectl", "--kubeconfig", bench.api.kubeconfig, "port-forward", pod["metadata"]["name"], f"{port}:7272"]
        forwarder = subprocess.Popen(command, env=os.environ | {"KUBECTL_PORT_FORWARD_WEBSOCKETS": way}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            read_page(bench, port, "/", b"<title>canoe")
        finally:
            forwarder.kill()
            forwarder.communicate()
    bench.canoe("delete", NAME, "--yes")
    said = bench.canoe("watch", NAME, "--web", code=1)
    expect("there is no such job" in said, said)


def read_page(bench, port, path, wanted, seconds=240):
    """What a browser on the machine of the user gets, as soon as it gets it."""
    end = time.monotonic() + seconds
    while True:
        try:
            with inside(bench.network.hub):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.connect()
            connection.request("GET", path)
            page = connection.getresponse().read()
            if wanted in page:
                return page
        except (OSError, http.client.HTTPException):
            page = b""
        expect(time.monotonic() < end, f"no {path} with {wanted}: {page[:300]}")
        time.sleep(0.3)


def train(bench):
    """From a folder on the laptop to a model on the volume, with a pod lost on the way."""
    bench.claim()
    bench.demo(40)
    said = bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"))
    expect("is on the volume, in quick-start/data" in said and "all verified" in said, said)
    follower = bench.start("logs", NAME, "--follow")
    said = bench.says(["status", NAME], "3 nodes: 3 ready", "running", seconds=240)
    end = time.monotonic() + 240
    while not re.search(r"^ +0 +quick-start-0-\w+ +running +\d+ +\d+ +0\.\d+ +[\d,]+ ", said, re.M):
        expect(time.monotonic() < end, f"no pass, batch, cost and speed of node 0:\n{said}")
        said = bench.canoe("status", NAME)
    print("    " + "\n    ".join(said.splitlines()))
    bench.api.faults.add("/exec", code=403, message='pods "x" is forbidden: User "tester" cannot create resource "pods/exec"')
    said = bench.canoe("status", NAME)
    expect("  nodes 0, 1, 2: you may not ask it (no right to pods/exec)" in said and "forbidden" not in said, said)
    wide = [line for line in said.splitlines() if re.match(" *node|  ", line) and len(line) > 80]
    expect(not wide, wide)
    bench.api.faults.clear()
    bench.api.faults.add("/exec", hang=30, times=1)
    said = bench.canoe("status", NAME)
    expect("has not responded within 4 s" in said, said)
    bench.api.faults.clear()
    pods = bench.store.list("pods", "default", f"batch.kubernetes.io/job-name={NAME}")[0]
    bench.controllers.delete_pod(pods[1])
    said = bench.canoe("watch", NAME, seconds=400)
    print("    " + "\n    ".join(line for line in said.splitlines() if "nodes:" in line))
    expect("3 nodes: 0 ready, 0 starting, 3 finished" in said, said)
    job = bench.store.get("jobs", "default", NAME)
    expect(job["status"]["failed"] == 0, f"the lost pod used up a retry: {job['status']}")
    heard = follower.communicate(timeout=180)[0]
    for node in range(3):
        expect(re.search(rf"^node {node}: trainer {node}: .*Batch=", heard, re.M), f"node {node} was not heard:\n{heard[-3000:]}")
    volume = bench.kubelet.claim_folder("default", "canoe-files")
    expect(os.path.exists(f"{volume}/{NAME}/output/pass-00039/done"), "no model")
    expect(os.path.exists(f"{volume}/{NAME}/output/node_2/server.log"), "no log on the volume")
    said = bench.canoe("logs", NAME, "--node", "1", "--tail", "3")
    expect(said.count("node 1: ") >= 3, said)
    bench.canoe("delete", NAME, "--yes")
    expect(os.path.exists(f"{volume}/{NAME}/output/pass-00039/done"), "the model was deleted")
    said = bench.canoe("logs", NAME, code=1)
    expect("quick-start/output/node_<id>/" in said, said)


def new_namespace(bench):
    """A namespace that submit makes takes no pods until it has its account; an upload whose pod is left over is done anew."""
    bench.controllers.account_after = 4
    bench.job_file(namespace="team", createNamespace=True, volume={"storageClass": {"name": "shared", "size": "1Gi"}})
    data = os.path.join(bench.folder, "data")
    for node in range(3):
        os.makedirs(f"{data}/{node}")
        open(f"{data}/{node}/train.txt", "w").write("0\tx\n")
    said = bench.canoe("submit", bench.job, "--dry-run=server", code=1)
    expect("make it first (`kubectl create namespace team`)" in said, said)
    said = bench.canoe("submit", bench.job, "--data", data)
    expect("is on the volume, in quick-start/data: 3 files" in said, said)
    labels = bench.store.get("namespaces", "", "team")["metadata"]["labels"]
    expect(labels["pod-security.kubernetes.io/enforce"] == "restricted" and labels["kubernetes.io/metadata.name"] == "team", labels)
    settle(bench)
    bench.canoe("delete", NAME, "-n", "team", "--yes")
    # What an upload left that was interrupted: another image, and it has ended.
    left = {"metadata": {"name": f"{NAME}-upload", "namespace": "team", "labels": {}}, "spec": {"containers": [{"name": "upload", "image": "canoe:old"}]}, "status": {"phase": "Failed"}}
    bench.store.create("pods", left)
    # As servers before 1.30 speak.
    bench.api.faults.protocols = ("v4.channel.k8s.io",)
    said = bench.canoe("submit", bench.job, "--data", data)
    expect("3 files" in said and "all verified" in said and "waited" not in said, said)
    settle(bench)
    bench.canoe("delete", NAME, "-n", "team", "--yes")


def settle(bench):
    """Waits until every node has begun, or ended: one that is asked to end before it listens is killed when its time is over."""
    end = time.monotonic() + 240

    def has_begun(pod):
        process = bench.controllers.running.get(pod["metadata"]["uid"])
        return process is not None and (process.code is not None or re.search(r"waiting for|node \d of", process.log()))

    while True:
        job = bench.store.get("jobs", "team", NAME)
        pods = bench.store.list("pods", "team", f"batch.kubernetes.io/job-name={NAME}")[0]
        is_over = any(condition["type"] == "Failed" for condition in job.get("status", {}).get("conditions", []))
        if (is_over or len(pods) == 3) and all(map(has_begun, pods)):
            return
        expect(time.monotonic() < end, "the nodes do not begin")
        time.sleep(0.1)


def wrong_configuration(bench):
    """Exit code 78: the job fails at once, and status repeats the last words."""
    bench.claim()
    volume = bench.kubelet.claim_folder("default", "canoe-files")
    for node in range(3):
        os.makedirs(f"{volume}/{NAME}/{node}/data")
        open(f"{volume}/{NAME}/{node}/data/train.txt", "w").close()
    os.chmod(f"{volume}/{NAME}", 0o777)
    with open(os.path.join(bench.job, "quick_start", "trainer_config.py"), "w") as file:
        file.write("import nothing_of_that_name\n")
    bench.job_file()
    said = bench.canoe("submit", bench.job, "--wait", code=3, seconds=240)
    expect("the job failed at once, because a new pod would fail the same way" in said, said)
    expect("nothing_of_that_name" in said, said)
    print("    " + next(line for line in said.splitlines() if "at once" in line).strip()[:230])


def out_of_memory(bench):
    bench.claim()
    bench.job_file(retries=0)
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 240
    while len(bench.controllers.running) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    pod = next(iter(bench.controllers.running.values()))
    pod.killed_for_memory = True
    while pod.first_process() is None:
        time.sleep(0.05)
    pod.signal(signal.SIGKILL)
    said = bench.says(["status", NAME], "used more memory than `resources.memory` allows (2Gi)", "no retries are allowed", code=3)
    print("    " + next(line for line in said.splitlines() if "memory" in line).strip()[:200])


def evicted(bench):
    """A pod that a drain takes away comes back under its id, and no retry is used."""
    bench.claim()
    bench.job_file(retries=0)
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 240
    while len(bench.controllers.running) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    pod = next(iter(bench.controllers.running.values()))
    while "waiting for" not in pod.log():
        time.sleep(0.05)
    pod.is_evicted = True
    pod.signal(signal.SIGTERM)
    index = pod.metadata["labels"]["batch.kubernetes.io/job-completion-index"]
    selector = f"batch.kubernetes.io/job-name={NAME},batch.kubernetes.io/job-completion-index={index}"
    end = time.monotonic() + 20
    while len(bench.store.list("pods", "default", selector)[0]) < 2:
        expect(time.monotonic() < end, f"no successor: {pod.log()}")
        time.sleep(0.1)
    expect(pod.code == 143, f"code {pod.code}: {pod.log()}")
    expect(bench.store.get("jobs", "default", NAME)["status"]["failed"] == 0, "a retry was used up")


def data_job_fails(bench):
    bench.claim()
    bench.job_file(data={"splitArgs": ["--shuffel"]})
    bench.canoe("submit", bench.job)
    said = bench.says(["status", NAME], "job quick-start-data: the data could not be prepared", seconds=240)
    print("    " + next(line for line in said.splitlines() if "could not be prepared" in line).strip()[:230])


FAKE = [
    ("submit, again, changed, replaced, deleted", submit_again),
    ("refused", rejected),
    ("kubeconfigs", kubeconfigs),
    ("being deleted", being_deleted),
    ("what a real server refuses", refuses),
    ("objects of somebody else", not_ours),
    ("a Job of somebody else", foreign),
    ("deleted and submitted again", again_on_the_volume),
    ("rendered, kubectl apply --dry-run=client", client_dry_run),
    ("stuck: image cannot be pulled", stuck({"image": "registry.example/canoe:none"}, with_claim(), "image registry.example/canoe:none cannot be pulled", "the registry does not have it")),
    ("stuck: image without a registry", stuck({"image": "canoe:0.1.0"}, with_claim(), "the name has no registry, so Docker Hub was asked", "kind load docker-image")),
    ("stuck: registry wants a login", stuck({"image": "registry.example/canoe:none"}, with_claim(login), "wants a login", "imagePullSecrets")),
    ("stuck: no room", stuck({"resources": {"cpu": "64", "memory": "1Ti"}}, with_claim(), "no machine has enough free cores", "lower `resources.memory`")),
    ("stuck: no machine with the label", stuck({"nodeSelector": {"pool": "gpu"}}, with_claim(), "no machine has the labels of `nodeSelector`")),
    ("stuck: claim does not exist", stuck({}, lambda bench: None, "its claim does not exist")),
    ("stuck: volume not bound", stuck({"volume": {"storageClass": {"name": "fast", "size": "1Gi"}}}, lambda bench: None, 'there is no storage class "fast"')),
    ("stuck: a storage class for one machine only, as kind has", stuck({"volume": {"storageClass": {"name": "standard", "size": "1Gi"}}}, lambda bench: None, 'storage class "standard" makes volumes for one machine only', "volume.nfs")),
    ("stuck: volume kept for a claim that is gone", stuck({"volume": {"nfs": {"server": "10.0.0.5"}}}, released, "is missing or kept for another claim")),
    ("stuck: machine lost", lost_machine),
    ("stuck: quota", stuck({}, with_claim(quota), "the namespace's quota is used up", "pods=1")),
    ("stuck: pod security lets the Job in but no pod", stuck({}, with_claim(mutating), "the namespace's pod security refuses it", "allowPrivilegeEscalation")),
    ("stuck: service account is missing", stuck({"discovery": "podlist"}, without_account, "its service account is missing")),
    ("an API server that fails", failing_api),
    ("no API server", no_server),
]
REAL = [
    ("submit, upload, split, train, lose a pod, watch, logs, delete", train),
    ("a namespace of its own", new_namespace),
    ("watch --web", web),
    ("wrong configuration", wrong_configuration),
    ("stuck: out of memory, retries used up", out_of_memory),
    ("evicted", evicted),
    ("stuck: the data job fails", data_job_fails),
]


def run(scenarios, make_bench):
    for name, scenario in scenarios:
        if ARGS.only not in name:
            continue
        begun = time.monotonic()
        bench = make_bench()
        try:
            scenario(bench)
        except BaseException:
            for pod in bench.controllers.running.values():
                print(f"--- {pod.name} code {pod.code}\n{pod.log()[-3000:]}")
            raise
        finally:
            bench.close()
        print(f"{name} ({time.monotonic() - begun:.1f} s)", flush=True)


def main():
    # Programs that a shell starts in the background ignore interrupts, and so would those that are started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if ARGS.lane in (None, "placed"):
        # Pods that are only placed have nothing to do with those that run, so both kinds go at the same time.
        beside = None
        if ARGS.lane is None:
            beside = subprocess.Popen([sys.executable, *sys.argv, "--lane=run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            atexit.register(beside.kill)
        run(FAKE + files.FAKE, lambda: Bench(BINARY))
        if beside:
            said = beside.communicate()[0]
            print(said, end="", flush=True)
            sys.exit(beside.returncode)
        return
    reason = why_not()
    if reason:
        print(f"skipped: jobs that really run, because network namespaces are not permitted here ({reason})")
        return
    network = Network()
    atexit.register(network.close)
    run(files.REAL + REAL, lambda: Bench(BINARY, network))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--lane", choices=["placed", "run"], help="only jobs whose pods are placed, or only those whose pods run")
    ARGS = parser.parse_args()
    BINARY = os.path.abspath(ARGS.canoe)
    main()
