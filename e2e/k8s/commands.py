"""`canoe job …` with the real kubectl against the stand-in API server: every sentence that a user reads.

Without namespaces, pods are only placed, not run; with them (root), a job is submitted, trains, is looked at, and is deleted.
Usage: commands.py --canoe PATH [--only WORD]      kubectl is taken from PATH
"""
import argparse
import atexit
import copy
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

from apiserver import ApiServer
from kubelet import Kubelet
from network import HUB_ADDRESS, Network, inside, why_not

NAME = "quick-start"


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Bench:
    """A cluster and a job folder; `canoe` runs the command with the real kubectl."""

    def __init__(self, network=None):
        self.folder = tempfile.mkdtemp(prefix="canoe-commands-")
        os.chmod(self.folder, 0o755)
        self.network, kubelet, address = network, None, "127.0.0.1"
        listen = lambda make: make()
        if network:
            kubelet, address = Kubelet(network, os.path.join(self.folder, "machines"), BINARY), HUB_ADDRESS

            def listen(make):
                with inside(network.hub):
                    return make()

        # Where policies of `podlist` expect it.
        self.api = ApiServer(self.folder, address, 6443 if network else 0, listen, kubelet)
        self.store, self.controllers = self.api.store, self.api.controllers
        if kubelet:
            kubelet.api_port = self.api.port
            kubelet.account_folder = os.path.join(self.folder, "account")
            os.makedirs(kubelet.account_folder)
            shutil.copy(self.api.certificate, os.path.join(kubelet.account_folder, "ca.crt"))
            with open(os.path.join(kubelet.account_folder, "token"), "w") as file:
                file.write("tester")
        self.kubelet = kubelet
        self.job = os.path.join(self.folder, "job")
        os.makedirs(os.path.join(self.job, "quick_start"))
        with open(os.path.join(self.job, "quick_start", "trainer_config.py"), "w") as file:
            file.write("settings(batch_size=128)\n")

    def job_file(self, **settings):
        content = {"name": NAME, "image": "canoe:test", "volume": {"claim": {"name": "canoe-files"}}} | settings
        with open(os.path.join(self.job, "job.yaml"), "w") as file:
            yaml.safe_dump(content, file)

    def claim(self):
        """What `canoe cluster up` installs."""
        self.store.create("persistentvolumes", {"metadata": {"name": "canoe-demo-files"}, "spec": {"claimRef": {"name": "canoe-files", "namespace": "default"}}})
        self.store.create("persistentvolumeclaims", {"metadata": {"name": "canoe-files", "namespace": "default"}, "spec": {"volumeName": "canoe-demo-files", "storageClassName": "", "accessModes": ["ReadWriteMany"]}})

    def start(self, *words, **more):
        command = [BINARY, "job", *words, "--kubeconfig", self.api.kubeconfig]
        if self.network:
            command = ["ip", "netns", "exec", self.network.hub] + command
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, **more)

    def canoe(self, *words, code=0, seconds=60):
        process = self.start(*words)
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"canoe job {' '.join(words)} hangs: {process.communicate()[0]}") from None
        expect(process.returncode == code, f"canoe job {' '.join(words)} ended with {process.returncode}, not {code}:\n{said}")
        expect("panicked" not in said, said)
        return said

    def says(self, words, *texts, code=0, seconds=20):
        """Repeats the command until it says all of this: controllers take their time."""
        end = time.monotonic() + seconds
        while True:
            process = self.start(*words)
            said = process.communicate(timeout=60)[0]
            if all(text in said for text in texts) and process.returncode == code:
                return said
            if time.monotonic() > end:
                raise AssertionError(f"canoe job {' '.join(words)} ends with {process.returncode} and says\n{said}\nwithout {[text for text in texts if text not in said]}")
            time.sleep(0.3)

    def close(self):
        self.api.close()
        shutil.rmtree(self.folder, ignore_errors=True)


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
    expect("the same job is there already" in bench.canoe("submit", bench.job), "no word of the same job")
    bench.job_file(nodes=5, resources={"memory": "3Gi"})
    said = bench.canoe("submit", bench.job, code=1)
    for text in ("Job quick-start.spec.completions: 3 is there, 5 is wanted", 'resources.limits.memory: "2Gi" is there, "3Gi" is wanted', "--replace"):
        expect(text in said, said)
    bench.canoe("submit", bench.job, "--replace")
    expect(bench.store.get("jobs", "default", NAME)["spec"]["completions"] == 5, "it was not replaced")
    said = bench.canoe("delete", NAME, code=1)
    expect("everything but the volume" in said and "--yes" in said, said)
    said = bench.canoe("delete", NAME, "--yes")
    expect('job.batch "quick-start" deleted' in said, said)
    left = sorted(f"{kind} {name}" for kind, _, name in bench.store.objects if kind not in ("events", "namespaces", "serviceaccounts"))
    expect(left == ["persistentvolumeclaims canoe-files", "persistentvolumes canoe-demo-files"], f"left: {left}")
    said = bench.canoe("status", NAME, code=3)
    expect("there is no such job" in said, said)


