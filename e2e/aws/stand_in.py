#!/usr/bin/env python3
"""The whole way against ministack, a stand-in for AWS: init, validate, up, status, scale, down.

    stand_in.py --canoe target/debug/canoe --ministack path/to/ministack

ministack (pip install ministack) is started on loopback. Between the steps an independent client (the aws
command line) looks at what exists; after `down` it must find nothing. A small proxy in front makes faults:
throttling, 500, expired credentials, a connection that breaks in the middle. Credentials are made up for the
run, and every output and file is searched for the secret.
"""

import argparse
import base64
import http.client
import http.server
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
import time

REGION = "us-west-2"
SECRET = secrets.token_hex(20)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on; every `every`-th one meets the fault instead."""

    target = 0
    fault = None
    every = 0
    count = 0
    hits = 0
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        cls = type(self)
        cls.count += 1
        if cls.fault and cls.every and cls.count % cls.every == 0:
            cls.hits += 1
            return self.misbehave(cls.fault)
        upstream = http.client.HTTPConnection("127.0.0.1", cls.target, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection",)}
        upstream.request(self.command, self.path, body, headers)
        response = upstream.getresponse()
        self.answer(response.status, response.read(), response.getheader("content-type", "text/xml"))
        upstream.close()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one

    def answer(self, status, data, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def misbehave(self, fault):
        if fault == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, code = {"throttle": (400, "Throttling"), "error": (500, "InternalFailure"), "expired": (403, "ExpiredToken")}[fault]
        text = f"<ErrorResponse><Error><Code>{code}</Code><Message>made up</Message></Error></ErrorResponse>"
        self.answer(status, text.encode(), "text/xml")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Clients that go away in the middle are part of the test."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Place:
    """One cluster folder, the program, and the way to AWS."""

    def __init__(self, canoe, directory, port):
        self.canoe, self.directory = canoe, directory
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(directory), "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.said = []

    def run(self, *arguments, ok=True):
        command = [self.canoe, "cluster", "--dir", str(self.directory / "cluster"), *arguments]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        text = result.stdout + result.stderr
        self.said.append(text)
        assert ok is None or (result.returncode == 0) == ok, f"{' '.join(arguments)} ended with {result.returncode}:\n{text}"
        return text if ok is not None else (result.returncode, text)

    def aws(self, port, *arguments):
        environment = dict(self.environment, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        result = subprocess.run(["aws", *arguments, "--output", "json"], env=environment, capture_output=True, text=True, check=True)
        return json.loads(result.stdout or "null")


def inventory(place, port):
    """What an independent client finds of the cluster."""
    found = []
    stacks = place.aws(port, "cloudformation", "describe-stacks")["Stacks"]
    found += [s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"]
    tag = "Name=tag:canoe:cluster,Values=demo"
    found += [v["VpcId"] for v in place.aws(port, "ec2", "describe-vpcs", "--filters", tag)["Vpcs"]]
    found += [s["SubnetId"] for s in place.aws(port, "ec2", "describe-subnets", "--filters", tag)["Subnets"]]
    found += [g["GroupId"] for g in place.aws(port, "ec2", "describe-security-groups", "--filters", tag)["SecurityGroups"]]
    found += place.aws(port, "eks", "list-clusters")["clusters"]
    found += [f["FileSystemId"] for f in place.aws(port, "efs", "describe-file-systems")["FileSystems"]]
    found += [r["RoleName"] for r in place.aws(port, "iam", "list-roles")["Roles"] if r["RoleName"].startswith("demo-")]
    found += [g["logGroupName"] for g in place.aws(port, "logs", "describe-log-groups")["logGroups"]]
    found += [b["Name"] for b in place.aws(port, "s3api", "list-buckets")["Buckets"]]
    for key in place.aws(port, "kms", "list-keys")["Keys"]:
        state = place.aws(port, "kms", "describe-key", "--key-id", key["KeyId"])["KeyMetadata"]["KeyState"]
        if state != "PendingDeletion":
            found.append(key["KeyId"])
    return sorted(found)


def good_way(place, port):
    place.run("init", "demo", "--region", REGION, "--egress", "public", "--addons", "none", "--allow", "203.0.113.7/32")
    place.run("init", "demo", "--region", REGION, ok=False)
    place.run("validate", "--offline")
    text = place.run("validate", ok=None)[1]
    assert "credentials: account" in text and "USD an hour" in text, text
    assert "cloudformation:CreateChangeSet" in place.run("policy")
    text = place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    assert "Vpc" in text and "3 stack(s) changed" in text, text
    assert "nothing to change" in place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    listed = inventory(place, port)
    assert {"demo-base", "demo-cluster", "demo-storage", "demo"} <= set(listed), listed
    status = json.loads(place.run("status", "--output", "json"))
    assert status["endpoint"] and status["file_system"] in listed, status
    place.run("scale", "--workers", "5", "--yes", "--poll", "0.2")
    name = place.aws(port, "eks", "list-nodegroups", "--cluster-name", "demo")["nodegroups"][0]
    group = place.aws(port, "eks", "describe-nodegroup", "--cluster-name", "demo", "--nodegroup-name", name)
    assert group["nodegroup"]["scalingConfig"]["desiredSize"] == 5, group
    place.run("scale", "--workers", "99", "--yes", ok=False)
    assert "count: 5" in (place.directory / "cluster/cluster.yaml").read_text()
    place.run("kubeconfig", "--merge")
    assert (place.directory / ".kube/config").is_file()
    token = json.loads(place.run("token", "--name", "demo", "--region", REGION))
    assert token["status"]["token"].startswith("k8s-aws-v1."), token
    place.said.pop()  # the token is the one secret that is meant to be printed
    text = place.run("down", "--yes", "--poll", "0.2")
    assert "nothing that costs money is left" in text, text
    left = inventory(place, port)
    assert left == [], f"left behind: {left}"
    place.run("down", "--yes", "--poll", "0.2")
    assert "nothing exists" in place.run("status", ok=False)
    print("good way: init, validate, policy, up twice, status, scale, kubeconfig, down twice; nothing left")


def faults(place, port):
    for fault, every, survives in [("throttle", 3, True), ("error", 4, True), ("drop", 5, True), ("expired", 25, False)]:
        for command in (["up", "--yes", "--no-wait", "--poll", "0.2"], ["down", "--yes", "--poll", "0.2"]):
            Proxy.fault, Proxy.every, Proxy.count, Proxy.hits = fault, every, 0, 0
            code, text = place.run(*command, ok=None)
            assert Proxy.hits > 0, f"{fault} was not met"
            if survives:
                assert code == 0, f"{fault}, {command[0]}:\n{text}"
            elif code != 0:
                assert "sign in again" in text, text
            Proxy.fault = None
            place.run(*command)
        assert inventory(place, port) == [], fault
        print(f"fault {fault}: up and down end well")


def broken_stack(place, port):
    """A resource that cannot be made: its name is taken. Named, rolled back, cleared by the next run."""
    place.aws(port, "eks", "create-cluster", "--name", "demo", "--role-arn", "arn:aws:iam::000000000000:role/x",
              "--resources-vpc-config", "subnetIds=a,b")
    said = place.run("up", "--yes", "--no-wait", "--poll", "0.2", ok=False)
    for words in ("stack demo-cluster failed: Cluster (AWS::EKS::Cluster)", "choose another cluster name", "left behind"):
        assert words in said, said
    assert "ROLLBACK_COMPLETE" in place.run("status", ok=False)
    place.aws(port, "eks", "delete-cluster", "--name", "demo")
    place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    place.run("down", "--yes", "--poll", "0.2")
    assert inventory(place, port) == []
    print("a resource that fails: first cause, way out, what is left behind; the next up ends well")


def kept_data(place, port):
    """`down --keep-data` leaves the file system and its key, and nothing else."""
    place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    files = json.loads(place.run("status", "--output", "json"))["file_system"]
    text = place.run("down", "--yes", "--keep-data", "--poll", "0.2")
    assert "nothing else that costs money is left" in text, text
    left = inventory(place, port)
    assert files in left and len(left) == 2, left
    key = next(name for name in left if name != files)
    place.aws(port, "efs", "delete-file-system", "--file-system-id", files)
    place.aws(port, "kms", "schedule-key-deletion", "--key-id", key)
    assert inventory(place, port) == []
    print("down --keep-data: file system and key stay, nothing else")


def large_template(place, port):
    """A template over 51,200 bytes goes through a private bucket, which goes with the cluster."""
    tags = [word for number in range(30) for word in ("--tag", f"key{number}={'x' * 200}")]
    place.run("init", "demo", "--region", REGION, "--egress", "public", "--addons", "none",
              "--allow", "203.0.113.7/32", "--force", *tags)
    place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    bucket = place.aws(port, "s3api", "list-buckets")["Buckets"][0]["Name"]
    block = place.aws(port, "s3api", "get-public-access-block", "--bucket", bucket)
    assert all(block["PublicAccessBlockConfiguration"].values()), block
    place.run("down", "--yes", "--poll", "0.2")
    assert inventory(place, port) == []
    print("a large template: private bucket made, used, emptied and removed")


def self_managed(place, port):
    """Base and storage of a self-managed cluster, and its assets encrypted by a KMS that is not ours.

    The stand-in knows no EC2 instances in a stack, so the cluster stack is refused there.
    """
    place.run("init", "demo", "--region", REGION, "--egress", "public", "--self-managed",
              "--allow", "203.0.113.7/32", "--force")
    assert "render credentials" in place.run("up", "--yes", "--no-wait", "--poll", "0.2", ok=False)
    place.run("render", "credentials", "--generate-ca")
    said = place.run("up", "--yes", "--no-wait", "--poll", "0.2", ok=False)
    assert "AWS::EC2::Instance" in said, said
    folder = place.directory / "cluster/credentials"
    names = sorted(path.name.removesuffix(".enc") for path in folder.glob("*.enc"))
    assert len(names) == 10 and "admin-key.pem" not in names, names
    for name in names:
        answer = place.aws(port, "kms", "decrypt", "--ciphertext-blob", f"fileb://{folder / name}.enc",
                           "--encryption-context", "canoe=demo")
        assert base64.b64decode(answer["Plaintext"]) == (folder / name).read_bytes(), name
    for path in (place.directory / "cluster").rglob("*"):
        if path.is_file() and path.parent != folder:
            assert "PRIVATE KEY" not in path.read_text(errors="replace"), path
    place.run("down", "--yes", "--poll", "0.2")
    assert inventory(place, port) == []
    print(f"self-managed: {len(names)} assets encrypted, decrypted by the stand-in; base and storage made and removed")


def interrupted(place, port):
    """Ctrl-C in the middle of `up` and of `down`: the same command again ends well."""
    for command in (["up", "--yes", "--no-wait", "--poll", "0.2"], ["down", "--yes", "--poll", "0.2"]):
        for delay in (0.1, 0.4, 0.8):
            process = subprocess.Popen(
                [place.canoe, "cluster", "--dir", str(place.directory / "cluster"), *command],
                env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            assert process.returncode in (0, 130, -signal.SIGINT), f"{process.returncode}: {said}"
        place.run(*command)
    assert inventory(place, port) == []
    print("Ctrl-C: up and down go on where they were")


def second_opinion(place, moto):
    """Another stand-in, moto, answers the questions of `validate`."""
    port = free_port()
    server = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        before = place.environment
        place.environment = dict(before, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        text = place.run("validate", ok=None)[1]
        place.environment = before
        for line in ("ok       credentials", "ok       zones", "ok       instance types", "ok       names"):
            assert line in text, text
        print("moto: credentials, zones, instance types and names are answered")
    finally:
        server.terminate()
        server.wait(timeout=20)


def wait_for(port):
    for _ in range(150):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


def no_secret(place):
    for text in place.said:
        assert SECRET not in text and "PRIVATE KEY" not in text
    for path in place.directory.rglob("*"):
        if path.is_file():
            assert SECRET not in path.read_text(errors="replace"), path
    print(f"secrets: none in {len(place.said)} outputs and the folder")


def bad_credentials(place, port):
    good = dict(place.environment)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del place.environment[name]
    code, text = place.run("up", "--yes", ok=None)
    assert code != 0 and "no AWS credentials" in text and "aws configure" in text, text
    place.environment = dict(good, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    code, text = place.run("status", ok=None)
    assert code != 0 and "cannot reach" in text and "AWS_ENDPOINT_URL" in text, text
    place.environment = good
    print("bad credentials and an unreachable endpoint: named, with the way out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--ministack", default="ministack")
    parser.add_argument("--moto", help="path of moto_server, for a second opinion")
    arguments = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ, BIND_HOST="127.0.0.1", GATEWAY_PORT=str(port))
        log = open(pathlib.Path(scratch) / "ministack.log", "w")
        server = subprocess.Popen([arguments.ministack], env=environment, cwd=scratch, stdout=log, stderr=log)
        try:
            wait_for(port)
            Proxy.target = port
            proxy = Server(("127.0.0.1", 0), Proxy)
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            directory = pathlib.Path(scratch) / "work"
            directory.mkdir()
            place = Place(arguments.canoe, directory, proxy.server_address[1])
            good_way(place, port)
            faults(place, port)
            interrupted(place, port)
            kept_data(place, port)
            broken_stack(place, port)
            bad_credentials(place, port)
            large_template(place, port)
            self_managed(place, port)
            if arguments.moto:
                second_opinion(place, arguments.moto)
            no_secret(place)
        finally:
            server.terminate()
            server.wait(timeout=20)


if __name__ == "__main__":
    main()
