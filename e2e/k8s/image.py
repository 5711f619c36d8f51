"""`canoe image` against a real registry (Debian's docker-registry), read back by skopeo, with nothing of Docker.

The base is a small image that skopeo pushes. Usage: image.py --canoe PATH
"""
import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request


def expect(condition, text):
    if not condition:
        sys.exit(f"image.py: {text}")


def run(*words, code=0, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    expect(done.returncode == code, f"{' '.join(words)} ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Registry:
    """docker-registry on loopback; with a password file if `login`."""

    def __init__(self, folder, login=None):
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        os.makedirs(folder, exist_ok=True)
        config = {"version": "0.1", "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": os.path.join(folder, "store")}}, "http": {"addr": self.host}}
        if login:
            path = os.path.join(folder, "htpasswd")
            with open(path, "w") as file:
                file.write(run("htpasswd", "-Bbn", *login).strip() + "\n")
            config["auth"] = {"htpasswd": {"realm": "test", "path": path}}
        path = os.path.join(folder, "config.yml")
        with open(path, "w") as file:
            json.dump(config, file)
        self.process = subprocess.Popen(["docker-registry", "serve", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(f"http://{self.host}/v2/", timeout=5)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                expect(time.monotonic() < end and self.process.poll() is None, "docker-registry does not start")
                time.sleep(0.1)

    def close(self):
        self.process.kill()
        self.process.wait()


def base_image(folder):
    """An OCI layout with one layer and one file in it: enough for a base."""
    blobs = os.path.join(folder, "blobs", "sha256")
    os.makedirs(blobs)

    def keep(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as file:
            file.write(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        content = b"from a stock image\n"
        entry = tarfile.TarInfo("etc/base")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    layer = keep(gzip.compress(packed.getvalue(), mtime=0)) | {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}
    diff = f"sha256:{hashlib.sha256(packed.getvalue()).hexdigest()}"
    config = {"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux", "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}, "rootfs": {"type": "layers", "diff_ids": [diff]}, "history": [{"created_by": "test"}]}
    config = keep(json.dumps(config).encode()) | {"mediaType": "application/vnd.oci.image.config.v1+json"}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer]}
    manifest = keep(json.dumps(manifest).encode()) | {"mediaType": "application/vnd.oci.image.manifest.v1+json", "annotations": {"org.opencontainers.image.ref.name": "base"}}
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, file)
    with open(os.path.join(folder, "oci-layout"), "w") as file:
        json.dump({"imageLayoutVersion": "1.0.0"}, file)


def check(folder, binary):
    """An image as skopeo has it in a folder: manifest, configuration, layers, by digest and by content."""
    manifest = json.load(open(os.path.join(folder, "manifest.json")))
    expect(len(manifest["layers"]) == 2, manifest)
    for blob in [manifest["config"], *manifest["layers"]]:
        data = open(os.path.join(folder, blob["digest"].removeprefix("sha256:")), "rb").read()
        expect(hashlib.sha256(data).hexdigest() == blob["digest"].removeprefix("sha256:") and len(data) == blob["size"], blob)
    config = json.load(open(os.path.join(folder, manifest["config"]["digest"].removeprefix("sha256:"))))
    expect(config["config"]["Entrypoint"] == ["canoe"] and config["config"]["User"] == "10001:10001" and config["config"]["Env"], config)
    for blob, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"]):
        data = gzip.decompress(open(os.path.join(folder, blob["digest"].removeprefix("sha256:")), "rb").read())
        expect(f"sha256:{hashlib.sha256(data).hexdigest()}" == diff, "a layer is not what the configuration says")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        entry = tar.getmember("usr/local/bin/canoe")
        expect(entry.mode == 0o755 and tar.extractfile(entry).read() == open(binary, "rb").read(), "another binary")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    canoe = os.path.abspath(parser.parse_args().canoe)
    folder = tempfile.mkdtemp(prefix="canoe-image-")
    # Any Linux program will do, and a small one is packed sooner.
    binary = os.path.realpath(shutil.which("true"))
    env = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()} | {"HOME": folder, "DOCKER_CONFIG": os.path.join(folder, "docker")}
    plain, guarded = Registry(os.path.join(folder, "plain")), Registry(os.path.join(folder, "guarded"), ("me", "se:cret"))
    try:
        layout = os.path.join(folder, "base")
        base_image(layout)
        base = f"{plain.host}/stock/python:1"
        run("skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}:base", f"docker://{base}")
        # What a tag stands for, and the same by digest.
        wanted = json.loads(run("skopeo", "inspect", "--tls-verify=false", f"docker://{base}"))["Digest"]
        for name in (base, f"{plain.host}/stock/python@{wanted}"):
            said = run(canoe, "image", "pin", name, env=env)
            expect(said == f"pythonImage: {plain.host}/stock/python@{wanted}\n", said)
        said = run(canoe, "image", "pin", f"{plain.host}/stock/python:2", env=env, code=1)
        expect("404" in said and "stock/python:2" in said, said)
        # As a file.
        archive = os.path.join(folder, "image.tar")
        digest = run(canoe, "image", "build", "-o", archive, "--base", base, "--binary", binary, env=env).splitlines()[0]
        expect(digest.startswith("sha256:"), digest)
        run("skopeo", "copy", f"oci-archive:{archive}", f"dir:{folder}/from-file")
        check(f"{folder}/from-file", binary)
        again = os.path.join(folder, "again.tar")
        expect(run(canoe, "image", "build", "-o", again, "--base", base, "--binary", binary, env=env).startswith(digest), "another image of the same parts")
        expect(open(again, "rb").read() == open(archive, "rb").read(), "another file")
        # Within one registry, layers of the base are taken over; a second push sends nothing.
        said = run(canoe, "image", "push", f"{plain.host}/team/canoe:1", "--base", base, "--binary", binary, env=env)
        expect(f"image: {plain.host}/team/canoe@{digest}" in said, said)
        run("skopeo", "copy", "--src-tls-verify=false", f"docker://{plain.host}/team/canoe@{digest}", f"dir:{folder}/pulled")
        check(f"{folder}/pulled", binary)
        said = run(canoe, "image", "push", f"{plain.host}/team/canoe:1", "--base", base, "--binary", binary, env=env)
        expect(": pushed" not in said and "copied" not in said, said)
        # To a registry that wants a login: none, a wrong one, the right one.
        target = f"{guarded.host}/team/canoe:1"
        said = run(canoe, "image", "push", target, "--base", base, "--binary", binary, env=env, code=1)
        expect(f"{guarded.host} wants a login; `docker login {guarded.host}`" in said, said)
        os.makedirs(env["DOCKER_CONFIG"])
        for password, code in (("wrong", 1), ("se:cret", 0)):
            with open(os.path.join(env["DOCKER_CONFIG"], "config.json"), "w") as file:
                json.dump({"auths": {guarded.host: {"auth": base64.b64encode(f"me:{password}".encode()).decode()}}}, file)
            said = run(canoe, "image", "push", target, "--base", base, "--binary", binary, env=env, code=code)
            expect(code == 0 or "wants another login than the one that is kept for it" in said, said)
        run("skopeo", "copy", "--src-tls-verify=false", "--src-creds=me:se:cret", f"docker://{target}", f"dir:{folder}/guarded-pulled")
        check(f"{folder}/guarded-pulled", binary)
        # What is not there.
        said = run(canoe, "image", "push", target, "--base", f"{plain.host}/stock/none:1", "--binary", binary, env=env, code=1)
        expect("404" in said and "stock/none" in said, said)
        said = run(canoe, "image", "push", "Bad/Name", "--base", base, "--binary", binary, env=env, code=1)
        expect("is not the name of an image" in said, said)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            said = run(canoe, "image", "push", f"127.0.0.1:{closed.getsockname()[1]}/x:1", "--base", base, "--binary", binary, env=env, code=1)
        expect("cannot be reached" in said, said)
        print(f"image {digest[:19]}…: built, pushed to two registries, pulled back by skopeo, every layer checked")
    finally:
        plain.close()
        guarded.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