def rejected(bench):
    """What a server refuses is passed on in its words; nothing of ours is left half done without a word."""
    bench.job_file(namespace="nowhere", volume={"claim": {"name": "files"}})
    said = bench.canoe("submit", bench.job, code=1)
    expect('namespaces "nowhere" not found' in said, said)
    bench.job_file(name="Bad_Name")
    said = bench.canoe("submit", bench.job, code=1)
    expect('name: "Bad_Name" must be at most 52 lower-case letters' in said, said)
    os.remove(os.path.join(bench.job, "quick_start", "trainer_config.py"))
    bench.job_file()
    said = bench.canoe("submit", bench.job, code=1)
    expect("find the configuration in" in said, said)


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
    said = bench.says(["status", NAME], "is on machine worker-2, which does not answer", "kubectl delete node worker-2", "out-of-service")
    print("    " + next(line for line in said.splitlines() if "worker-2" in line).strip()[:230])


def not_ours(bench):
    """Objects that somebody else has applied under the job's names are not overwritten."""
    bench.claim()
    bench.job_file()
    made = bench.canoe("render", bench.job)
    applied = subprocess.run(["kubectl", "--kubeconfig", bench.api.kubeconfig, "apply", "--server-side", "-f", "-"], input=made, capture_output=True, text=True)
    expect(applied.returncode == 0, applied.stderr)
    gone = subprocess.run(["kubectl", "--kubeconfig", bench.api.kubeconfig, "delete", "job", NAME], capture_output=True, text=True)
    expect(gone.returncode == 0, gone.stderr)
    token = bench.store.get("secrets", "default", NAME)["data"]["token"]
    said = bench.canoe("submit", bench.job, code=1)
    for text in ("made or changed by somebody else", '"kubectl"', ".data.token", "choose another name"):
        expect(text in said, said)
    expect("force-conflicts" not in said, said)
    expect(bench.store.get("secrets", "default", NAME)["data"]["token"] == token, "the token was overwritten")
    bench.canoe("delete", NAME, "--yes")
    bench.canoe("submit", bench.job)


def again_on_the_volume(bench):
    """Deleted and submitted again: the volume and its claim have stayed, and are bound."""
    bench.job_file(volume={"nfs": {"server": "10.0.0.5"}})
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 10
    while bench.store.get("persistentvolumes", "", f"default.{NAME}-volume")["spec"]["claimRef"].get("uid") is None:
        expect(time.monotonic() < end, "the claim is not bound")
        time.sleep(0.1)
    bench.canoe("delete", NAME, "--yes")
    said = bench.canoe("submit", bench.job)
    expect(f"persistentvolume/default.{NAME}-volume serverside-applied" in said, said)
    expect(bench.store.get("persistentvolumes", "", f"default.{NAME}-volume")["spec"]["claimRef"].get("uid"), "the binding is lost")


