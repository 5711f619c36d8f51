"""`canoe node` with bad input: each a clear message, bounded waiting, the right exit code. And `podlist` against kmock, an API
server that is not ours (behind TLS of our own, because a node talks to nobody else).

Usage: node_inputs.py --canoe PATH       needs no root; kmock from PyPI
"""
import argparse
import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import kmock

import certificate

NAMES = "JOB_NAME JOB_PATH TRAIN_CONFIG_DIR CONF_PADDLE_PORT CONF_PADDLE_PORTS_NUM CONF_PADDLE_PORTS_NUM_SPARSE CONF_PADDLE_GRADIENT_NUM"


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Pod:
    """A volume, an account and the variables of a pod on this machine's own address."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="canoe-node-")
        path = lambda *parts: os.path.join(self.folder, *parts)
        os.makedirs(path("volume", "job", "conf"))
        os.makedirs(path("volume", "job", "0", "data"))
        self.write("volume/job/conf/trainer_config.py", "settings(batch_size=1)\n")
        self.write("volume/job/0/data/train.txt", "1\n")
        self.write("secret/token", "0123456789abcdef")
        self.variables = {
            "PATH": os.environ["PATH"], "JOB_NAME": "job", "JOB_PATH": path("volume"), "JOB_NAMESPACE": "default", "TRAIN_CONFIG_DIR": "conf",
            "CONF_PADDLE_NIC": "lo", "CONF_PADDLE_PORT": "17164", "CONF_PADDLE_PORTS_NUM": "1", "CONF_PADDLE_PORTS_NUM_SPARSE": "1",
            "CONF_PADDLE_GRADIENT_NUM": "1", "CANOE_SECRET_DIR": path("secret"), "CANOE_WORK_DIR": path("work"), "POD_IP": "127.0.0.1",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": "1",
        }

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def run(self, *flags, **variables):
        """Exit code and words; None for a variable takes it away."""
        environment = {name: value for name, value in (self.variables | variables).items() if value is not None}
        command = [BINARY, "node", "--health_port=0", "--patience=2", f"--account_dir={self.folder}/account", *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        expect("panicked" not in done.stderr, done.stderr)
        return done.returncode, done.stdout + done.stderr


def check(name, outcome, code, *texts):
    got, said = outcome
    expect(got == code, f"{name}: ended with {got}, not {code}:\n{said}")
    for text in texts:
        expect(text in said, f"{name}: {text!r} is not in\n{said}")
    print(f"{name}: {code}\n    {said.strip().splitlines()[-1][:230]}", flush=True)


class Tls:
    """Passes connections on to a server without TLS, or does something bad to them."""

    def __init__(self, folder, port, bad=None):
        os.makedirs(os.path.join(folder, "account"), exist_ok=True)
        key, authority = certificate.make(os.path.join(folder, "account"), "127.0.0.1")
        with open(os.path.join(folder, "account", "token"), "w") as file:
            file.write("token")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(authority, key)
        self.target, self.bad = port, bad
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        try:
            stream = self.context.wrap_socket(connection, server_side=True)
            request = b""
            while b"\r\n\r\n" not in request:
                request += stream.recv(65536)
            if self.bad == "hangs":
                return time.sleep(60)
            if self.bad == "closes":
                return stream.close()
            if self.bad:
                code, reason = self.bad.split(" ", 1)
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": int(code), "reason": reason.replace(" ", ""), "message": reason}
                body = json.dumps(status)
                head = f"HTTP/1.1 {self.bad}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                stream.sendall((head + body).encode())
                return stream.close()
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                server.sendall(request)
                while data := server.recv(65536):
                    stream.sendall(data)
            stream.close()
        except (OSError, ssl.SSLError):
            pass


def kmock_with(pods):
    """A server of kmock that knows these pods; its port."""
    ports = []

    async def serve():
        async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator) as server:
            emulator.resources["v1/pods"] = {}
            for name, phase, address in pods:
                emulator.objects["v1/pods", "default", name] = {"metadata": {"name": name}, "status": {"phase": phase, "podIP": address}}
            ports.append(server.port)
            await asyncio.sleep(3600)

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    while not ports:
        time.sleep(0.02)
    return ports[0]


def main():
    pod = Pod()
    index = {"JOB_COMPLETION_INDEX": "0"}
    check("no variables", pod.run(**dict.fromkeys(pod.variables)), 64, *[f"{name} is not set" for name in NAMES.split()])
    check("wrong numbers", pod.run(CONF_PADDLE_PORT="x", CONF_PADDLE_GRADIENT_NUM="0", **index), 64, 'CONF_PADDLE_PORT is "x"', 'CONF_PADDLE_GRADIENT_NUM is "0"')
    check("a wrong flag", pod.run("--discovery=magic"), 64, "indexed or podlist is expected")
    check("a count that never comes", pod.run(CONF_PADDLE_GRADIENT_NUM="2", **index), 75, "waited 2 s for the names of all nodes")
    check("no token", pod.run(CANOE_SECRET_DIR="/nowhere", **index), 75, "read the job's token /nowhere/token")

    # The names of an Indexed Job cannot be had without a name server: podlist with one pod, this one, gets further.
    proxy = Tls(pod.folder, kmock_with([("one", "Running", "127.0.0.1"), ("old", "Failed", "10.0.0.9"), ("done", "Succeeded", "10.0.0.8")]))
    podlist = {"KUBERNETES_SERVICE_PORT_HTTPS": str(proxy.port)}
    volume = os.path.join(pod.folder, "volume", "job")
    os.rename(f"{volume}/0", f"{volume}/none")
    check("podlist with kmock, and a shard missing", pod.run("--discovery=podlist", **podlist), 75, "node 0 of 1: 127.0.0.1", "waited 2 s for the data shard of this node: neither")
    os.rename(f"{volume}/none", f"{volume}/0")
    os.rename(f"{volume}/conf/trainer_config.py", f"{volume}/conf/notes.txt")
    check("a configuration folder without configuration", pod.run("--discovery=podlist", **podlist), 78, "find the configuration")
    os.rename(f"{volume}/conf/notes.txt", f"{volume}/conf/trainer_config.py")
    three = Tls(pod.folder, kmock_with([("one", "Running", "127.0.0.1"), ("two", "Running", "127.0.0.2"), ("three", "Pending", None)]))
    port = {"KUBERNETES_SERVICE_PORT_HTTPS": str(three.port), "CONF_PADDLE_GRADIENT_NUM": "3"}
    check("podlist with kmock, one pending", pod.run("--discovery=podlist", **port), 75, "2 of 3 pods are running; three is Pending")

    for bad, code, text in (
        ("403 Forbidden", 78, "may not list pods in namespace default (403); it needs a Role with verb list on pods"),
        ("401 Unauthorized", 78, "does not accept this pod's token"),
        ("500 Internal Server Error", 75, "the API server returned 500"),
        ("429 Too Many Requests", 75, "the API server is busy (429)"),
        ("closes", 75, "cannot be reached"),
        ("hangs", 75, "has not responded within 10 s"),
    ):
        server = Tls(pod.folder, 0, bad)
        check(f"an API server: {bad}", pod.run("--discovery=podlist", KUBERNETES_SERVICE_PORT_HTTPS=str(server.port)), code, text)
    shutil.rmtree(os.path.join(pod.folder, "account"))
    check("no service account", pod.run("--discovery=podlist"), 78, "podlist needs a service account")

    proxy = Tls(pod.folder, kmock_with([("one", "Running", "127.0.0.1")]))
    podlist = {"KUBERNETES_SERVICE_PORT_HTTPS": str(proxy.port)}
    os.rename(os.path.join(pod.folder, "volume"), os.path.join(pod.folder, "elsewhere"))
    pod.write("volume", "not a folder")
    check("an unreadable volume", pod.run("--discovery=podlist", **podlist), 75, "volume")
    os.remove(os.path.join(pod.folder, "volume"))
    os.rename(os.path.join(pod.folder, "elsewhere"), os.path.join(pod.folder, "volume"))
    work = os.path.join(pod.folder, "work")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", work], capture_output=True).returncode == 0:
        try:
            pod.write("volume/job/0/data/train.txt", "x" * 1_000_000)
            check("no space", pod.run("--discovery=podlist", **podlist), 75, "the local disk is full: raise `resources.disk`")
        finally:
            subprocess.run(["umount", work], check=True)
    else:
        print("skipped: no space (mounting is not permitted here)")
    shutil.rmtree(pod.folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    BINARY = os.path.abspath(parser.parse_args().canoe)
    main()
