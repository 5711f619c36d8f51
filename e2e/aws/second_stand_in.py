#!/usr/bin/env python3
"""Another stand-in, moto, for what it can: it was written by others than ministack, and lies elsewhere.

    second_stand_in.py --canoe target/debug/canoe --moto path/to/moto_server

moto answers `validate`, makes the base stack through a change set and a private bucket, and encrypts. It then
forgets the exports of that stack, so `up` ends there with AWS's words and a way out, and `down` takes away what
is there. moto cannot delete a VPC that a stack has given routes and drops the stack all the same: `down` must
name that VPC, and the aws command line must find nothing else.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

from place import QUICK, REGION, SECRET, Place, free_port, inventory, wait_for


def check(place, port):
    key = place.aws(port, "kms", "create-key")["KeyMetadata"]["Arn"]  # moto cannot tag a key in a stack
    tags = [word for number in range(30) for word in ("--tag", f"key{number}={'x' * 200}")]
    place.run("init", "demo", "--region", REGION, "--zones", "us-west-2a,us-west-2b", "--egress", "public",
              "--addons", "none", "--allow", "203.0.113.7/32", "--kms-key-arn", key, *tags)
    text = place.run("validate", ok=None)[1]
    for line in ("ok       credentials", "ok       zones", "ok       instance types", "ok       names", "ok       KMS key",
                 "ok       EFS", "ok       bucket"):
        assert line in text, text
    place.run("init", "demo", "--region", REGION, "--zones", "us-west-2z", ok=False)
    text = place.run("up", "--yes", "--no-wait", *QUICK, ok=False)
    assert "No export named demo-" in text and "run this again" in text, text
    bucket = place.aws(port, "s3api", "list-buckets")["Buckets"][0]["Name"]
    block = place.aws(port, "s3api", "get-public-access-block", "--bucket", bucket)
    assert all(block["PublicAccessBlockConfiguration"].values()), block
    assert any(name.startswith("vpc-") for name in inventory(place, port))
    text = place.run("down", "--yes", "--delete-data", *QUICK)
    left = [name for name in inventory(place, port) if name not in key]
    assert all(name.startswith("vpc-") and name in text for name in left), f"{left}\n{text}"
    assert SECRET not in "".join(place.said)
    print(f"moto: validate, up as far as it goes, private bucket, down; left by moto and named by down: {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--moto", default="moto_server")
    arguments = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        log = open(pathlib.Path(scratch) / "moto.log", "w")
        server = subprocess.Popen([arguments.moto, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        try:
            wait_for(port)
            home = pathlib.Path(scratch) / "home"
            home.mkdir()
            place = Place(os.path.abspath(arguments.canoe), home, port)
            place.environment["AWS_ENDPOINT_URL"] = f"http://localhost:{port}"  # by this name moto knows its own buckets
            check(place, port)
        finally:
            server.terminate()
            server.wait(timeout=240)


if __name__ == "__main__":
    main()
