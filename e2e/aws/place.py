"""What the tests against stand-ins for AWS share: a place to run in, a proxy that makes faults, an inventory."""

import contextlib
import fnmatch
import http.client
import http.server
import io
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time

import awscli.clidriver

from cluster import Cluster

REGION = "us-west-2"
SECRET = secrets.token_hex(20)
QUICK = ["--poll", "0.2"]

# Calls whose action is not in the request but in method and path: service, method, pattern of the path, action.
PATHS = [
    ("eks", "GET", r"/cluster-versions", "DescribeClusterVersions"),
    ("eks", "GET", r"/addons/supported-versions.*", "DescribeAddonVersions"),
    ("eks", "GET", r"/clusters/[^/]+", "DescribeCluster"),
    ("elasticfilesystem", "GET", r"/2015-02-01/file-systems.*", "DescribeFileSystems"),
    ("elasticfilesystem", "DELETE", r"/2015-02-01/file-systems/.*", "DeleteFileSystem"),
    ("elasticfilesystem", "GET", r"/2015-02-01/mount-targets.*", "DescribeMountTargets"),
    ("route53", "GET", r"/2013-04-01/hostedzone/.*", "GetHostedZone"),
    ("s3", "GET", r"/[^/]+\?tagging=", "GetBucketTagging"),
    ("s3", "PUT", r"/[^/]+\?tagging=", "PutBucketTagging"),
    ("s3", "GET", r"/[^/]+\?list-type=2", "ListBucket"),
    ("s3", "PUT", r"/[^/]+\?publicAccessBlock=", "PutBucketPublicAccessBlock"),
    ("s3", "PUT", r"/[^/?]+", "CreateBucket"),
    ("s3", "PUT", r"/[^/]+/.+", "PutObject"),
    ("s3", "DELETE", r"/[^/]+", "DeleteBucket"),
    ("s3", "DELETE", r"/[^/]+/.+", "DeleteObject"),
]


