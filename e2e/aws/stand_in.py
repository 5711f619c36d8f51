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
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from place import QUICK, REGION, SECRET, Place, Proxy, inventory, ministack, not_granted, proxy

UP = ["up", "--yes", "--no-wait", *QUICK]
DOWN = ["down", "--yes", *QUICK]
INIT = ["init", "demo", "--region", REGION, "--egress", "public", "--addons", "none", "--allow", "203.0.113.7/32"]


def good_way(place, port):
    place.run(*INIT)
    place.run("init", "demo", "--region", REGION, ok=False)
    place.run("validate", "--offline")
    text = place.run("validate", ok=None)[1]
    assert "credentials: account" in text and "USD an hour" in text, text
    assert "cloudformation:CreateChangeSet" in place.run("policy")
    text = place.run(*UP)
    assert "Vpc" in text and "3 stack(s) changed" in text, text
    assert "nothing to change" in place.run(*UP)
    listed = inventory(place, port)
    assert {"demo-base", "demo-cluster", "demo-storage", "demo"} <= set(listed), listed
    status = json.loads(place.run("status", "--output", "json"))
    assert status["endpoint"] and status["file_system"] in listed, status
    place.run("scale", "--workers", "5", "--yes", *QUICK)
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
    text = place.run(*DOWN)
    assert "nothing that costs money is left" in text, text
    left = inventory(place, port)
    assert left == [], f"left behind: {left}"
    place.run(*DOWN)
    assert "nothing exists" in place.run("status", ok=False)
    print("good way: init, validate, policy, up twice, status, scale, kubeconfig, down twice; nothing left")


def faults(place, port):
    for fault, every, survives in [("throttle", 7, True), ("error", 9, True), ("drop", 11, True), ("expired", 25, False)]:
        for command in (UP, DOWN):
            Proxy.fault, Proxy.every, Proxy.count, Proxy.hits = fault, every, 0, 0
            code, text = place.run(*command, ok=None)
            assert Proxy.hits > 0, f"{fault} was not met"
            if survives:
                assert code == 0, f"{fault}, {command[0]}:\n{text}"
            elif code != 0:
                assert "sign in again" in text, text
            Proxy.fault = None
            if code != 0:
                place.run(*command)
        assert inventory(place, port) == [], fault
        print(f"fault {fault}: up and down end well")


def broken_stack(place, port):
    """A resource that cannot be made: its name is taken. Named, rolled back, cleared by the next run."""
    place.aws(port, "eks", "create-cluster", "--name", "demo", "--role-arn", "arn:aws:iam::000000000000:role/x",
              "--resources-vpc-config", "subnetIds=a,b")
    said = place.run(*UP, ok=False)
    for words in ("stack demo-cluster failed: Cluster (AWS::EKS::Cluster)", "choose another cluster name", "left behind"):
        assert words in said, said
    assert "ROLLBACK_COMPLETE" in place.run("status", ok=False)
    place.aws(port, "eks", "delete-cluster", "--name", "demo")
    place.run(*UP)
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("a resource that fails: first cause, way out, what is left behind; the next up ends well")


def kept_data(place, port):
    """`down --keep-data` leaves file system and key; the next `up` uses them; the next `down` takes them away."""
    place.run(*UP)
    files = json.loads(place.run("status", "--output", "json"))["file_system"]
    text = place.run(*DOWN, "--keep-data")
    assert "nothing else that costs money is left" in text, text
    left = inventory(place, port)
    assert files in left and len(left) == 2, left
    spec = (place.directory / "cluster/cluster.yaml").read_text()
    assert f"fileSystemId: {files}" in spec and "\nkmsKeyArn: " in spec, spec
    text = place.run("validate", ok=None)[1]
    assert f"file system: {files}" in text and "KMS key: enabled" in text, text
    place.run(*UP)
    assert json.loads(place.run("status", "--output", "json"))["file_system"] == files
    assert [f["FileSystemId"] for f in place.aws(port, "efs", "describe-file-systems")["FileSystems"]] == [files]
    text = place.run(*DOWN)
    assert f"file system {files}, kept earlier, WITH ALL ITS DATA" in text, text
    assert inventory(place, port) == []
    assert "# fileSystemId: " in (place.directory / "cluster/cluster.yaml").read_text()
    print("down --keep-data: file system and key stay, the next up uses them, the next down removes them")


