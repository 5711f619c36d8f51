#!/usr/bin/env python3
"""Stand-ins for the programs that a machine of a self-managed cluster calls; `machines.py` links them under their names.

Each records its call, refuses what the real program would refuse, and leaves behind what the real one would leave.
etcd, etcdctl, openssl, mount and everything of coreutils are the real ones.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

STATE = pathlib.Path("/state")
PKI = pathlib.Path("/etc/kubernetes/pki")
MANIFESTS = pathlib.Path("/etc/kubernetes/manifests")
FINGERPRINTS = {"kubernetes": "DE15B14486CD377B9E876E1A234654DA9A296436", "docker": "9DC858229FC7DD38854AE2D88D81803C0EBFCD88"}
ETCDCTL = ["/state/bin/etcdctl", "--endpoints", "https://127.0.0.1:2379", "--cacert", str(PKI / "etcd/ca.crt"),
           "--cert", str(PKI / "etcd/server.crt"), "--key", str(PKI / "etcd/server.key")]


class Refused(Exception):
    """What the real program would say, and its code."""

    def __init__(self, words, code=1):
        super().__init__(words)
        self.code = code


def load(name, default):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def save(name, value):
    (STATE / name).write_text(json.dumps(value))


def fault(name):
    """Whether a fault of this name is still to come; each comes as often as machines.py asked for."""
    faults = load("faults.json", {})
    if faults.get(name, 0) <= 0:
        return False
    faults[name] -= 1
    save("faults.json", faults)
    return True


def check(condition, words):
    if not condition:
        raise Refused(words)


def apt_get(arguments):
    words = [a for a in arguments if not a.startswith(("-", "DPkg::"))]
    if fault("apt-get"):
        raise Refused("E: Could not get lock /var/lib/dpkg/lock-frontend", 100)
    if words[0] == "update":
        return
    check(words[0] == "install" and "-y" in arguments, f"apt-get {arguments}")
    packages = load("packages.json", {})
    sources = {path.stem: path.read_text() for path in pathlib.Path("/etc/apt/sources.list.d").glob("*.list")}
    for name in words[1:]:
        if name in ("kubeadm", "kubelet", "kubectl"):
            version = re.search(r"/v(1\.\d+)/deb", sources.get("kubernetes", ""))
            check(version, f"E: Unable to locate package {name}")
            packages[name] = f"{version.group(1)}.3-1.1"
        elif name == "containerd.io":
            check("download.docker.com/linux/debian bookworm stable" in sources.get("docker", ""), "E: Unable to locate package containerd.io")
            packages[name] = load("containerd.json", "2.2.0")
        else:
            packages[name] = "1"
    save("packages.json", packages)


def dpkg(arguments):
    packages = load("packages.json", {})
    if arguments[0] == "--print-architecture":
        print("amd64")
    elif arguments[0] == "-s":
        check(arguments[1] in packages, f"dpkg-query: package '{arguments[1]}' is not installed")
    elif arguments[0] == "-i":
        check(pathlib.Path(arguments[1]).read_text() == "agent", "not an archive")
        packages["amazon-ssm-agent"] = "3"
        save("packages.json", packages)


def dpkg_query(arguments):
    packages = load("packages.json", {})
    check(arguments[:3] == ["-W", "-f", "${Version}"] and arguments[3] in packages, "no packages found")
    print(packages[arguments[3]], end="")


def curl(arguments):
    address = next(a for a in arguments if a.startswith("http"))
    out = arguments[arguments.index("-o") + 1] if "-o" in arguments else None
    header = arguments[arguments.index("-H") + 1] if "-H" in arguments else ""
    if fault("curl"):
        raise Refused("curl: (6) Could not resolve host", 6)
    if address == "http://169.254.169.254/latest/api/token":
        check("PUT" in arguments and "ttl-seconds" in header, "405")
        answer = "token-1"
    elif address.startswith("http://169.254.169.254/latest/meta-data/"):
        check(header == "X-aws-ec2-metadata-token: token-1", "401: IMDSv2 wants a token")
        answer = {"placement/availability-zone": "us-west-2a", "instance-id": "i-0abc"}[address.split("meta-data/")[1]]
    elif re.fullmatch(r"https://pkgs\.k8s\.io/core:/stable:/v1\.\d+/deb/Release\.key", address):
        answer = "kubernetes" if not fault("key") else "somebody else"
    elif address == "https://download.docker.com/linux/debian/gpg":
        answer = "docker"
    elif address.startswith("https://raw.githubusercontent.com/projectcalico/calico/v") and address.endswith("/manifests/canal.yaml"):
        answer = 'net-conf.json: {"Network": "10.244.0.0/16"}\n'
    elif address == "https://s3.us-west-2.amazonaws.com/amazon-ssm-us-west-2/latest/debian_amd64/amazon-ssm-agent.deb":
        answer = "agent"
    else:
        raise Refused(f"curl: (22) {address}", 22)
    pathlib.Path(out).write_text(answer) if out else print(answer, end="")


def gpg(arguments):
    if "--show-keys" in arguments:
        name = pathlib.Path(arguments[-1]).read_text()
        print(f"pub:::::::::\nfpr:::::::::{FINGERPRINTS.get(name, '0' * 40)}:")
    else:
        out = arguments[arguments.index("-o") + 1]
        pathlib.Path(out).write_text(pathlib.Path(arguments[-1]).read_text())


def containerd(arguments):
    if arguments == ["--version"]:
        print(f"containerd github.com/containerd/containerd/v2 v{load('packages.json', {})['containerd.io']} abc")
    else:
        check(arguments == ["config", "default"], arguments)
        print("version = 3\nSystemdCgroup = false")


def systemctl(arguments):
    for unit in [a for a in arguments[1:] if a.startswith("canoe-")]:
        check((pathlib.Path("/etc/systemd/system") / unit).is_file(), f"Unit {unit} does not exist")
    if "containerd" in arguments:
        check("SystemdCgroup = true" in pathlib.Path("/etc/containerd/config.toml").read_text(), "the wrong cgroup driver")


def aws(arguments):
    def after(name):
        return arguments[arguments.index(name) + 1]

    check(after("--region") == "us-west-2", "region")
    if arguments[:2] == ["kms", "decrypt"]:
        sealed = pathlib.Path(after("--ciphertext-blob").removeprefix("fileb://")).read_bytes()
        context, _, plain = sealed.partition(b"|")
        check(context.decode() == after("--encryption-context"), "InvalidCiphertextException")
        print(plain.decode())  # base64, as the real one
        return
    check(arguments[:2] == ["s3", "cp"], f"aws {arguments}")
    places = [a for a in arguments[2:] if a not in ("--only-show-errors", "--region", "us-west-2")]
    here = [STATE / "bucket" / a.removeprefix("s3://").partition("/")[2] if a.startswith("s3://") else pathlib.Path(a) for a in places]
    check(here[0].is_file(), f"An error occurred (404): {places[0]}")
    here[1].parent.mkdir(parents=True, exist_ok=True)
    here[1].write_bytes(here[0].read_bytes())


def formatted():
    return (STATE / "formatted").exists()


def blkid(_arguments):
    if fault("disk"):
        raise Refused("cannot be read", 4)
    if not formatted():
        raise Refused("", 2)


def wipefs(_arguments):
    if formatted():
        print("0x438 ext4")


def mkfs(_arguments):
    check(not formatted(), "a disk with a file system would be overwritten")
    (STATE / "formatted").touch()


def mount(arguments):
    if "nfs4" in arguments:
        if fault("nfs"):
            raise Refused("mount.nfs4: Connection timed out", 32)
        check(arguments[-2] == "fs-1.efs.us-west-2.amazonaws.com:/", arguments[-2])
        source = STATE / "nfs"
    else:
        check(formatted() and arguments[-1] == "/var/lib/etcd", f"mount {arguments}")
        source = STATE / "disk"
    subprocess.run(["/bin/mount", "--bind", str(source), arguments[-1]], check=True)


def verify(certificate, key, usage):
    """openssl's word on a pair: signed by the cluster's CA, and the key belongs to it."""
    ca = ["openssl", "verify", "-CAfile", str(PKI / "ca.crt"), "-purpose", usage, str(PKI / certificate)]
    said = subprocess.run(ca, capture_output=True, text=True, check=False)
    check(said.returncode == 0, f"{certificate}: {said.stdout}{said.stderr}")
    of_certificate = subprocess.run(["openssl", "x509", "-in", str(PKI / certificate), "-noout", "-pubkey"], capture_output=True, check=True).stdout
    of_key = subprocess.run(["openssl", "pkey", "-in", str(PKI / key), "-pubout"], capture_output=True, check=True).stdout
    check(of_certificate == of_key, f"{key} is not the key of {certificate}")
    check((PKI / key).stat().st_mode & 0o77 == 0, f"{key} can be read by others")


def etcd_answers():
    environment = dict(os.environ, ETCDCTL_API="3")
    return subprocess.run([*ETCDCTL, "endpoint", "health"], env=environment, capture_output=True, check=False).returncode == 0


def start_etcd():
    """What the kubelet does with the manifest: a real etcd, with the certificates that the script put there."""
    pki = PKI / "etcd"
    command = ["/state/bin/etcd", "--name", "demo-controller", "--data-dir", "/var/lib/etcd/data",
               "--listen-client-urls", "https://127.0.0.1:2379", "--advertise-client-urls", "https://127.0.0.1:2379",
               "--listen-peer-urls", "https://127.0.0.1:2380", "--initial-advertise-peer-urls", "https://127.0.0.1:2380",
               "--initial-cluster", "demo-controller=https://127.0.0.1:2380",
               "--cert-file", str(pki / "server.crt"), "--key-file", str(pki / "server.key"), "--client-cert-auth",
               "--trusted-ca-file", str(pki / "ca.crt"), "--peer-cert-file", str(pki / "peer.crt"),
               "--peer-key-file", str(pki / "peer.key"), "--peer-client-cert-auth", "--peer-trusted-ca-file", str(pki / "ca.crt")]
    with open("/state/etcd.log", "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    save("etcd.json", process.pid)
    for _ in range(600):
        if etcd_answers():
            return
        check(process.poll() is None, "etcd ended: " + pathlib.Path("/state/etcd.log").read_text()[-800:])
        time.sleep(0.1)
    raise Refused("etcd does not respond")


def stop_etcd():
    pid = load("etcd.json", 0)
    if pid:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
        (STATE / "etcd.json").unlink()
        time.sleep(0.2)


def etcd_runs():
    pid = load("etcd.json", 0)
    if not pid or not pathlib.Path(f"/proc/{pid}").exists():
        return False
    if not (MANIFESTS / "etcd.yaml").exists():
        stop_etcd()  # the kubelet ends a static pod whose manifest has gone
        return False
    return True


def write_manifests(version):
    MANIFESTS.mkdir(parents=True, exist_ok=True)
    for name, image in (("kube-apiserver", f"kube-apiserver:v{version}"), ("etcd", "etcd:3.6.5-0")):
        (MANIFESTS / f"{name}.yaml").write_text(f"kind: Pod\n    image: registry.k8s.io/{image}\n")


def kubeadm(arguments):
    installed = load("packages.json", {})
    check("kubeadm" in installed, "command not found")
    version = installed["kubeadm"].split("-")[0]
    if arguments == ["version", "-o", "short"]:
        print(f"v{version}")
    elif arguments[0] == "init":
        kubeadm_init(arguments, version)
    elif arguments[:3] == ["upgrade", "apply", "-y"]:
        running = re.search(r"kube-apiserver:v1\.(\d+)", (MANIFESTS / "kube-apiserver.yaml").read_text()).group(1)
        check(arguments[3] == f"v{version}", f"{arguments[3]} with kubeadm {version}")
        check(int(version.split(".")[1]) - int(running) == 1, f"from 1.{running} to {version}: one minor version at a time")
        check(installed["kubelet"].startswith(f"1.{running}."), "the kubelet is newer than the API server")
        check(list((STATE / "bucket/etcd").glob("*.db")), "etcd was not saved before")
        write_manifests(version)
    elif arguments[:2] == ["certs", "renew"]:
        check(arguments[2] in ("admin.conf", "apiserver-kubelet-client", "controller-manager.conf", "etcd-healthcheck-client",
                               "front-proxy-client", "scheduler.conf", "super-admin.conf"), arguments[2])
    elif arguments == ["reset", "-f"]:
        check(not pathlib.Path("/var/lib/etcd/data").exists(), "reset would delete etcd")
    elif arguments[0] == "join":
        kubeadm_join(arguments)
    else:
        raise Refused(f"unknown command {arguments}")


def kubeadm_init(arguments, version):
    ignored = "".join(a for a in arguments if a.startswith("--ignore-preflight-errors="))
    config = pathlib.Path(arguments[arguments.index("--config") + 1]).read_text()
    minor = ".".join(version.split(".")[:2])
    for words in ("kubeadm.k8s.io/v1beta4", f"kubernetesVersion: stable-{minor}", "dataDir: /var/lib/etcd/data", "name: demo-controller",
                  'value: "aws:///us-west-2a/i-0abc"', "advertiseAddress: 10.0.128.10", "podSubnet: 10.244.0.0/16"):
        check(words in config, f"{words} is not in the configuration:\n{config}")
    data = pathlib.Path("/var/lib/etcd/data")
    if data.exists() and any(data.iterdir()) and "all" not in ignored:
        check("DirAvailable--var-lib-etcd-data" in ignored, "[ERROR DirAvailable--var-lib-etcd-data]: /var/lib/etcd/data is not empty")
    if pathlib.Path("/etc/kubernetes/admin.conf").exists():
        check("all" in ignored, "[ERROR FileAvailable--etc-kubernetes-admin.conf]")
    check(os.path.ismount("/var/lib/etcd"), "etcd would be on the machine's own disk")
    check(installed_all("containerd.io", "kubelet", "kubectl", "conntrack"), "packages are missing")
    for certificate, key, usage in (("apiserver.crt", "apiserver.key", "sslserver"), ("etcd/server.crt", "etcd/server.key", "sslserver"),
                                    ("etcd/peer.crt", "etcd/peer.key", "sslclient"), ("apiserver-etcd-client.crt", "apiserver-etcd-client.key", "sslclient")):
        verify(certificate, key, usage)
    if fault("init"):
        pathlib.Path("/etc/kubernetes/admin.conf").write_text("admin")  # kubeadm writes it before the control plane runs
        raise Refused("timed out waiting for the condition")
    for name in ("sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key"):
        if not (PKI / name).exists():
            (PKI / name).write_text(os.urandom(8).hex())
    for name in ("healthcheck-client.crt", "healthcheck-client.key"):
        source = {"crt": "apiserver-etcd-client.crt", "key": "apiserver-etcd-client.key"}[name[-3:]]
        (PKI / "etcd" / name).write_bytes((PKI / source).read_bytes())
    pathlib.Path("/etc/kubernetes/admin.conf").write_text("admin")
    write_manifests(version)
    start_etcd()


def installed_all(*names):
    return all(name in load("packages.json", {}) for name in names)


def kubeadm_join(arguments):
    check(installed_all("containerd.io", "kubelet", "nfs-common", "conntrack"), "packages are missing")
    config = pathlib.Path(arguments[arguments.index("--config") + 1]).read_text()
    for words in ("kubeadm.k8s.io/v1beta4", 'value: "aws:///us-west-2a/i-0abc"', "value: canoe.cluster=demo,canoe.group=very-large",
                  "kubeConfigPath: /etc/canoe/worker.kubeconfig"):
        check(words in config, f"{words} is not in the configuration:\n{config}")
    kubeconfig = json.loads(pathlib.Path("/etc/canoe/worker.kubeconfig").read_text())
    check(kubeconfig["clusters"][0]["cluster"]["server"] == "https://10.0.128.10:6443", "the controller's address")
    for path in (kubeconfig["clusters"][0]["cluster"]["certificate-authority"], kubeconfig["users"][0]["user"]["client-certificate"],
                 kubeconfig["users"][0]["user"]["client-key"]):
        check("BEGIN" in pathlib.Path(path).read_text(), f"{path} is no PEM")
    if fault("join"):
        raise Refused("couldn't validate the identity of the API Server: connection refused")
    pathlib.Path("/etc/kubernetes/kubelet.conf").write_text("kubelet")


def kubectl(arguments):
    check(os.environ["KUBECONFIG"] == "/etc/kubernetes/admin.conf", "KUBECONFIG")
    if fault("kubectl"):
        raise Refused("The connection to the server was refused")
    check(arguments[0] == "apply" and "--server-side" in arguments, arguments)
    source = arguments[arguments.index("-f") + 1]
    text = sys.stdin.read() if source == "-" else pathlib.Path(source).read_text()
    applied = load("applied.json", [])
    applied.append(text)
    save("applied.json", applied)


def crictl(arguments):
    config = pathlib.Path("/etc/crictl.yaml")
    check(config.is_file() and "runtime-endpoint: unix:///run/containerd/containerd.sock" in config.read_text(), "no endpoint is set")
    if arguments[0] == "ps":
        check(arguments[1:] == ["--name", "etcd", "--state", "Running", "-q"], arguments)
        if etcd_runs():
            print("container-1")
        return
    check(arguments[:3] == ["exec", "container-1", "etcdctl"], arguments)
    subprocess.run(["/state/bin/etcdctl", *arguments[3:]], env=dict(os.environ, ETCDCTL_API="3"), check=True)


def ctr(arguments):
    check(arguments[:3] == ["--namespace", "k8s.io", "run"] and "registry.k8s.io/etcd:3.6.5-0" in arguments, arguments)
    check(not etcd_runs() and load("etcd.json", 0) == 0, "etcd still runs")
    at = arguments.index("etcdutl")
    rest = [a.replace("https://10.0.128.10:2380", "https://127.0.0.1:2380") for a in arguments[at + 1:]]
    subprocess.run(["/state/bin/etcdctl", *rest], env=dict(os.environ, ETCDCTL_API="3"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


TOOLS = {"apt-get": apt_get, "apt-mark": lambda _: None, "dpkg": dpkg, "dpkg-query": dpkg_query, "curl": curl, "gpg": gpg,
         "containerd": containerd, "systemctl": systemctl, "modprobe": lambda _: None, "sysctl": lambda _: None, "aws": aws,
         "blkid": blkid, "wipefs": wipefs, "mkfs.ext4": mkfs, "mount": mount, "kubeadm": kubeadm, "kubectl": kubectl,
         "crictl": crictl, "ctr": ctr}


def main():
    name = os.path.basename(sys.argv[0])
    if name == "machine_tools.py":  # called by machines.py inside the machine
        {"start-etcd": start_etcd, "stop-etcd": stop_etcd}[sys.argv[1]]()
        return
    with open(STATE / "calls", "a") as log:
        log.write(json.dumps([name, *sys.argv[1:]]) + "\n")
    try:
        TOOLS[name](sys.argv[1:])
    except Refused as refusal:
        print(f"{name}: {refusal}", file=sys.stderr)
        sys.exit(refusal.code)


if __name__ == "__main__":
    main()
