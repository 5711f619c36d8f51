#!/usr/bin/env python3
"""The TLS assets of a self-managed cluster, judged by openssl and by a real handshake.

    tls_assets.py --canoe target/debug/canoe

Makes two clusters' assets, asks openssl for chain and purpose of every pair, then runs a TLS server with
the apiserver pair that demands client certificates and lets in whoever belongs to system:masters, as an
API server does.
"""

import argparse
import http.client
import http.server
import pathlib
import ssl
import stat
import subprocess
import tempfile
import threading

PAIRS = ["ca", "apiserver", "worker", "admin", "etcd", "etcd-client"]
# pair -> purposes that openssl must accept, purposes that it must refuse
PURPOSES = {
    "apiserver": (["sslserver"], ["sslclient"]),
    "worker": (["sslclient"], ["sslserver"]),
    "admin": (["sslclient"], ["sslserver"]),
    "etcd": (["sslserver", "sslclient"], []),
    "etcd-client": (["sslclient"], ["sslserver"]),
}


def canoe(program, *arguments, fails=False):
    result = subprocess.run([program, "cluster", *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode != 0) == fails, f"{arguments}: {result.stdout}{result.stderr}"
    assert "PRIVATE KEY" not in result.stdout + result.stderr
    return result.stdout + result.stderr


def assets(program, directory, name):
    canoe(program, "--dir", str(directory), "init", name, "--region", "us-west-2", "--self-managed",
          "--allow", "203.0.113.7/32", "--external-dns-name", "paddle.example.com")
    canoe(program, "--dir", str(directory), "render", "credentials", "--generate-ca")
    return directory / "credentials"


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)


def check_purposes(place):
    for name, (good, bad) in PURPOSES.items():
        for purpose in good + bad:
            result = openssl("verify", "-CAfile", str(place / "ca.pem"), "-purpose", purpose, str(place / f"{name}.pem"))
            assert (result.returncode == 0) == (purpose in good), f"{name} as {purpose}: {result.stdout}{result.stderr}"
        names = openssl("x509", "-in", str(place / f"{name}.pem"), "-noout", "-subject", "-ext", "subjectAltName").stdout
        if name == "apiserver":
            for host in ["kubernetes.default.svc.cluster.local", "paddle.example.com", "172.20.0.1", "10.0.0.10"]:
                assert host in names, f"{host} is not in {names}"
    print("openssl verify: every pair has its purposes and no other")


def check_files(program, directory):
    for name in PAIRS:
        for file in [f"{name}.pem", f"{name}-key.pem"]:
            mode = stat.S_IMODE((directory / "credentials" / file).stat().st_mode)
            assert mode == 0o600, f"{file} has mode {mode:o}"
    before = (directory / "credentials" / "ca.pem").read_text()
    text = canoe(program, "--dir", str(directory), "render", "credentials", "--generate-ca", fails=True)
    assert "--force" in text and (directory / "credentials" / "ca.pem").read_text() == before
    canoe(program, "--dir", str(directory), "render", "stack")
    for file in ["stack-template.json", "userdata/cloud-config-controller", "userdata/cloud-config-worker"]:
        assert "PRIVATE KEY" not in (directory / file).read_text(), file
    print("files: 0600, never overwritten without --force, no key in template or user data")


class Api(http.server.BaseHTTPRequestHandler):
    """Lets in system:masters, as an API server would."""

    def do_GET(self):
        subject = {key: value for part in self.connection.getpeercert()["subject"] for key, value in part}
        self.send_response(200 if subject.get("organizationName") == "system:masters" else 403)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(place, pair):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / f"{pair}.pem", place / f"{pair}-key.pem")
    context.load_verify_locations(place / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def ask(server, trusted, client, pair):
    """Status of a request that expects the name `kubernetes`, or the reason of the refusal."""
    context = ssl.create_default_context(cafile=str(trusted / "ca.pem"))
    if pair:
        context.load_cert_chain(client / f"{pair}.pem", client / f"{pair}-key.pem")

    class Connection(http.client.HTTPSConnection):
        def connect(self):
            super(http.client.HTTPSConnection, self).connect()
            self.sock = context.wrap_socket(self.sock, server_hostname="kubernetes")

    connection = Connection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError, OSError) as error:
        return type(error).__name__
    finally:
        connection.close()


def check_handshakes(place, foreign):
    server = serve(place, "apiserver")
    assert ask(server, place, place, "admin") == 200
    assert ask(server, place, place, "worker") == 403, "a worker is known, but is no administrator"
    for refused in [ask(server, place, foreign, "admin"), ask(server, place, place, None), ask(server, foreign, place, "admin")]:
        assert not isinstance(refused, int), f"answered {refused}"
    server.shutdown()
    impostor = serve(place, "worker")
    assert not isinstance(ask(impostor, place, place, "admin"), int), "a worker must not pass for the API server"
    impostor.shutdown()
    print("handshakes: admin 200, worker 403, foreign and absent certificates refused, worker refused as server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    program = parser.parse_args().canoe
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        place = assets(program, root / "demo", "demo")
        foreign = assets(program, root / "foreign", "foreign")
        check_purposes(place)
        check_handshakes(place, foreign)
        check_files(program, root / "demo")


if __name__ == "__main__":
    main()
