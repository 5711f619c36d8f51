#!/usr/bin/env python3
"""Runs the user data of a self-managed cluster for real: both roles, to their ends, on machines that are namespaces.

    machines.py --canoe target/debug/canoe --etcd DIR      DIR has etcd and etcdctl (Debian: etcd-server, etcd-client)

A machine is this system's root under an overlay, in namespaces of its own; its first boot does what cloud-init does
with our user data. Programs that would change a real machine are stand-ins that refuse what the real ones refuse
(machine_tools.py); etcd, its TLS and its snapshots are real. Needs root.

The controller comes up, is killed and restarted, is replaced by a new machine, upgrades itself, gets new certificates,
and restores a saved etcd; what was in etcd is there every time. A worker joins a controller that is not ready yet.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import uuid

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ID = "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11"
VOLUME = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"


class Machine:
    """One machine; `disk` (with etcd), `bucket` and `nfs` are shared with others through `state`."""

    def __init__(self, scratch, state, user_data):
        self.state, self.user_data = state, yaml.safe_load(user_data.read_text())
        self.root = pathlib.Path(tempfile.mkdtemp(dir=scratch))
        for name in ("upper", "work", "merged"):
            (self.root / name).mkdir()
        self.boot_id = uuid.uuid4()
        for name in ("packages.json", "etcd.json"):
            (state / name).unlink(missing_ok=True)
        self.first = True

    def inside(self, script, ok=True):
        """Runs a shell script on the machine; what it printed."""
        merged = self.root / "merged"
        prepare = f"""set -e
