"""The Kubernetes that the stand-ins for AWS lack: the API server of e2e/k8s, machines that are Ready, and pods that run.

A pod is a plain process of this machine: its command really runs, with the folders of its claims in the place of its mounts. The
stand-ins name another API server in the outputs of a stack; `named` puts this one there, as it would be after the real `up`.
"""

import base64
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "k8s"))

from apiserver import ApiServer
from store import RESOURCES

SHELL = shutil.which("sh")
PATH = os.environ["PATH"]
# Where nobody listens.
NOWHERE = "https://127.0.0.1:1"
LABELS = {"app.kubernetes.io/managed-by": "canoe"}


class PlainPod:
    """A pod that has been given a machine, as controllers.py sees it."""

    def __init__(self, kubelet, manifest):
        self.kubelet, self.manifest = kubelet, manifest
        self.namespace, self.address = None, "127.0.0.1"
        self.ready, self.code, self.process, self.is_main = False, None, None, True
        self.killed_for_memory, self.is_evicted = False, False
        self.log_path = os.path.join(kubelet.folder, f"{manifest['metadata']['uid']}.log")
        open(self.log_path, "w").close()

    def run(self):
        spec = self.manifest["spec"]
        container = spec["containers"][0]
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes", [])}
        command = container["command"]
        for mount in container.get("volumeMounts", []):
            folder = self.kubelet.claim_folder(claims[mount["name"]])
            command = [word.replace(mount["mountPath"], folder) for word in command]
        assert command[0] == "sh", command
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([SHELL, *command[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, env={"PATH": PATH})
        self.ready = True
        code = self.process.wait()
        self.ready, self.process, self.code = False, None, code

    def first_process(self):
        return self.process.pid if self.process else None

    def signal(self, number):
        if process := self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def remove(self):
        os.unlink(self.log_path)


class PlainKubelet:
    """All machines of the cluster at once. There is one network, so no policy changes anything."""

    class policies:
        @staticmethod
        def keep(_):
            pass

    def __init__(self, folder):
        self.folder = str(folder)

    def claim_folder(self, claim):
        return os.path.join(self.folder, claim)

    def pod(self, manifest, _has_canoe):
        return PlainPod(self, manifest)


class Cluster:
    """A cluster of its own, with more machines than anybody asks for."""

    def __init__(self, folder):
        folder.mkdir()
        self.files = folder / "canoe-files"
        self.api = ApiServer(str(folder), "127.0.0.1", 0, lambda make: make(), PlainKubelet(folder))
        self.store = self.api.store
        self.api.controllers.images["public.ecr.aws/docker/library/busybox:stable"] = False
        self.authority = base64.b64encode(pathlib.Path(self.api.certificate).read_bytes())
        self.here = f"https://127.0.0.1:{self.api.port}"
        self.server = self.here
        self.machines(20)
        self.model("train", 0, 2048)

    def close(self):
        self.api.close()

    def named(self, answer):
        """What AWS says, with the address and the certificate of this API server."""
        for key, value in ((b"Endpoint", self.server.encode()), (b"CertificateAuthority", self.authority)):
            said = rb"(<OutputKey>" + key + rb"</OutputKey>\s*)<OutputValue(?:/>|>[^<]*</OutputValue>)"
            answer = re.sub(said, rb"\1<OutputValue>" + value + b"</OutputValue>", answer)
        return answer

    @contextlib.contextmanager
    def out_of_reach(self):
        """While nobody can connect to it."""
        self.server = NOWHERE
        try:
            yield
        finally:
            self.server = self.here

    def machines(self, count):
        """So many machines that are Ready, and no others."""
        for machine in self.store.list("nodes")[0]:
            self.store.put("nodes", machine, "DELETED")
        for number in range(count):
            ready = [{"type": "Ready", "status": "True"}]
            self.store.create("nodes", {"metadata": {"name": f"machine-{number}"}, "spec": {}, "status": {"conditions": ready}})

    def model(self, job, number, kib):
        """A pass directory on the volume."""
        folder = self.files / job / "output" / f"pass-{number:05}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "values").write_bytes(os.urandom(kib * 1024 - 8192))

    def job(self, name, nodes, script):
        """A job of ours whose nodes run a script; returns when all of them do."""
        container = {"name": "node", "image": "canoe:test", "command": ["sh", "-c", script]}
        template = {"metadata": {"labels": dict(LABELS)}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed", "template": template}
        self.store.create("jobs", {"metadata": {"name": name, "namespace": "default", "labels": LABELS}, "spec": spec})
        self.until(lambda: sum(pod["status"]["phase"] == "Running" for pod in self.pods(name)) == nodes)

    def pods(self, job):
        return self.store.list("pods", "default", f"batch.kubernetes.io/job-name={job}")[0]

    def started(self, job, seconds):
        """The pods of a job say that they were started so long ago."""
        begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
        for pod in self.pods(job):
            self.store.update("pods", "default", pod["metadata"]["name"], lambda fresh: fresh["status"].update(startTime=begun))

    def remove_job(self, name):
        self.store.update("jobs", "default", name, lambda fresh: fresh["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
        self.until(lambda: self.store.find("jobs", "default", name) is None)

    @staticmethod
    def until(holds):
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, "waited for a minute"
            time.sleep(0.1)

    def has(self, plural, name):
        return self.store.find(plural, "default" if RESOURCES[plural][2] else "", name) is not None

    def taken_down(self):
        """The cluster of AWS has gone, and with it all that was in this one."""
        for pod in list(self.api.controllers.running.values()):
            pod.signal(signal.SIGKILL)
        for plural in RESOURCES:
            if plural not in ("namespaces", "nodes", "serviceaccounts"):
                for thing in self.store.list(plural)[0]:
                    self.store.put(plural, thing, "DELETED")
