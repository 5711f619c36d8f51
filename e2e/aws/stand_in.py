#!/usr/bin/env python3
"""The whole way against ministack, a stand-in for AWS: init, validate, up, status, scale, down.

    stand_in.py --canoe target/debug/canoe --ministack path/to/ministack

ministack (pip install ministack) is started on loopback. Between the steps an independent client (the aws
command line) looks at what exists; after `down` it must find nothing. A small proxy in front makes faults:
throttling, 500, expired credentials, a connection that breaks in the middle. Credentials are made up for the
run, and every output and file is searched for the secret. The parts run in chains beside each other, each with a
stand-in, a proxy and a folder of its own.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import shlex
import subprocess
import sys
import tempfile
import time

import yaml

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "k8s"))

from bench import NAME, Bench
from place import QUICK, REGION, SECRET, Place, Proxy, inventory, ministack, not_granted, proxy

UP = ["up", "--yes", *QUICK]
DOWN = ["down", "--yes", "--delete-data", *QUICK]
INIT = ["init", "demo", "--region", REGION, "--egress", "public", "--addons", "none", "--allow", "203.0.113.7/32"]


def good_way(place, port):
    place.run(*INIT)
    place.run("init", "demo", "--region", REGION, ok=False)
    place.run("validate", "--offline")
    text = place.run("validate", ok=None)[1]
    assert "credentials: account" in text and "USD per hour" in text, text
    assert "cloudformation:CreateChangeSet" in place.run("policy")
    text = place.run(*UP)
    assert "Vpc" in text and "3 stacks changed" in text, text
    assert "nothing to change" in place.run(*UP)
    listed = inventory(place, port)
    assert {"demo-base", "demo-cluster", "demo-storage", "demo"} <= set(listed), listed
    status = json.loads(place.run("status", "--output", "json"))
    assert status["endpoint"] and status["file_system"] in listed and status["kept"] == [], status
    place.run("scale", "--workers", "5", "--yes", *QUICK)
    name = place.aws(port, "eks", "list-nodegroups", "--cluster-name", "demo")["nodegroups"][0]
    group = place.aws(port, "eks", "describe-nodegroup", "--cluster-name", "demo", "--nodegroup-name", name)
    assert group["nodegroup"]["scalingConfig"]["desiredSize"] == 5, group
    said = place.run("scale", "--workers", "99", "--yes", ok=False)
    assert "--workers 99 is more than workers.max" in said and "cluster.yaml:" not in said, said
    assert "count: 5" in (place.directory / "cluster/cluster.yaml").read_text()
    place.run("kubeconfig", "--merge")
    assert (place.directory / ".kube/config").is_file()
    for stack in ("demo-base", "demo-storage", "demo-cluster"):
        found = place.aws(port, "cloudformation", "describe-stacks", "--stack-name", stack)["Stacks"][0]
        assert found["EnableTerminationProtection"], found
        assert "canoe:cluster-id" in [tag["Key"] for tag in found["Tags"]], found
    token = json.loads(place.run("token", "--name", "demo", "--region", REGION))
    assert token["status"]["token"].startswith("k8s-aws-v1."), token
    place.said.pop()  # the token is the one secret that is meant to be printed
    text = place.run(*DOWN)
    assert "train/output: 1 pass, pass-00000 is the last, 2.0 MiB" in text and "canoe job get train" in text, text
    assert "nothing that costs money is left" in text, text
    left = inventory(place, port)
    assert left == [], f"left behind: {left}"
    config = (place.directory / ".kube/config").read_text()
    assert "demo" not in config, config
    (place.directory / ".kube/config").unlink()
    text = place.run(*DOWN)
    assert "nothing of cluster demo" in text and "is in account 000000000000, region us-west-2" in text, text
    assert not (place.directory / ".kube/config").exists(), "down writes no kubeconfig"
    assert "nothing exists" in place.run("status", ok=False)
    print("good way: init, validate, policy, up twice, status, scale, kubeconfig, down twice; nothing left")


def group(place, port, number=0):
    name = sorted(place.aws(port, "eks", "list-nodegroups", "--cluster-name", "demo")["nodegroups"])[number]
    return place.aws(port, "eks", "describe-nodegroup", "--cluster-name", "demo", "--nodegroup-name", name)["nodegroup"]


def life(place, port):
    """A cluster's life: upgraded, scaled by its jobs, looked at."""
    place.run(*INIT, "--force")
    text = place.run(*UP)
    assert "account 000000000000, as arn:" in text, text
    config = json.loads((place.directory / "cluster/kubeconfig").read_text())
    assert config["users"][0]["user"]["exec"]["command"] == place.canoe, "it need not be on anybody's PATH"
    # Upgrade: nothing without a yes; then stage by stage; the second time there is nothing to do.
    assert "1.35" in place.run("upgrade", ok=None)[1]
    assert "stopped; nothing was changed" in place.run("upgrade", "--to", "1.36", ok=False)
    assert "cannot go back" in place.run("upgrade", "--to", "1.34", ok=False)
    said = place.run("upgrade", "--to", "1.36", "--yes", *QUICK)
    for words in ("step: control plane to 1.36", "step: add-ons to", "step: workers to 1.36", "Kubernetes is 1.36 now"):
        assert words in said, said
    spec = (place.directory / "cluster/cluster.yaml").read_text()
    assert '\nkubernetesVersion: "1.36"' in spec and "  # kubernetesVersion: " in spec, spec
    assert place.aws(port, "eks", "describe-cluster", "--name", "demo")["cluster"]["version"] == "1.36"
    assert group(place, port)["version"] == "1.36", group(place, port)
    assert "nothing to do" in place.run("upgrade", "--to", "1.36", "--yes")
    # Interrupted after the control plane: the file says where it stands, and the same command does the rest.
    path = place.directory / "cluster/cluster.yaml"
    path.write_text(spec.replace('  # kubernetesVersion: "1.35"', '  kubernetesVersion: "1.35"'))
    said = place.run("upgrade", "--to", "1.36", "--yes", *QUICK)
    assert "Kubernetes is 1.36 now" in said and path.read_text() == spec, said
    # As many workers as the jobs want, and the cost of a pass.
    place.cluster.job("ctr", 4, "echo ' Pass=0 Batch=20 samples=2560 AvgCost=1 Eval:'; sleep 600")
    place.cluster.started("ctr", 3600)
    place.run("scale", "--auto", "--yes", *QUICK)
    assert group(place, port)["scalingConfig"]["desiredSize"] == 4
    said = place.run("status")
    assert "nodes     20 of 4 ready" in said and "job default/ctr: about 0.5" in said and "USD per pass, of 36" in said, said
    place.cluster.remove_job("ctr")
    assert "0 from now on" in place.run("scale", "--auto", "--yes", *QUICK)
    assert group(place, port)["scalingConfig"]["desiredSize"] == 0
    assert "nothing to do" in place.run("scale", "--auto", "--yes", *QUICK)
    assert place.cluster.api.tokens[-1].startswith("Bearer k8s-aws-v1."), "the kubeconfig's own way to log in"
    permanent(place, path)
    # An API server that only machines in the VPC reach.
    text = path.read_text()
    path.write_text(text.replace("allowedCidrs: [203.0.113.7/32]", "allowedCidrs: []"))
    place.cluster.taken_down()
    with place.cluster.out_of_reach():
        said = place.run("up", "--yes", *QUICK)
    assert "from inside the VPC only: the API server https://127.0.0.1:1 cannot be reached" in said, said
    assert "up` on a machine in the VPC" in said and not place.cluster.has("persistentvolumeclaims", "canoe-files"), said
    path.write_text(text)
    place.run("up", "--yes", *QUICK)
    assert place.cluster.has("persistentvolumeclaims", "canoe-files")
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("life: upgraded stage by stage and continued, scaled by its jobs to zero, cost per pass, one line where waiting does not help")