def iam_action(method, path, headers, body):
    """The IAM action that a signed request needs."""
    service = headers["authorization"].split("Credential=")[1].split("/")[3]
    prefix = {"tagging": "tag"}.get(service, service)
    if "x-amz-target" in headers:
        return f"{prefix}:{headers['x-amz-target'].split('.')[-1]}"
    form = re.match(rb"Action=(\w+)", body)
    if form:
        return f"{prefix}:{form.group(1).decode()}"
    for wanted, verb, pattern, action in PATHS:
        if service == wanted and method == verb and re.fullmatch(pattern, path):
            return f"{prefix}:{action}"
    raise ValueError(f"{service}: {method} {path} is not in the table of paths")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on; every `every`-th one meets the fault instead."""

    target = 0
    cluster = None
    fault = None
    every = 0
    count = 0
    hits = 0
    actions = set()
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        cls = type(self)
        cls.count += 1
        cls.actions.add(iam_action(self.command, self.path, self.headers, body))
        if cls.fault and cls.every and cls.count % cls.every == 0:
            cls.hits += 1
            return self.misbehave(cls.fault)
        return self.pass_on(body)

    def pass_on(self, body):
        upstream = http.client.HTTPConnection("127.0.0.1", type(self).target, timeout=240)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection",)}
        upstream.request(self.command, self.path, body, headers)
        response = upstream.getresponse()
        self.answer(response.status, type(self).cluster.named(response.read()), response.getheader("content-type", "text/xml"))
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
    """One cluster folder, the program, and the way to AWS. Nothing is on the program's PATH, and no kubectl either."""

    def __init__(self, canoe, directory, port):
        self.canoe, self.directory = canoe, directory
        self.programs = directory.parent / "programs"
        self.programs.mkdir()
        self.cluster = Proxy.cluster = Cluster(directory.parent / "kubernetes")
        self.environment = {
            "PATH": str(self.programs), "HOME": str(directory), "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.said = []

    def run(self, *arguments, ok=True, folder="cluster"):
        command = [self.canoe, "cluster", "--dir", str(self.directory / folder), *arguments]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        text = result.stdout + result.stderr
        self.said.append(text)
        if arguments[0] == "down" and result.returncode == 0:
            self.cluster.taken_down()
        assert ok is None or (result.returncode == 0) == ok, f"{' '.join(arguments)} ended with {result.returncode}:\n{text}"
        return text if ok is not None else (result.returncode, text)

    def aws(self, port, *arguments):
        """The aws command line, in this process: starting it anew costs a second each time."""
        environment = dict(self.environment, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
        out = io.StringIO()
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            with contextlib.redirect_stdout(out):
                code = awscli.clidriver.create_clidriver().main([*arguments, "--output", "json"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        assert code == 0, f"aws {' '.join(arguments)} ended with {code}: {out.getvalue()}"
        return json.loads(out.getvalue() or "null")


def inventory(place, port):
    """What an independent client finds of the cluster."""
    found = []
    stacks = place.aws(port, "cloudformation", "describe-stacks")["Stacks"]
    found += [s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"]
    tag = "Name=tag:canoe:cluster,Values=demo,mine"
    found += [v["VpcId"] for v in place.aws(port, "ec2", "describe-vpcs", "--filters", tag)["Vpcs"]]
    found += [s["SubnetId"] for s in place.aws(port, "ec2", "describe-subnets", "--filters", tag)["Subnets"]]
    found += [g["GroupId"] for g in place.aws(port, "ec2", "describe-security-groups", "--filters", tag)["SecurityGroups"]]
    found += [g["InternetGatewayId"] for g in place.aws(port, "ec2", "describe-internet-gateways", "--filters", tag)["InternetGateways"]]
    found += [r["RouteTableId"] for r in place.aws(port, "ec2", "describe-route-tables", "--filters", tag)["RouteTables"]]
    found += [v["VolumeId"] for v in place.aws(port, "ec2", "describe-volumes", "--filters", tag)["Volumes"]]
    templates = place.aws(port, "ec2", "describe-launch-templates")["LaunchTemplates"]
    found += [t["LaunchTemplateName"] for t in templates if t["LaunchTemplateName"].startswith(("demo-", "mine-"))]
    found += [b["LoadBalancerName"] for b in place.aws(port, "elbv2", "describe-load-balancers")["LoadBalancers"]]
    found += place.aws(port, "eks", "list-clusters")["clusters"]
    found += [f["FileSystemId"] for f in place.aws(port, "efs", "describe-file-systems")["FileSystems"]]
    found += [r["RoleName"] for r in place.aws(port, "iam", "list-roles")["Roles"] if r["RoleName"].startswith(("demo-", "mine-"))]
    found += [g["logGroupName"] for g in place.aws(port, "logs", "describe-log-groups")["logGroups"]]
    found += [b["Name"] for b in place.aws(port, "s3api", "list-buckets")["Buckets"]]
    for key in place.aws(port, "kms", "list-keys")["Keys"]:
        state = place.aws(port, "kms", "describe-key", "--key-id", key["KeyId"])["KeyMetadata"]["KeyState"]
        if state != "PendingDeletion":
            found.append(key["KeyId"])
    return sorted(found)


def wait_for(port):
    for _ in range(150):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


@contextlib.contextmanager
def ministack(program, scratch):
    """A stand-in on loopback; its port."""
    port = free_port()
    environment = dict(os.environ, BIND_HOST="127.0.0.1", GATEWAY_PORT=str(port))
    program = os.path.abspath(shutil.which(program))
    with open(pathlib.Path(scratch) / "ministack.log", "w") as log:
        server = subprocess.Popen([program], env=environment, cwd=scratch, stdout=log, stderr=log)
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()
            try:
                server.wait(timeout=240)
            except subprocess.TimeoutExpired:  # on a busy machine
                server.kill()
                server.wait()


def proxy(port):
    """The port of a proxy in front of `port`."""
    Proxy.target = port
    server = Server(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def not_granted(place):
    """Actions that were called and that the policy of this cluster does not grant."""
    place.run("policy", "--write")
    granted = set()
    for path in (place.directory / "cluster/policy").glob("*.json"):
        for statement in json.loads(path.read_text())["Statement"]:
            granted.update(statement["Action"])
    assert len(granted) > 100, granted
    called = Proxy.actions - {"iam:CreatePolicy", "iam:DeletePolicy"}  # the boundary is for administrators to make
    return sorted(a for a in called if not any(fnmatch.fnmatchcase(a, pattern) for pattern in granted))