mount -t overlay o -o lowerdir=/,upperdir={self.root}/upper,workdir={self.root}/work {merged}
mount -t proc proc {merged}/proc
mount -t tmpfs run {merged}/run
mount -t tmpfs dev {merged}/tmp
mkdir -p {merged}/state {merged}/etc/sysctl.d {merged}/etc/modules-load.d {merged}/usr/share/keyrings
mount --bind {self.state} {merged}/state
mount -t tmpfs dev {merged}/dev
for name in null zero urandom; do touch {merged}/dev/$name; mount --bind /dev/$name {merged}/dev/$name; done
ln -s /proc/self/fd {merged}/dev/fd
ln -s /proc/self/fd/0 {merged}/dev/stdin
mkdir -p {merged}/dev/disk/by-id && touch {merged}{VOLUME}
echo {self.boot_id} > {merged}/run/boot_id
mount --bind {merged}/run/boot_id {merged}/proc/sys/kernel/random/boot_id
ip link set lo up
if [ -e {merged}/etc/fstab ] && grep -q ' /var/lib/etcd ' {merged}/etc/fstab; then mount --bind {self.state}/disk {merged}/var/lib/etcd; fi
cat > {merged}/run/work.sh
exec chroot {merged} env -i PATH=/state/tools:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin CANOE_PAUSE=0.05 HOME=/root bash /run/work.sh
"""
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", prepare]
        result = subprocess.run(command, input=script, capture_output=True, text=True, timeout=900, check=False)
        text = result.stdout + result.stderr
        assert ok is None or (result.returncode == 0) == ok, f"ended with {result.returncode}:\n{text}\n{script}"
        return text

    def boot_script(self):
        """What the machine does when it starts: cloud-init at the first boot, then the units that it enabled."""
        script = ""
        if self.first:
            for file in self.user_data["write_files"]:
                text = base64.b64encode(file["content"].encode()).decode()
                script += f"install -D -m {file['permissions']} /dev/stdin {file['path']} < <(echo {text} | base64 -d)\n"
            script += "".join(" ".join(line) + "\n" for line in self.user_data["runcmd"])
            self.first = False
        # The kubelet starts what has a manifest, as soon as the disk that it waits for is there.
        script += """if [ -e /etc/kubernetes/manifests/etcd.yaml ]; then
  grep -q RequiresMountsFor=/var/lib/etcd /etc/systemd/system/kubelet.service.d/*.conf
  mountpoint -q /var/lib/etcd
  /state/tools/machine_tools.py start-etcd
fi
"""
        return script + "grep -q ExecStart=/usr/local/sbin/canoe-node /etc/systemd/system/canoe-node.service\n/usr/local/sbin/canoe-node\n"

    def boot(self, then="", ok=True):
        """Boots, does `then`, and is killed: every process of the machine dies at once."""
        self.boot_id = uuid.uuid4()
        (self.state / "etcd.json").unlink(missing_ok=True)
        (self.state / "calls").unlink(missing_ok=True)
        return self.inside("set -e\n" + self.boot_script() + then, ok)

    def calls(self, *names):
        lines = (self.state / "calls").read_text().splitlines()
        return [" ".join(json.loads(line)) for line in lines if json.loads(line)[0] in names]


PUT = 'ETCDCTL_API=3 /state/bin/etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt ' \
      '--cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key '


def put(key, value):
    return f"{PUT} put {key} {value} > /dev/null\n"


def expect(key, value):
    return f'found=$({PUT} get {key} --print-value-only)\n[ "$found" = "{value}" ] || {{ echo "{key} is $found, not {value}"; exit 9; }}\n'


def faults(state, **wanted):
    (state / "faults.json").write_text(json.dumps(wanted))


class Cluster:
    """The cluster's folder and its bucket."""

    def __init__(self, canoe, scratch):
        self.canoe, self.folder, self.state = canoe, scratch / "cluster", scratch / "state"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(scratch), "AWS_REGION": "us-west-2", "AWS_EC2_METADATA_DISABLED": "true"}
        self.run("init", "demo", "--region", "us-west-2", "--self-managed", "--egress", "public", "--zones", "us-west-2a", "--allow", "203.0.113.7/32")
        path = self.folder / "cluster.yaml"
        text = path.read_text().replace("groups: []", "groups: [{name: very-large, count: 1, instanceTypes: [m5.4xlarge]}]")
        path.write_text(re.sub(r"(?m)^id: .*$", f'id: "{ID}"', text))
        self.run("render", "credentials", "--generate-ca")

    def run(self, *arguments):
        result = subprocess.run([self.canoe, "cluster", "--dir", str(self.folder), *arguments], env=self.environment,
                                capture_output=True, text=True, timeout=240, check=False)
        assert result.returncode == 0, f"{arguments}: {result.stdout}{result.stderr}"

    def version(self, version):
        path = self.folder / "cluster.yaml"
        path.write_text(re.sub(r'(?m)^kubernetesVersion: .*$', f'kubernetesVersion: "{version}"', path.read_text()))

    def upload(self):
        """What `up` does: assets encrypted (by the stand-in's KMS), scripts rendered and put into the bucket."""
        for path in (self.folder / "credentials").glob("*.pem"):
            (path.parent / f"{path.name}.enc").write_bytes(b"canoe=demo|" + base64.b64encode(path.read_bytes()))
        self.run("render", "stack")
        for role in ("controller", "worker"):
            script = (self.folder / f"userdata/{role}.sh").read_text()
            assert "PRIVATE KEY" not in script
            script = script.replace("ETCD-VOLUME-ID", "vol-0123456789abcdef0").replace("FILE-SYSTEM-ID", "fs-1")
            target = self.state / f"bucket/node/{role}.sh"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(script)

    def user_data(self, role):
        return self.folder / f"userdata/cloud-config-{role}"


def controller(cluster, scratch):
    state = cluster.state
    faults(state, **{"apt-get": 2, "curl": 0, "kubectl": 2})
    cluster.upload()
    machine = Machine(scratch, state, cluster.user_data("controller"))
    machine.boot(put("/registry/jobs/train", "first") + """
/usr/local/sbin/canoe-node    # the timer comes again: nothing is done
[ -e /var/lib/canoe/done ] && [ "$(stat -c %a /etc/kubernetes/pki/ca.key)" = 600 ]
test -f /etc/systemd/system/canoe-etcd-backup.timer
""")
    calls = machine.calls("kubeadm")
    assert calls == ["kubeadm init --config /etc/canoe/kubeadm.yaml"], calls
    order = machine.calls("mkfs.ext4", "mount", "kubeadm", "kubectl", "systemctl")
    first = [next(i for i, call in enumerate(order) if call.startswith(name)) for name in ("mkfs.ext4", "mount", "kubeadm init", "kubectl apply")]
    assert first == sorted(first), order
    assert any("canoe-etcd-backup.timer" in call for call in order), order
    applied = json.loads((state / "applied.json").read_text())
    assert any('"Network": "10.244.0.0/16"' in text for text in applied) and any("cloud-node-lifecycle-controller" in text for text in applied)
    print("controller: from an empty machine to a running control plane, with packages and an API server that fail at first")
    # Killed, and started again.
    machine.boot(expect("/registry/jobs/train", "first") + put("/registry/jobs/train", "second"))
    assert machine.calls("kubeadm", "mkfs.ext4") == [], machine.calls("kubeadm", "mkfs.ext4")
    print("killed and restarted: etcd has everything, nothing is initialized again")
    # Another machine with the same disk.
    key = machine.inside("cat /etc/kubernetes/pki/sa.key").strip()
    other = Machine(scratch, state, cluster.user_data("controller"))
    faults(state, init=1)
    other.boot(ok=False)  # kubeadm gives up in the middle; systemd starts the service again
    other.boot(expect("/registry/jobs/train", "second"))
    calls = other.calls("kubeadm", "mkfs.ext4")
    assert calls == ["kubeadm init --config /etc/canoe/kubeadm.yaml --ignore-preflight-errors=all"], calls
    assert other.inside("cat /etc/kubernetes/pki/sa.key").strip() == key, "tokens of running pods would end"
    print("replaced by a new machine, and kubeadm interrupted: etcd and the keys of service accounts are those of before")
    return other


def changes(cluster, machine):
    state = cluster.state
    cluster.version("1.36")
    cluster.upload()
    machine.boot(expect("/registry/jobs/train", "second") + put("/registry/jobs/train", "third"))
    calls = [call for call in machine.calls("kubeadm", "apt-get") if "install" in call or call.startswith("kubeadm")]
    wanted = ["apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends kubeadm", "kubeadm version -o short",
              "kubeadm upgrade apply -y v1.36.3", "apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends kubelet kubectl"]
    assert [call for call in calls if call in wanted] == wanted, calls
    saved = [path.name for path in (state / "bucket/etcd").iterdir()]
    assert len(saved) == 1 and re.fullmatch(r"[1-7]-(0|6|12|18)\.db", saved[0]), saved
    print("upgrade: etcd is saved, then kubeadm, the control plane and the kubelet, in this order; the machine stays")
    before = machine.inside("cat /etc/kubernetes/pki/apiserver.crt")
    cluster.run("render", "credentials", "--force")
    cluster.upload()
    machine.boot(expect("/registry/jobs/train", "third") + "ls /etc/kubernetes/manifests/etcd.yaml\n")
    renewed = [call.split()[-1] for call in machine.calls("kubeadm") if "certs renew" in call]
    assert len(renewed) == 7 and "apiserver-kubelet-client" in renewed, renewed
    assert machine.inside("cat /etc/kubernetes/pki/apiserver.crt") != before
    print("new certificates: put in place, those of kubeadm renewed with them, the control plane restarted")
    machine.boot(f"""
/usr/local/sbin/canoe-etcd-backup
{put("/registry/jobs/train", "by mistake")}
/usr/local/sbin/canoe-etcd-restore "$(ls -t /state/bucket/etcd | head -n 1)"
/state/tools/machine_tools.py start-etcd
{expect("/registry/jobs/train", "third")}
ls -d /var/lib/etcd/data-until-* > /dev/null
""")
    print("restore: etcd as it was saved; the one of before is kept beside it")


def refusals(cluster, scratch):
    state = cluster.state
    cluster.version("1.36")
    cluster.upload()
    (state / "containerd.json").write_text('"1.6.20"')
    old = Machine(scratch, state, cluster.user_data("controller"))
    said = old.boot(ok=False)
    assert "containerd 1.6 is too old: Kubernetes 1.36 needs 2.0 or later" in said, said
    (state / "containerd.json").unlink()
    for name, words in (("disk", "cannot be read"), ("key", "")):
        faults(state, **{name: 1})
        machine = Machine(scratch, state, cluster.user_data("controller"))
        said = machine.boot(ok=False)
        assert words in said, said
        assert machine.calls("kubeadm", "mkfs.ext4") == [], machine.calls("kubeadm", "mkfs.ext4")
    print("an old containerd, a disk that cannot be read, packages signed by somebody else: stopped, with the reason")


def worker(cluster, scratch):
    state = cluster.state
    faults(state, join=3, nfs=2)
    user_data = cluster.folder / "userdata/cloud-config-of-group"
    document = yaml.safe_load(cluster.user_data("worker").read_text())
    document["write_files"].append({"path": "/etc/canoe/group", "permissions": "0644", "content": "very-large\n"})
    user_data.write_text(yaml.safe_dump(document))
    machine = Machine(scratch, state, user_data)
    machine.boot("test -e /etc/kubernetes/kubelet.conf\ntest ! -e /etc/kubernetes/pki/ca.key\n")
    joins = [call for call in machine.calls("kubeadm") if "join" in call]
    assert len(joins) == 4 and "ssm" in " ".join(machine.calls("curl")), joins
    assert (state / "nfs/canoe").stat().st_uid == 10001 and (state / "nfs/canoe").stat().st_mode & 0o777 == 0o750
    machine.boot()
    assert machine.calls("kubeadm", "apt-get") == [], "a worker that has joined does nothing more"
    print("worker: joins at the fourth attempt, with its label and its machine's id; the jobs' directory is made")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--etcd", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("machines are namespaces and need root")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="canoe-machines-"))
    subprocess.run(["mount", "-t", "tmpfs", "canoe-machines", str(scratch)], check=True)
    try:
        state = scratch / "state"
        for name in ("bin", "tools", "disk", "nfs", "bucket"):
            (state / name).mkdir(parents=True)
        for name in ("etcd", "etcdctl"):
            shutil.copy(arguments.etcd / name, state / "bin" / name)
        sys.path.insert(0, str(HERE))
        import machine_tools

        tools = state / "tools/machine_tools.py"
        # The system's own Python, without site packages: it starts hundreds of times.
        tools.write_text((HERE / "machine_tools.py").read_text().replace("#!/usr/bin/env python3", f"#!{os.path.realpath('/usr/bin/python3')} -IS", 1))
        tools.chmod(0o755)
        for name in machine_tools.TOOLS:
            (state / "tools" / name).symlink_to("machine_tools.py")
        cluster = Cluster(os.path.abspath(arguments.canoe), scratch)
        machine = controller(cluster, scratch)
        changes(cluster, machine)
        worker(cluster, scratch)
        refusals(cluster, scratch)
    finally:
        subprocess.run(["umount", "-l", str(scratch)], check=False)
        scratch.rmdir()


if __name__ == "__main__":
    main()