def permanent(place, path):
    """What waiting does not mend is told at once, in one line with the way out."""
    up, faults = ["up", "--yes", *QUICK], place.cluster.api.faults
    for code, words in ((401, "adds you to controlPlane.access"), (403, "another level in controlPlane.access")):
        faults.add("^GET /api/v1/nodes", code=code)
        begun = time.monotonic()
        said = place.run(*up, ok=False)
        assert words in said and time.monotonic() - begun < 60, said
        assert len([line for line in said.splitlines() if "controlPlane.access" in line]) == 1, said
        faults.clear()
    # A certificate that is not the cluster's.
    config = path.with_name("kubeconfig")
    good = config.read_text()
    other = json.loads(good)
    other["clusters"][0]["cluster"]["server"] = place.cluster.here.replace("127.0.0.1", "localhost")
    config.write_text(json.dumps(other))
    said = place.run("scale", "--auto", "--yes", *QUICK, ok=False)
    assert "is not the one of" in said and re.search("canoe cluster --dir .* kubeconfig`", said), said
    # A canoe that was moved since: this one makes the token.
    moved = good.replace(json.dumps(place.canoe), '"/moved/away/canoe"')
    assert moved != good
    config.write_text(moved)
    assert "nothing to do" in place.run("scale", "--auto", "--yes", *QUICK)
    config.unlink()
    assert "canoe cluster --dir" in place.run("scale", "--auto", "--yes", *QUICK, ok=False)
    config.write_text(good)