def refuses(bench):
    """What a real server refuses, this one refuses: otherwise its consent means nothing."""
    bench.store.create("namespaces", {"metadata": {"name": "team", "labels": {}}})
    bench.job_file(namespace="team", discovery="podlist", volume={"nfs": {"server": "10.0.0.5"}}, metrics={"from": ["*"]})
    documents = list(yaml.safe_load_all(bench.canoe("render", bench.job)))
    rules = lambda it: it["spec"]["podFailurePolicy"]["rules"]
    node = lambda it: it["spec"]["template"]["spec"]["containers"][0]
    spec = lambda it: it["spec"]["template"]["spec"]
    faults = [
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(values=[78, 64]), "must be ordered"),
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(values=[0, 64]), "must not be 0"),
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(containerName="trainer"), "containerName"),
        ("Job", lambda it: rules(it)[0].update(action="FailIndex"), "Unsupported value"),
        ("Job", lambda it: spec(it).update(restartPolicy="OnFailure"), 'only "Never" is supported'),
        ("Job", lambda it: it["spec"].update(podReplacementPolicy="TerminatingOrFailed"), "podReplacementPolicy"),
        ("Job", lambda it: it["spec"].pop("completions"), "when completion mode is Indexed"),
        ("Job", lambda it: it["spec"].update(selector={"matchLabels": {"a": "b"}}), "auto-generated"),
        ("Job", lambda it: it["metadata"].update(name="x" * 62), "63 characters"),
        ("Job", lambda it: it["spec"]["template"]["metadata"]["labels"].update({"batch.kubernetes.io/job-name": "other"}), "job-name"),
        ("Job", lambda it: node(it)["ports"][0].update(name="parameter-server-0"), "15 characters"),
        ("Job", lambda it: node(it)["ports"][1].update(name=node(it)["ports"][0]["name"]), "Duplicate value"),
        ("Job", lambda it: node(it)["volumeMounts"][0].update(name="nothing"), "Not found"),
        ("Job", lambda it: node(it)["resources"]["requests"].update(memory="64Gi"), "less than or equal to memory limit"),
        ("Job", lambda it: node(it)["resources"]["limits"].update(memory="4GB"), "quantities must match"),
        ("Job", lambda it: node(it).update(image=" canoe:test"), "whitespace"),
        ("Job", lambda it: spec(it).update(tolerations=[{"operator": "Exists", "key": "a", "value": "b"}]), "value must be empty"),
        ("Job", lambda it: spec(it).update(subdomain="a.b"), "subdomain"),
        ("Job", lambda it: spec(it)["securityContext"].update(fsGroupe=1), "fsGroupe"),
        ("ConfigMap", lambda it: it["data"].update({"lib/a.py": "x"}), "a valid config key"),
        ("ConfigMap", lambda it: it["data"].update({"a.py": "x" * (1 << 20)}), "at most 1048576 bytes"),
        ("Service", lambda it: it["metadata"].update(name="1st"), "metadata.name"),
        ("Service", lambda it: it["spec"]["ports"][0].pop("name"), "Required value"),
        ("PersistentVolume", lambda it: it["spec"].update(csi={"driver": "a", "volumeHandle": "b"}), "more than 1 volume type"),
        ("PersistentVolume", lambda it: it["spec"]["nfs"].update(path="export"), "absolute path"),
        ("PersistentVolumeClaim", lambda it: it["spec"].update(accessModes=[]), "access mode"),
        ("NetworkPolicy", lambda it: it["spec"]["ingress"][0]["ports"][0].update(port=70000), "between 1 and 65535"),
        ("PodDisruptionBudget", lambda it: it["spec"].update(maxUnavailable=1), "cannot be both set"),
        ("Role", lambda it: it["rules"][0].update(verb=["list"]), "verb"),
    ]
    for kind, spoil, words in faults:
        thing = copy.deepcopy(next(thing for thing in documents if thing["kind"] == kind and not thing["metadata"]["name"].endswith("-data")))
        spoil(thing)
        applied = subprocess.run(["kubectl", "--kubeconfig", bench.api.kubeconfig, "apply", "--server-side", "--dry-run=server", "-f", "-"], input=yaml.safe_dump(thing), capture_output=True, text=True)
        expect(applied.returncode != 0 and words in applied.stderr, f"{kind}: {words!r} is not in {applied.stderr!r}")
    print(f"    {len(faults)} faults, each refused")


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
    expect("etcd has no leader" in said and "kubectl get job" in said, said)
    faults.clear()
    faults.add("GET /apis/batch/v1/.*jobs/", code=429, retry_after=1, times=2, message="too many requests")
    begun = time.monotonic()
    said = bench.canoe("status", NAME, code=3)
    expect(time.monotonic() - begun >= 2, f"Retry-After was not heeded: {said}")
    faults.clear()
    faults.add("GET /apis/batch/v1/.*jobs/", hang=30)
    begun = time.monotonic()
    said = bench.canoe("--request-timeout=2", "status", NAME, code=1, seconds=25)
    expect(time.monotonic() - begun < 20 and re.search("[Tt]imeout|deadline", said), said)
    faults.clear()
    faults.add("PATCH", code=403, message='jobs.batch is forbidden: User "tester" cannot patch resource "jobs"')
    said = bench.canoe("submit", bench.job, code=1)
    expect('User "tester" cannot patch resource' in said, said)
    faults.clear()
    bench.canoe("submit", bench.job)
    faults.add("GET /api/v1/.*events", code=403, message='events is forbidden: User "tester" cannot list resource "events"')
    bench.says(["status", NAME], "3 nodes: ")
    faults.clear()
    faults.close_watches_after = 0.2
    bench.canoe("delete", NAME, "--yes", seconds=30)
    faults.clear()
    faults.add("GET", code=401, message="Unauthorized")
    said = bench.canoe("status", NAME, code=1)
    expect("logged in" in said or "Unauthorized" in said, said)


