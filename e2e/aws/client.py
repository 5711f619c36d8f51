#!/usr/bin/env python3
"""The client behaves as an SDK does: credentials, retries, errors, clocks, proxies, certificates, hosts.

    client.py --canoe target/debug/canoe --ministack path/to/ministack

Commands go to ministack through a gate on loopback that misbehaves in ways that real services do. Hosts of other
partitions are seen by a proxy that writes down where it is asked to connect to, and refuses.
"""

import argparse
import email.utils
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from place import REGION, SECRET, Place, Proxy, Server, iam_action, ministack

INIT = ["--egress", "public", "--addons", "none", "--allow", "203.0.113.7/32", "--force"]


class Gate(Proxy):
    """Passes on what `behave` does not answer itself; `behave` returns status, headers and body, or nothing."""

    behave = None
    ahead = 0  # seconds that the clock of this server is ahead
    actions = []

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        action = iam_action(self.command, self.path, self.headers, body)
        Gate.actions.append(action)
        if Gate.behave and (answer := Gate.behave(action, self.headers)):
            status, headers, text = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())
            return
        self.pass_on(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate((timestamp or time.time()) + Gate.ahead, usegmt=True)


class Tunnel(http.server.BaseHTTPRequestHandler):
    """A proxy: writes down where to, connects to the gate whatever the name, or refuses."""

    asked = []
    target = None

    def do_CONNECT(self):
        Tunnel.asked.append(self.path)
        if Tunnel.target is None:
            return self.send_error(502)
        with socket.create_connection(("127.0.0.1", Tunnel.target)) as upstream:
            self.send_response(200)
            self.end_headers()
            pair = [self.connection, upstream]
            while True:
                for end in select.select(pair, [], [], 60)[0]:
                    data = end.recv(65536)
                    if not data:
                        self.close_connection = True
                        return None
                    pair[1 - pair.index(end)].sendall(data)

    def log_message(self, *_):
        pass


def serve(handler, context=None):
    server = Server(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def credentials_once(place):
    """75 calls ran `credential_process` 75 times, and a role was assumed 39 times."""
    good = dict(place.environment)
    count = place.directory / "count"
    program = place.directory / "credentials.sh"
    document = json.dumps({"Version": 1, "AccessKeyId": "AKIATESTTESTTESTTEST", "SecretAccessKey": SECRET})
    program.write_text(f"#!/bin/sh\necho run >> {count}\necho '{document}'\n")
    program.chmod(0o755)
    (place.directory / ".aws").mkdir()
    (place.directory / ".aws/config").write_text(
        f"[default]\ncredential_process = {program}\n"
        "[profile role]\nrole_arn = arn:aws:iam::000000000000:role/x\nsource_profile = default\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del place.environment[name]
    Gate.actions.clear()
    place.run("up", "--yes", "--no-wait", "--poll", "0.2")
    calls, runs = len(Gate.actions), len(count.read_text().splitlines())
    assert calls > 20 and runs == 1, (calls, runs)
    place.run("up", "--yes", "--poll", "0.2")
    count.unlink()
    Gate.actions.clear()
    place.environment["AWS_PROFILE"] = "role"
    place.run("down", "--yes", "--delete-data", "--poll", "0.2")
    assumed = Gate.actions.count("sts:AssumeRole")
    # Once for `down` and once for the program that makes the token for the API server.
    assert assumed == 2 and len(count.read_text().splitlines()) == 2, assumed
    place.environment = good
    (place.directory / ".aws/config").unlink()
    (place.directory / ".aws").rmdir()
    print(f"credentials: looked up once for {calls} calls, two AssumeRole for {len(Gate.actions)} calls and a token")


def failing(place, action, status, headers, text, times):
    """Runs `validate` while the action fails so often; what it printed, and how often it was asked."""
    left = [times]

    def behave(asked, _):
        if asked == action and left[0] > 0:
            left[0] -= 1
            return status, headers, text
        return None

    Gate.behave = behave
    Gate.actions.clear()
    said = place.run("validate", ok=None)[1]
    Gate.behave = None
    return said, Gate.actions.count(action)


def retries(place):
    """A 5xx with a typed code was not retried."""
    typed = {"content-type": "application/json", "x-amzn-errortype": "ServerException"}
    xml = "<Response><Errors><Error><Code>Unavailable</Code><Message>m</Message></Error></Errors></Response>"
    for action, status, headers, text in [
        ("eks:DescribeClusterVersions", 500, typed, '{"message": "oops"}'),
        ("ec2:DescribeAvailabilityZones", 503, {"content-type": "text/xml"}, xml),
        ("elasticfilesystem:DescribeFileSystems", 429, {}, "{}"),
    ]:
        said, asked = failing(place, action, status, headers, text, 2)
        assert asked >= 3 and "oops" not in said and "Unavailable" not in said, (action, asked, said)
    said, asked = failing(place, "ec2:DescribeAvailabilityZones", 400, {}, xml.replace("Unavailable", "InvalidParameterValue"), 2)
    assert asked == 1 and "InvalidParameterValue" in said, (asked, said)
    print("retries: by status and code, and none for what stays wrong")


def errors(place):
    """An expired token on EKS looked like a missing permission."""
    headers = {"content-type": "application/json", "x-amzn-errortype": "ExpiredTokenException:http://internal.amazon.com/"}
    body = '{"message": "The security token included in the request is expired"}'
    said, asked = failing(place, "eks:DescribeClusterVersions", 403, headers, body, 9)
    assert "ExpiredTokenException" in said and asked == 2, (asked, said)
    said, _ = failing(place, "sts:GetCallerIdentity", 403, headers, body, 9)
    assert "sign in again" in said and "canoe cluster policy" not in said, said
    print("errors: named by their header; an expired token is looked up anew once, and the advice is to sign in")


def clock(place):
    """A clock that is an hour off is seen from the Date header, and corrected."""
    def behave(_, headers):
        now = time.time() + Gate.ahead
        said = time.mktime(time.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")) - time.timezone
        if abs(now - said) > 300:
            skewed.append(said)
            text = "<ErrorResponse><Error><Code>RequestTimeTooSkewed</Code><Message>too large</Message></Error></ErrorResponse>"
            return 403, {"content-type": "text/xml"}, text
        return None

    skewed = []
    for ahead in (3600, -3600):
        Gate.behave, Gate.ahead = behave, ahead
        skewed.clear()
        Gate.actions.clear()
        said = place.run("validate", ok=None)[1]
        assert "ok       credentials" in said and "Skewed" not in said, said
        assert len(skewed) == 1 and Gate.actions[:2] == ["sts:GetCallerIdentity"] * 2, (skewed, Gate.actions)
        assert Gate.actions.count("ec2:DescribeAvailabilityZones") == 1, Gate.actions
    Gate.behave, Gate.ahead = None, 0
    print("clock: an hour early and an hour late are corrected after one answer")


def certificates(directory):
    """An authority and a certificate of 127.0.0.1 and localhost."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost,DNS:aws.test,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "tls.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.pem", directory / "tls.key")
    return context


def network(place, tls):
    """AWS_CA_BUNDLE, HTTPS_PROXY and NO_PROXY."""
    good = dict(place.environment)
    tunnel = serve(Tunnel)
    Tunnel.target = tls
    ca = str(place.directory / "ca.pem")
    place.environment = dict(good, AWS_ENDPOINT_URL=f"https://localhost:{tls}")
    said = place.run("status", ok=False)
    assert "certificate" in said.lower() or "UnknownIssuer" in said, said
    place.environment["AWS_CA_BUNDLE"] = ca
    assert "nothing exists" in place.run("status", ok=False)
    # The name exists only for the proxy.
    place.environment = dict(good, AWS_ENDPOINT_URL=f"https://aws.test:{tls}", AWS_CA_BUNDLE=ca, HTTPS_PROXY=f"http://127.0.0.1:{tunnel}")
    Tunnel.asked.clear()
    assert "nothing exists" in place.run("status", ok=False)
    assert set(Tunnel.asked) == {f"aws.test:{tls}"}, Tunnel.asked
    place.environment.update(NO_PROXY="localhost,.internal", AWS_ENDPOINT_URL=f"https://localhost:{tls}")
    Tunnel.asked.clear()
    assert "nothing exists" in place.run("status", ok=False)
    assert Tunnel.asked == [], Tunnel.asked
    place.environment = dict(good, AWS_CA_BUNDLE=str(place.directory / "missing.pem"))
    assert "AWS_CA_BUNDLE" in place.run("status", ok=False)
    place.environment = good
    Tunnel.target = None
    print("network: certificates of a file, a proxy, and hosts without it")
    return tunnel


def hosts(place, tunnel):
    """Partitions, FIPS and dual stack: the hosts that a proxy is asked for."""
    good = dict(place.environment)
    place.environment = {k: v for k, v in good.items() if k != "AWS_ENDPOINT_URL"} | {"HTTPS_PROXY": f"http://127.0.0.1:{tunnel}"}
    fips, dual = {"AWS_USE_FIPS_ENDPOINT": "true"}, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}
    for region, extra, host in [
        ("us-west-2", {}, "cloudformation.us-west-2.amazonaws.com"),
        ("cn-north-1", {}, "cloudformation.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", {}, "cloudformation.us-gov-west-1.amazonaws.com"),
        ("us-west-2", fips, "cloudformation-fips.us-west-2.amazonaws.com"),
        ("us-west-2", dual, "cloudformation.us-west-2.api.aws"),
        ("us-gov-west-1", fips, "cloudformation.us-gov-west-1.amazonaws.com"),
    ]:
        name = f"{region}-{len(extra)}"
        said = place.run("init", "demo", "--region", region, "--zones", f"{region}a,{region}b", *INIT, folder=name)
        assert "did you mean" not in said, said
        place.environment.update(extra)
        Tunnel.asked.clear()
        said = place.run("status", ok=False, folder=name)
        assert set(Tunnel.asked) == {f"{host}:443"}, (region, extra, Tunnel.asked, said)
        policy = place.run("policy", "--account", "123456789012", folder=name)
        partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(re.match(r"(us-gov|cn|)", region).group(1), "aws")
        assert set(re.findall(r"arn:([\w-]+):", policy)) == {partition}, region
        for key in extra:
            del place.environment[key]
    place.environment.update(fips)
    said = place.run("status", ok=False, folder="cn-north-1-0")
    assert "has no FIPS endpoints" in said, said
    place.environment = good
    print("hosts: three partitions, FIPS and dual stack")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--ministack", default="ministack")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ministack(arguments.ministack, scratch) as port:
        directory = pathlib.Path(scratch) / "work"
        directory.mkdir()
        Proxy.target = port
        context = certificates(directory)
        place = Place(os.path.abspath(arguments.canoe), directory, serve(Gate))
        (place.programs / "sh").symlink_to(shutil.which("sh"))  # runs `credential_process`
        place.run("init", "demo", "--region", REGION, *INIT)
        for part in (credentials_once, retries, errors, clock):
            part(place)
        hosts(place, network(place, serve(Gate, context)))


if __name__ == "__main__":
    main()