def groups_and_spot(place, port):
    """Several groups; spot machines that do not come are started on demand."""
    place.run(*INIT, "--force", "--spot", "--instance-types", "m5.large,m6i.large")
    path = place.directory / "cluster/cluster.yaml"
    large = "groups: [{name: large, count: 1, max: 2, instanceTypes: [m5.4xlarge]}]"
    path.write_text(path.read_text().replace("groups: []", large))
    place.environment["CANOE_NODE_PATIENCE"] = "0"
    # Two of four machines come, and none in the place of the missing ones either: in the end all are on demand, and
    # it ends with the words of waiting. (The stand-in does not tell spot from on demand.)
    place.cluster.machines(2)
    said = place.run(*UP, ok=False)
    place.cluster.machines(20)
    assert "workers.onDemand: 2" in said and "2 of 4 nodes are Ready after" in said, said
    assert "onDemand: 3" in path.read_text()
    counts = sorted(group(place, port, number)["scalingConfig"]["desiredSize"] for number in range(3))
    assert counts == [0, 1, 3], counts
    del place.environment["CANOE_NODE_PATIENCE"]
    place.run("scale", "--workers", "3", "--on-demand", "0", "--yes", *QUICK)
    assert "onDemand: 0" in path.read_text()
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("several groups; spot machines that do not come: asked for on demand; back to spot by hand")


def given_network(place, port):
    """A VPC of the user's own: checked, used, and left as it was."""
    resources = {"Net": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}}}
    for number, zone in enumerate("ab"):
        resources[f"Sub{zone}"] = {"Type": "AWS::EC2::Subnet", "Properties": {
            "VpcId": {"Ref": "Net"}, "CidrBlock": f"10.9.{number}.0/24", "AvailabilityZone": f"us-west-2{zone}"}}
    body = json.dumps({"Resources": resources, "Outputs": {name: {"Value": {"Ref": name}} for name in resources}})
    place.aws(port, "cloudformation", "create-stack", "--stack-name", "network-of-others", "--template-body", body)
    stack = place.aws(port, "cloudformation", "describe-stacks", "--stack-name", "network-of-others")["Stacks"][0]
    ids = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    vpc, subnets = ids["Net"], [ids["Suba"], ids["Subb"]]
    given = ["--zones", "us-west-2a,us-west-2b", "--vpc-id", vpc, "--vpc-cidr", "10.9.0.0/16", "--private-subnets", ",".join(subnets)]
    init = [word for word in INIT if word not in ("--egress", "public")]
    place.run(*init, "--force", *given)
    said = place.run("validate", ok=None)[1]
    assert f"ok       subnets: {subnets[0]}, {subnets[1]} of {vpc}" in said, said
    place.run(*UP)
    names = [v["VpcId"] for v in place.aws(port, "ec2", "describe-vpcs", "--filters", "Name=tag:canoe:cluster,Values=demo")["Vpcs"]]
    assert names == [], names
    place.run(*DOWN)
    left = place.aws(port, "ec2", "describe-subnets", "--filters", f"Name=vpc-id,Values={vpc}")["Subnets"]
    assert len(left) == 2, left
    place.run(*init, "--force", *[word.replace(subnets[1], "subnet-0123456789abcdef0") for word in given])
    assert "subnet-0123456789abcdef0 does not exist" in place.run("validate", ok=None)[1]
    place.aws(port, "cloudformation", "delete-stack", "--stack-name", "network-of-others")
    place.run(*INIT, "--force")
    assert inventory(place, port) == []
    print("a VPC of one's own: checked, used, left as it was")