def no_server(bench):
    bench.job_file()
    bench.api.server.shutdown()
    bench.api.server.server_close()
    said = bench.canoe("--request-timeout=2", "status", NAME, code=1, seconds=40)
    expect("refused" in said, said)


def demo(bench, passes):
    shutil.rmtree(bench.job)
    made = subprocess.run([BINARY, "demo", "quick_start", bench.job, "--train-samples=3600", "--test-samples=100"], capture_output=True, text=True)
    expect(made.returncode == 0, made.stderr)
    bench.job_file(config="trainer_config.emb.py", passes=passes, args=["--log_period=1", "--snapshot_period=5", "--peer_timeout=3"])


def client_dry_run(bench):
    """Every kind of job that can be rendered is accepted by `kubectl apply --dry-run=client`, object by object."""
    demo(bench, 2)
    nfs, claim = {"nfs": {"server": "10.0.0.5", "path": "/export"}}, {"claim": {"name": "canoe-files"}}
    kinds = {
        "indexed": {}, "podlist": {"discovery": "podlist"}, "nfs": {"volume": nfs}, "claim": {"volume": claim},
        "efs": {"volume": {"efs": {"fileSystem": "fs-1"}}}, "storage class": {"volume": {"storageClass": {"name": "shared", "size": "1Gi"}}},
        "without tls and policy": {"tls": False, "networkPolicy": False}, "metrics": {"metrics": {"from": ["monitoring"]}},
        "everything": {"discovery": "podlist", "volume": nfs, "data": {"url": "https://example.com/x.tgz"}, "namespace": "team", "createNamespace": True, "spot": True,
                       "tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"pool": "a"}, "deadlineSeconds": 600, "configFrom": "configMap"},
        "tutorial": {},
    }
    for kind, settings in kinds.items():
        bench.job_file(config="trainer_config.emb.py", **settings)
        flags = ["--v1"] if kind == "tutorial" else []
        made = subprocess.run([BINARY, "job", "render", bench.job, *flags], capture_output=True, text=True)
        expect(made.returncode == 0, made.stderr)
        objects = [f"{thing['kind'].lower()} {thing['metadata']['name']}" for thing in yaml.safe_load_all(made.stdout) if thing]
        for way in (["--dry-run=client"], ["--dry-run=server", "--server-side"]):
            if way[0].endswith("server") and settings.get("createNamespace"):
                # A namespace that is not there cannot take objects, not even for a try; submit says so too.
                bench.store.create("namespaces", {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}})
            applied = subprocess.run(["kubectl", "--kubeconfig", bench.api.kubeconfig, "apply", *way, "-f", "-"], input=made.stdout, capture_output=True, text=True)
            expect(applied.returncode == 0 and "Warning" not in applied.stderr, f"{kind}, {way}: {applied.stdout}{applied.stderr}")
            told = re.findall(r"^(\w+)[.\w]*/(\S+) (?:created|serverside-applied) \((?:server )?dry run\)$", applied.stdout, re.M)
            expect([f"{a} {b}" for a, b in told] == objects, f"{kind}: {applied.stdout}\n{objects}")
        print(f"    {kind}: {len(objects)} objects")
    bench.job_file(config="trainer_config.emb.py")
    faulty = bench.canoe("render", bench.job).replace("completionMode", "completionMod")
    applied = subprocess.run(["kubectl", "--kubeconfig", bench.api.kubeconfig, "apply", "--dry-run=server", "--server-side", "-f", "-"], input=faulty, capture_output=True, text=True)
    expect(applied.returncode != 0 and "completionMod" in applied.stderr, f"a misspelt field was not found: {applied.stderr}")