def large_template(place, port):
    """A template over 51,200 bytes goes through a private bucket, which goes with the cluster."""
    tags = [word for number in range(30) for word in ("--tag", f"key{number}={'x' * 200}")]
    place.run(*INIT, "--force", *tags)
    place.run(*UP)
    bucket = place.aws(port, "s3api", "list-buckets")["Buckets"][0]["Name"]
    block = place.aws(port, "s3api", "get-public-access-block", "--bucket", bucket)
    assert all(block["PublicAccessBlockConfiguration"].values()), block
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("a large template: private bucket made, used, emptied and removed")


def self_managed(place, port):
    """Base and storage of a self-managed cluster, and its assets encrypted by a KMS that is not ours.

    The stand-in knows no EC2 instances in a stack, so the cluster stack is refused there.
    """
    place.run("init", "demo", "--region", REGION, "--egress", "public", "--self-managed",
              "--allow", "203.0.113.7/32", "--force")
    assert "render credentials" in place.run(*UP, ok=False)
    place.run("render", "credentials", "--generate-ca")
    said = place.run(*UP, ok=False)
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
    assert "first certificate expires in 36" in place.run("status", ok=False)
    place.run(*DOWN)
    assert inventory(place, port) == []
    print(f"self-managed: {len(names)} assets encrypted, decrypted by the stand-in; base and storage made and removed")


def interrupted(place, port):
    """Ctrl-C in the middle of `up` and of `down`: the same command again ends well."""
    for command in (UP, DOWN):
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


def no_secret(place):
    assert not (place.directory / ".aws").exists()
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
    Proxy.fault, Proxy.every = "expired", 1
    code, text = place.run("validate", ok=None)
    Proxy.fault = None
    assert code != 0 and "FAIL     credentials: " in text and "sign in again" in text, text
    print("missing and expired credentials and an unreachable endpoint: named, with the way out")


def lacking_service(place):
    """A region without EKS or EFS: their hosts do not answer."""
    good = dict(place.environment)
    for service, remedy in (("EKS", "self-managed"), ("EFS", "choose another region")):
        place.environment = dict(good, **{f"AWS_ENDPOINT_URL_{service}": "http://127.0.0.1:1"})
        code, text = place.run("validate", ok=None)
        assert code != 0 and f"FAIL     {service}: {REGION} does not have it" in text and remedy in text, text
    place.environment = good
    print("a region that lacks EKS or EFS: validate says so, with the way out")


def running_jobs(place):
    """`down` asks the cluster before it goes; services with a load balancer are given back first."""
    kubectl = place.directory / "kubectl"
    log = place.directory / "kubectl.log"
    active = '{"items": [{"metadata": {"name": "train", "namespace": "default"}, "status": {"active": 3}}]}'
    balancer = '{"items": [{"metadata": {"name": "web", "namespace": "default"}, "spec": {"type": "LoadBalancer"}}]}'
    kubectl.write_text(f"""#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *jobs*) echo '{active}' ;;
  *"get services"*) echo '{balancer}' ;;
  *) echo '{{"items": []}}' ;;
esac
""")
    kubectl.chmod(0o755)
    place.run(*UP)
    text = place.run(*DOWN, "--kubectl", str(kubectl), ok=False)
    assert "1 job(s) are running: default/train" in text and "--force" in text, text
    assert "delete" not in log.read_text()
    place.run(*DOWN, "--kubectl", str(kubectl), "--force")
    assert "delete services web --namespace default" in log.read_text(), log.read_text()
    print("jobs are running: down refuses; with --force it goes on, and Kubernetes gives its load balancers back")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--ministack", default="ministack")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ministack(arguments.ministack, scratch) as port:
        directory = pathlib.Path(scratch) / "work"
        directory.mkdir()
        place = Place(os.path.abspath(arguments.canoe), directory, proxy(port))
        begin = time.monotonic()
        for part in (good_way, faults, interrupted, kept_data, broken_stack, large_template, self_managed):
            part(place, port)
            print(f"  ({time.monotonic() - begin:.0f} s)", flush=True)
        place.run(*INIT, "--force")
        running_jobs(place)
        bad_credentials(place, port)
        lacking_service(place)
        missing = not_granted(place)
        assert missing == [], f"called, but not in the policy: {missing}"
        print(f"policy: grants all {len(Proxy.actions)} actions that were called")
        no_secret(place)


if __name__ == "__main__":
    main()