def private(place, port):
    """No way to the Internet: endpoints, images in a repository of the cluster's own; another one of its name is not touched."""
    init = [word for word in INIT if word not in ("--egress", "public", "--allow", "203.0.113.7/32")]
    place.run(*init, "--force", "--egress", "endpoints", "--inside-only", "--image-repository")
    name = "canoe/demo"
    place.aws(port, "ecr", "create-repository", "--repository-name", name)
    said = place.run("validate", ok=False)
    assert f"FAIL     names: image repository {name} carries no tag canoe:cluster-id" in said, said
    place.run(*DOWN)
    assert repositories(place, port) == [name]
    place.aws(port, "ecr", "delete-repository", "--repository-name", name)
    assert "ok       names: free" in place.run("validate", ok=None)[1]
    with place.cluster.out_of_reach():
        said = place.run(*UP)
    assert "from inside the VPC only" in said and f"canoe image push" in said, said
    place.run("kubeconfig")  # as on a machine in the VPC
    kinds = [e["ServiceName"].split("us-west-2.")[-1] for e in place.aws(port, "ec2", "describe-vpc-endpoints")["VpcEndpoints"]]
    for service in ("s3", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts", "ec2", "logs", "elasticfilesystem"):
        assert service in kinds, kinds
    tag = "Name=tag:canoe:cluster,Values=demo"
    assert place.aws(port, "ec2", "describe-internet-gateways", "--filters", tag)["InternetGateways"] == []
    assert f"/{name}" in json.loads(place.run("status", "--output", "json"))["images"]
    assert f"/{name}" in place.run("status")
    assert "nothing to change" in place.run(*UP)
    said = place.run(*DOWN)
    assert "canoe/demo WITH ITS IMAGES" in said, said
    assert inventory(place, port) == [] and repositories(place, port) == []
    assert place.aws(port, "ec2", "describe-vpc-endpoints")["VpcEndpoints"] == []
    print("private: endpoints instead of gateways, an image repository; one of the same name survives; nothing left")


def repositories(place, port):
    return [r["repositoryName"] for r in place.aws(port, "ecr", "describe-repositories")["repositories"]]


def service_role(place, port):
    """An administrator runs what `policy --write` prints; then the role is there, and the person's policy is small."""
    place.run(*INIT, "--force")
    path = place.directory / "cluster/cluster.yaml"
    path.write_text(path.read_text().replace("serviceRole: false", "serviceRole: true"))
    assert "names no administrator" in place.run("validate", ok=False)
    team = 'access: {"arn:aws:iam::000000000000:role/team": admin}'
    path.write_text(path.read_text().replace("access: {}", team))
    said = place.run("validate", ok=False)
    assert "FAIL     service role: demo-us-west-2-stacks does not exist; an administrator runs" in said, said
    result = place.run("policy", "--write")
    commands = [shlex.split(line) for line in result.splitlines() if line.startswith("aws ")]
    made = [command for command in commands if "YOU" not in command]
    for command in made:
        place.aws(port, *command[1:])
    assert "ok       service role: demo-us-west-2-stacks" in place.run("validate", ok=None)[1]
    attached = place.aws(port, "iam", "list-attached-role-policies", "--role-name", "demo-us-west-2-stacks")["AttachedPolicies"]
    assert len(attached) >= 2, attached
    person = (place.directory / "cluster/policy/operator-1.json").read_text()
    assert not (place.directory / "cluster/policy/operator-2.json").exists() and "ec2:CreateVpc" not in person, person
    for policy in attached:
        place.aws(port, "iam", "detach-role-policy", "--role-name", "demo-us-west-2-stacks", "--policy-arn", policy["PolicyArn"])
    place.aws(port, "iam", "delete-role", "--role-name", "demo-us-west-2-stacks")
    place.run(*INIT, "--force")
    print(f"service role: made by the {len(made)} printed commands, found by validate; one small policy for the person")


def submitted(place, port):
    """A job that is submitted to a cluster without workers gets them."""
    place.run(*INIT, "--force", "--workers", "0")
    place.run(*UP)
    bench = Bench(place.canoe)
    folder = place.directory / "cluster"
    # The cluster's own by its mark, with the address of an API server that has jobs.
    own = yaml.safe_load((folder / "kubeconfig").read_text())
    config = yaml.safe_load(pathlib.Path(bench.api.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["extensions"] = own["clusters"][0]["cluster"]["extensions"]
    bench.claim()
    bench.job_file(nodes=2)
    environment = {**place.environment, "PATH": bench.programs}

    def submit(*words, code=0):
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))  # scaling writes that of the stand-in, which has no Kubernetes
        return bench.canoe("submit", bench.job, "--cluster", str(folder), *words, code=code, env=environment)

    declined = submit(code=1)
    assert "jobs want 2 nodes, there are 0 workers: 2 from now on" in declined and "stopped" in declined, declined
    assert bench.store.find("jobs", "default", NAME) is None and group(place, port)["scalingConfig"]["desiredSize"] == 0
    said = submit("--yes")
    assert "requested 2 workers" in said and "job.batch/quick-start serverside-applied" in said, said
    assert group(place, port)["scalingConfig"]["desiredSize"] == 2 and "count: 2" in (folder / "cluster.yaml").read_text()
    said = submit("--yes")
    assert "the same job already exists" in said and "from now on" not in said, said
    bench.job_file(name="second", nodes=11)
    said = submit("--yes")
    assert "jobs want 13 nodes, workers.max is 10" in said and "requested 10 workers" in said, said
    bench.close()
    place.said += [declined, said]
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("a job submitted to a cluster without workers: asked, started, up to workers.max")


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
    """A name that the last stack wants is taken: `up` says so before it makes the first. (A resource that fails in the
    middle is tried with the double: ministack refuses no other name.)"""
    place.aws(port, "eks", "create-cluster", "--name", "demo", "--role-arn", "arn:aws:iam::000000000000:role/x",
              "--resources-vpc-config", "subnetIds=a,b")
    before = inventory(place, port)
    said = place.run(*UP, ok=False)
    assert "an EKS cluster demo exists" in said and "nothing was changed" in said, said
    assert inventory(place, port) == before
    place.aws(port, "eks", "delete-cluster", "--name", "demo")
    template = json.dumps({"InstanceType": "m5.large"})
    place.aws(port, "ec2", "create-launch-template", "--launch-template-name", "demo-workers", "--launch-template-data", template)
    for command in (UP, ["validate"]):
        said = place.run(*command, ok=False)
        assert "launch template demo-workers carries no tag canoe:cluster-id" in said, said
    place.run(*DOWN)
    there = place.aws(port, "ec2", "describe-launch-templates")["LaunchTemplates"]
    assert [one["LaunchTemplateName"] for one in there] == ["demo-workers"], there
    place.aws(port, "ec2", "delete-launch-template", "--launch-template-name", "demo-workers")
    place.run(*UP)
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("a taken name: named before anything is made; the next up ends well")


FOREIGN = {"Resources": {
    "Precious": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "precious-of-web"}},
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "web"}},
}}