def web(bench):
    """The page of the job on this machine, over both ways that kubectl has, also after the pod behind it is gone."""
    bench.claim()
    demo(bench, 400)
    bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"))
    bench.says(["status", NAME], "3 nodes: 3 ready", seconds=60)
    for port, way in ((7391, {}), (7392, {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"})):
        watcher = bench.start("watch", NAME, "--web", f"--port={port}", env=os.environ | way)
        try:
            for turn in ("first", "after the pod is gone"):
                page = read_page(bench, port, "/", b"<title>canoe")
                expect(b"<html" in page.lower(), page[:500])
                metrics = read_page(bench, port, "/metrics", b"canoe_job_nodes")
                expect(b"canoe_job_nodes" in metrics, metrics[:500])
                if turn == "first":
                    pods = [request for request in bench.api.requests if "/portforward" in request]
                    name = re.search(r"pods/([^/]+)/portforward", pods[-1])[1]
                    bench.controllers.delete_pod(bench.store.get("pods", "default", name))
                    end = time.monotonic() + 30
                    while bench.store.find("pods", "default", name):
                        expect(time.monotonic() < end, f"{name} does not go")
                        time.sleep(0.1)
        finally:
            os.killpg(watcher.pid, signal.SIGINT)
            said = watcher.communicate(timeout=20)[0]
        expect(f"watch it at http://127.0.0.1:{port}/" in said, said)
        used = {request.split()[0] for request in bench.api.requests if "/portforward" in request}
        print(f"    port {port}: {', '.join(sorted(used))} …/portforward; {said.splitlines()[0]}")
    bench.canoe("delete", NAME, "--yes")
    said = bench.canoe("watch", NAME, "--web", code=1)
    expect("there is no such job" in said, said)


def read_page(bench, port, path, wanted, seconds=40):
    """What a browser on the machine of the user gets, as soon as it gets it."""
    end = time.monotonic() + seconds
    while True:
        try:
            with inside(bench.network.hub):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
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
    demo(bench, 40)
    said = bench.canoe("submit", bench.job, "--data", os.path.join(bench.job, "data"))
    expect("is on the volume, in quick-start/data" in said and "all checked" in said, said)
    follower = bench.start("logs", NAME, "--follow")
    said = bench.says(["status", NAME], "3 nodes: 3 ready", "running", seconds=60)
    end = time.monotonic() + 30
    while not re.search(r"^ +0 +quick-start-0-\w+ +running +\d+ +\d+ +0\.\d+ +[\d,]+ ", said, re.M):
        expect(time.monotonic() < end, f"no pass, batch, cost and speed of node 0:\n{said}")
        said = bench.canoe("status", NAME)
    print("    " + "\n    ".join(said.splitlines()))
    pods = bench.store.list("pods", "default", f"batch.kubernetes.io/job-name={NAME}")[0]
    bench.controllers.delete_pod(pods[1])
    said = bench.canoe("watch", NAME, seconds=120)
    print("    " + "\n    ".join(line for line in said.splitlines() if "nodes:" in line))
    expect("3 nodes: 0 ready, 0 starting, 3 finished" in said, said)
    job = bench.store.get("jobs", "default", NAME)
    expect(job["status"]["failed"] == 0, f"the lost pod used up a retry: {job['status']}")
    heard = follower.communicate(timeout=30)[0]
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
    bench.canoe("delete", NAME, "-n", "team", "--yes")
    # What an upload left that was interrupted: another image.
    left = {"metadata": {"name": f"{NAME}-upload", "namespace": "team", "labels": {}}, "spec": {"containers": [{"name": "upload", "image": "canoe:old"}]}}
    bench.store.create("pods", left)
    said = bench.canoe("submit", bench.job, "--data", data)
    expect("3 files" in said and "all checked" in said, said)
    bench.canoe("delete", NAME, "-n", "team", "--yes")


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
    said = bench.canoe("submit", bench.job, "--wait", code=3, seconds=60)
    expect("the job failed at once, because a new pod would fail the same way" in said, said)
    expect("nothing_of_that_name" in said, said)
    print("    " + next(line for line in said.splitlines() if "at once" in line).strip()[:230])


def out_of_memory(bench):
    bench.claim()
    bench.job_file(retries=0)
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 30
    while len(bench.controllers.running) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    pod = next(iter(bench.controllers.running.values()))
    pod.killed_for_memory = True
    while pod.first_process() is None:
        time.sleep(0.05)
    pod.signal(signal.SIGKILL)
    said = bench.says(["status", NAME], "used more memory than `resources.memory` allows", "failed more than 0 times", code=3)
    print("    " + next(line for line in said.splitlines() if "memory" in line).strip()[:200])


def evicted(bench):
    """A pod that a drain takes away comes back under its id, and no retry is used."""
    bench.claim()
    bench.job_file(retries=0)
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 30
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
    said = bench.says(["status", NAME], "job quick-start-data: the data could not be prepared", seconds=60)
    print("    " + next(line for line in said.splitlines() if "could not be prepared" in line).strip()[:230])


FAKE = [
    ("submit, again, changed, replaced, deleted", submit_again),
    ("refused", rejected),
    ("what a real server refuses", refuses),
    ("objects of somebody else", not_ours),
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run(FAKE, Bench)
    reason = why_not()
    if reason:
        print(f"skipped: jobs that really run, because network namespaces are not permitted here ({reason})")
        return
    network = Network()
    atexit.register(network.close)
    run(REAL, lambda: Bench(network))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    parser.add_argument("--only", default="")
    ARGS = parser.parse_args()
    BINARY = os.path.abspath(ARGS.canoe)
    main()
