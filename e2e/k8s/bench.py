"""A cluster of its own for each scenario: the stand-in API server, a job folder, and `canoe job …` with no kubectl on its PATH."""
import os
import shutil
import subprocess
import tempfile
import time

import yaml

from apiserver import ApiServer
from kubelet import Kubelet
from network import HUB_ADDRESS, inside

NAME = "quick-start"


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Bench:
    """A cluster and a job folder; `canoe` runs the command where there is no kubectl."""

    def __init__(self, binary, network=None):
        self.binary = binary
        self.folder = tempfile.mkdtemp(prefix="canoe-commands-")
        os.chmod(self.folder, 0o755)
        self.network, kubelet, address = network, None, "127.0.0.1"
        listen = lambda make: make()
        if network:
            kubelet, address = Kubelet(network, os.path.join(self.folder, "machines"), self.binary), HUB_ADDRESS

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
        self.programs = os.path.join(self.folder, "programs")
        os.makedirs(self.programs)
        for name in ("ip", "sh"):
            os.symlink(shutil.which(name), os.path.join(self.programs, name))
        expect(shutil.which("kubectl", path=self.programs) is None, "there is a kubectl")
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
        command = [self.binary, "job", *words]
        env = os.environ | {"PATH": self.programs, "KUBECONFIG": self.api.kubeconfig} | more.pop("env", {})
        if self.network:
            command = ["ip", "netns", "exec", self.network.hub] + command
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=env, **more)

    def canoe(self, *words, code=0, seconds=240, **more):
        process = self.start(*words, **more)
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"canoe job {' '.join(words)} hangs: {process.communicate()[0]}") from None
        expect(process.returncode == code, f"canoe job {' '.join(words)} ended with {process.returncode}, not {code}:\n{said}")
        expect("panicked" not in said, said)
        return said

    def says(self, words, *texts, code=0, seconds=240):
        """Repeats the command until it says all of this: controllers take their time."""
        end = time.monotonic() + seconds
        while True:
            process = self.start(*words)
            said = process.communicate(timeout=180)[0]
            if all(text in said for text in texts) and process.returncode == code:
                return said
            if time.monotonic() > end:
                raise AssertionError(f"canoe job {' '.join(words)} ends with {process.returncode} and says\n{said}\nwithout {[text for text in texts if text not in said]}")
            time.sleep(0.3)

    def demo(self, passes):
        """A job folder that trains."""
        shutil.rmtree(self.job)
        made = subprocess.run([self.binary, "demo", "quick_start", self.job, "--train-samples=3600", "--test-samples=100"], capture_output=True, text=True)
        expect(made.returncode == 0, made.stderr)
        self.job_file(config="trainer_config.emb.py", passes=passes, args=["--log_period=1", "--snapshot_period=5", "--peer_timeout=3"])

    def kubectl(self, *words, text=""):
        """The real kubectl itself, with this on its standard input."""
        return subprocess.run(["kubectl", "--kubeconfig", self.api.kubeconfig, *words], input=text, capture_output=True, text=True)

    def close(self):
        self.api.close()
        shutil.rmtree(self.folder, ignore_errors=True)