TOKEN = {"apiVersion": "v1", "kind": "Config", "current-context": "web",
         "clusters": [{"name": "web", "cluster": {"server": "https://127.0.0.1:1"}}],
         "users": [{"name": "web", "user": {"token": "somebody"}}],
         "contexts": [{"name": "web", "context": {"cluster": "web", "user": "web"}}]}


def others(place, port):
    """A stack, a kubeconfig entry and a file system of the same names that are not ours survive every command."""
    place.aws(port, "cloudformation", "create-stack", "--stack-name", "web-base", "--template-body", json.dumps(FOREIGN))
    files = place.aws(port, "efs", "create-file-system", "--tags", "Key=canoe:cluster,Value=web")["FileSystemId"]
    group = "/aws/eks/web/cluster"
    place.aws(port, "logs", "create-log-group", "--log-group-name", group)
    config = place.directory / ".kube/config"
    config.parent.mkdir(exist_ok=True)
    config.write_text(json.dumps(TOKEN))
    place.run(*["web" if word == "demo" else word for word in INIT], folder="web")
    before = inventory(place, port)
    assert "FAIL     names: stack web-base carries no tag canoe:cluster-id" in place.run("validate", ok=False, folder="web")
    scale = ["scale", "--workers", "5", "--yes", *QUICK]
    for command in (UP, scale, DOWN, [*DOWN, "--force"], ["down", "--yes", "--keep-data", *QUICK]):
        said = place.run(*command, ok=False, folder="web")
        assert "stack web-base carries no tag" in said and "nothing was changed" in said, said
    assert "count: 3" in (place.directory / "web/cluster.yaml").read_text()
    assert "not this cluster's" in place.run("status", ok=False, folder="web")
    assert inventory(place, port) == before
    queues = place.aws(port, "sqs", "list-queues", "--endpoint-url", f"http://127.0.0.1:{port}")
    assert len(queues["QueueUrls"]) == 1, queues
    # Without the stack in the way: the rest still is not ours.
    place.aws(port, "cloudformation", "delete-stack", "--stack-name", "web-base")
    said = place.run(*UP, ok=False, folder="web")
    assert f"log group {group} carries no tag" in said and "nothing was changed" in said, said
    said = place.run(*DOWN, folder="web")
    assert f"log group {group} carries no tag" in said, said
    assert json.loads(config.read_text()) == TOKEN
    left = inventory(place, port)
    assert files in left and group in left, left
    config.unlink()
    place.aws(port, "efs", "delete-file-system", "--file-system-id", files)
    place.aws(port, "logs", "delete-log-group", "--log-group-name", group)
    assert inventory(place, port) == []
    print("web-base, a file system, a log group and a kubeconfig entry of others: named, refused, untouched")


def colleague(place, port):
    """A cluster of the same name that a colleague made, from another folder."""
    place.run(*UP)
    before = inventory(place, port)
    place.run(*INIT, folder="colleague")
    for command in (UP, DOWN):
        said = place.run(*command, ok=False, folder="colleague")
        assert "stack demo-base belongs to the cluster with the id" in said, said
    text = (place.directory / "colleague/cluster.yaml").read_text()
    said = place.run("upgrade", "--to", "1.36", "--yes", *QUICK, ok=False, folder="colleague")
    assert "nothing was changed" in said and "again to continue" not in said, said
    assert (place.directory / "colleague/cluster.yaml").read_text() == text
    assert inventory(place, port) == before
    # A file without an id: read-only commands go on, the others say how to get one.
    spec = place.directory / "colleague/cluster.yaml"
    spec.write_text("".join(line for line in spec.read_text().splitlines(True) if not line.startswith("id:")))
    for command in (UP, DOWN):
        assert "put the line `id: " in place.run(*command, ok=False, folder="colleague")
    assert "USD per hour" in place.run("validate", ok=None, folder="colleague")[1]
    assert "not this cluster's" in place.run("status", ok=False, folder="colleague")
    # A copy of our own folder with another name, while the first is up and when only its data are left.
    text = (place.directory / "cluster/cluster.yaml").read_text()
    copy = place.directory / "copy/cluster.yaml"
    copy.parent.mkdir()
    copy.write_text(text.replace("\nname: demo", "\nname: other"))
    for last in (False, True):
        if last:
            place.run("down", "--yes", *QUICK)
        before = inventory(place, port)
        for command in (UP, DOWN, ["down", "--yes", *QUICK], ["validate"]):
            said = place.run(*command, ok=False, folder="copy")
            assert "belongs to the cluster demo" in said and "it is a copy" in said, said
        assert inventory(place, port) == before
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("a colleague's cluster of the same name, and a copy of the folder: named, refused, untouched")


def unreachable(place, port):
    """A cluster that does not answer: `down` refuses; with --force it goes on, and the data stay."""
    place.run(*UP)
    files = json.loads(place.run("status", "--output", "json"))["file_system"]
    with place.cluster.out_of_reach():
        place.run("kubeconfig")
    for extra in ([], ["--delete-data"]):
        said = place.run("down", "--yes", *extra, *QUICK, ok=False)
        assert "cannot be asked" in said and "https://127.0.0.1:1 cannot be reached" in said and "--force" in said, said
    assert "the nodes cannot be counted: the API server https://127.0.0.1:1" in place.run("status")
    said = place.run("down", "--yes", "--force", *QUICK)
    assert "what is on the volume is not known" in said, said
    assert f"file system {files} with its data, which costs; deleted by `canoe cluster --dir {place.directory}/cluster down --delete-data`" in said, said
    assert files in inventory(place, port)
    place.run(*DOWN)
    assert inventory(place, port) == []
    print("an unreachable cluster: refused; with --force the data stay")


def kept_data(place, port):
    """`down --yes` leaves file system and key; the next `up` uses them; `down --delete-data` takes them away."""
    place.run(*UP)
    files = json.loads(place.run("status", "--output", "json"))["file_system"]
    text = place.run("down", "--yes", *QUICK)
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
    assert f"file system {files} WITH ALL ITS DATA" in text, text
    assert inventory(place, port) == []
    spec = (place.directory / "cluster/cluster.yaml").read_text()
    assert "# fileSystemId: " in spec, spec
    said = place.run("scale", "--workers", "2", "--yes", *QUICK, ok=False)
    assert "there is no cluster demo yet" in said and spec == (place.directory / "cluster/cluster.yaml").read_text(), said
    assert inventory(place, port) == []
    print("down --yes: file system and key stay, the next up uses them, down --delete-data removes them")


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

    The stand-in knows no EC2 instances and no disks in a stack: the disk with etcd is one that is there already, as if an
    earlier `down` had kept it, and the cluster stack is refused.
    """
    place.run("init", "demo", "--region", REGION, "--egress", "public", "--self-managed",
              "--allow", "203.0.113.7/32", "--force")
    path = place.directory / "cluster/cluster.yaml"
    own = re.search(r'(?m)^id: "?([0-9a-f-]+)', path.read_text()).group(1)
    tags = f"ResourceType=volume,Tags=[{{Key=canoe:cluster-id,Value={own}}},{{Key=canoe:cluster,Value=demo}},{{Key=Name,Value=demo-etcd}}]"
    disk = place.aws(port, "ec2", "create-volume", "--availability-zone", "us-west-2a", "--size", "8", "--tag-specifications", tags)["VolumeId"]
    path.write_text(path.read_text().replace("# etcdVolumeId: vol-0123456789abcdef0", f"etcdVolumeId: {disk}"))
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
    for file in (place.directory / "cluster").rglob("*"):
        if file.is_file() and file.parent != folder:
            assert "PRIVATE KEY" not in file.read_text(errors="replace"), file
    assert "first certificate expires in 36" in place.run("status", ok=False)
    # The machines' scripts lie in the cluster's bucket, which is closed to the public.
    bucket = f"canoe-{own}"
    keys = [entry["Key"] for entry in place.aws(port, "s3api", "list-objects-v2", "--bucket", bucket)["Contents"]]
    assert keys == ["node/controller.sh", "node/worker.sh"], keys
    assert all(place.aws(port, "s3api", "get-public-access-block", "--bucket", bucket)["PublicAccessBlockConfiguration"].values())
    # Without a word about the data, etcd and its bucket stay, and cluster.yaml knows the disk.
    said = place.run("down", "--yes", *QUICK)
    assert f"disk {disk} with the cluster's etcd" in said and f"bucket {bucket} with copies of etcd" in said, said
    assert {disk, bucket} <= set(inventory(place, port)) and f"etcdVolumeId: {disk}" in path.read_text()
    said = place.run(*DOWN)
    assert f"disk {disk} WITH THE CLUSTER'S ETCD" in said, said
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
            said, _ = process.communicate(timeout=240)
            assert process.returncode in (0, 130, -signal.SIGINT), f"{process.returncode}: {said}"
        place.run(*command)
    assert inventory(place, port) == []
    print("Ctrl-C: up and down go on where they were")


def two_machines(place, port):
    """One cluster.yaml on two machines: `up` and `down` at once, again and again, make and leave one cluster, or nothing."""
    second = place.directory / "second"
    second.mkdir()
    ended = set()
    for _ in range(3):
        (second / "cluster.yaml").write_bytes((place.directory / "cluster/cluster.yaml").read_bytes())
        for command in (UP, DOWN):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                runs = [pool.submit(place.run, *command, ok=None, folder=folder) for folder in ("cluster", "second")]
                for code, said in (run.result() for run in runs):
                    ended.add(code)
                    assert code in (0, 1) and "panicked" not in said, said
            place.run(*command)
            left = inventory(place, port)
            if command is UP:
                files = [f for f in left if f.startswith("fs-")]
                assert len(files) == 1 and left.count("demo-base") == 1, left
            else:
                assert left == [], left
    assert 0 in ended
    print("two machines at once: one cluster, one file system, and nothing is left")


def edited(place, port):
    """cluster.yaml edited while the cluster is up, `init --force` over it, and a kubeconfig that is locked, a link or broken."""
    place.run(*UP)
    path = place.directory / "cluster/cluster.yaml"
    good, before = path.read_text(), inventory(place, port)
    for old, new, words in (
        ("zones: [us-west-2a, us-west-2b]", "zones: [us-west-2a]", "would remove MountTarget2"),
        ("directory: /canoe", "directory: /other", "would replace AccessPoint"),
        ("us-west-2", "eu-west-1", "a cluster cannot move"),
    ):
        assert old in good
        path.write_text(good.replace(old, new))
        assert words in place.run(*UP, ok=False), words
        if "cannot move" in words:
            for command in (DOWN, ["status"], ["scale", "--workers", "4", "--yes"], ["validate"], ["kubeconfig"]):
                assert words in place.run(*command, ok=False), command
        path.write_text(good)
        assert inventory(place, port) == before
    # The file of a cluster that is up is kept when another cluster takes its place, and still takes that one down.
    place.run(*["other" if word == "demo" else word for word in INIT], "--force")
    kept = list((place.directory / "cluster").glob("cluster-*.yaml"))
    assert [file.read_text() for file in kept] == [good], kept
    said = place.run("down", "--yes", *QUICK)  # the kubeconfig in the folder is that of demo
    assert "nothing of cluster other" in said and inventory(place, port) == before, said
    path.write_text(good)
    # The common kubeconfig.
    config = place.directory / ".kube/config"
    real = place.directory / "dotfiles"
    real.write_text(json.dumps(TOKEN))
    config.parent.mkdir(exist_ok=True)
    config.symlink_to(real)
    lock = config.with_name("config.lock")
    lock.touch()
    assert "is locked: kubectl or another program" in place.run("kubeconfig", "--merge", ok=False)
    assert json.loads(real.read_text()) == TOKEN
    lock.unlink()
    place.run("kubeconfig", "--merge")
    assert config.is_symlink() and "name: demo" in real.read_text()
    # What is others' keeps its bytes: types, order, comments.
    theirs = "# mine\nkind: Config\nclusters:\n- name: web\n  cluster: {server: https://127.0.0.1:1, since: 2024-01-02, ratio: 1.30, on: yes}\n"
    real.write_text(theirs)
    place.run("kubeconfig", "--merge")
    assert real.read_text().startswith(theirs) and "name: demo" in real.read_text(), real.read_text()
    real.write_text("broken: [")
    said = place.run(*DOWN)
    assert "nothing that costs money is left" in said and "entries stay in your kubeconfig" in said, said
    assert real.read_text() == "broken: [" and inventory(place, port) == []
    config.unlink()
    print("edited while it is up: refused before AWS is asked; the replaced file is kept; the kubeconfig is whole")


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
    place.environment = dict(good, AWS_ENDPOINT_URL="localhost:4566")
    code, text = place.run("status", ok=None)
    assert code != 0 and '"localhost:4566" is not the address of a service (AWS_ENDPOINT_URL' in text, text
    place.environment = {k: v for k, v in good.items() if not k.startswith(("AWS_ACCESS", "AWS_SECRET"))} | {"AWS_PROFILE": "nosuch"}
    code, text = place.run("status", ok=None)
    assert code != 0 and 'AWS_PROFILE names the profile "nosuch"' in text, text
    place.environment = good
    Proxy.fault, Proxy.every = "expired", 1
    code, text = place.run("validate", ok=None)
    Proxy.fault = None
    assert code != 0 and "FAIL     credentials: " in text and "sign in again" in text, text
    print("missing and expired credentials and an unreachable endpoint: named, with the way out")


def lacking_service(place, _port):
    """A region without EKS or EFS: their hosts do not answer."""
    good = dict(place.environment)
    for service, remedy in (("EKS", "self-managed"), ("EFS", "choose another region")):
        place.environment = dict(good, **{f"AWS_ENDPOINT_URL_{service}": "http://127.0.0.1:1"})
        code, text = place.run("validate", ok=None)
        assert code != 0 and f"FAIL     {service}: {REGION} does not have it" in text and remedy in text, text
    place.environment = good
    print("a region that lacks EKS or EFS: validate says so, with the way out")


def running_jobs(place, _port):
    """`down` asks the cluster before it goes; services with a load balancer are given back first."""
    place.run(*UP)
    place.cluster.job("train", 3, "sleep 600")
    balancer = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}
    place.cluster.store.create("services", balancer)
    rules = {"status": {"loadBalancer": {"ingress": [{"hostname": "front"}]}}}
    place.cluster.store.create("ingresses", {"metadata": {"name": "front", "namespace": "default"}, **rules})
    begun = len(place.cluster.api.requests)
    text = place.run(*DOWN, ok=False)
    assert "1 job is running: default/train" in text and "--force" in text, text
    assert not any(line.startswith("DELETE") for line in place.cluster.api.requests[begun:])
    text = place.run(*DOWN, "--force")
    assert "service default/web and its load balancer" in text and "ingress default/front" in text, text
    for path in ("api/v1/namespaces/default/services/web", "apis/networking.k8s.io/v1/namespaces/default/ingresses/front"):
        assert any(line.startswith(f"DELETE /{path}") for line in place.cluster.api.requests[begun:]), path
    print("jobs are running: down refuses; with --force it goes on, and Kubernetes gives its load balancers back")


# Parts that run one after another; the chains run beside each other.
CHAINS = [
    [good_way, others, colleague, interrupted, private, edited],
    [life, unreachable, kept_data, large_template, submitted],
    [faults, broken_stack, bad_credentials, two_machines],
    [groups_and_spot, given_network, service_role, running_jobs, lacking_service, self_managed],
]


def run_chain(number, canoe, program):
    """One chain; the number of actions that were called."""
    with tempfile.TemporaryDirectory() as scratch, ministack(program, scratch) as port:
        directory = pathlib.Path(scratch) / "work"
        directory.mkdir()
        place = Place(canoe, directory, proxy(port))
        begin = time.monotonic()
        for part in CHAINS[number]:
            place.cluster.taken_down()
            if part is not good_way:
                place.run(*INIT, "--force")
            part(place, port)
            print(f"  ({part.__name__}: {time.monotonic() - begin:.0f} s)", flush=True)
        only_there = set()
        if self_managed in CHAINS[number]:
            # Only a cluster without EKS encrypts keys, looks for an image by itself and has an instance profile, so only its operator may.
            policy, only_there = place.run("policy"), {"iam:GetInstanceProfile", "kms:Encrypt", "ssm:GetParameters"}
            assert all(action in policy for action in only_there), policy
        place.run(*INIT, "--force", "--image-repository")
        missing = [action for action in not_granted(place) if action not in only_there]
        assert missing == [], f"called, but not in the policy: {missing}"
        no_secret(place)
        return sorted(Proxy.actions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--ministack", default="ministack")
    parser.add_argument("--chain", type=int, help="only this one")
    arguments = parser.parse_args()
    numbers = range(len(CHAINS)) if arguments.chain is None else [arguments.chain]
    with concurrent.futures.ProcessPoolExecutor(len(CHAINS)) as pool:
        canoe = os.path.abspath(arguments.canoe)
        chains = [pool.submit(run_chain, number, canoe, arguments.ministack) for number in numbers]
        actions = set().union(*(chain.result() for chain in chains))
    print(f"policy: grants all {len(actions)} actions that were called")


if __name__ == "__main__":
    main()
