"""Runs pods as a kubelet does, as far as a training job can tell the difference.

A pod is a process tree in namespaces of its own (network, processes, mounts) with a read-only root made of this
machine's /usr, the program under test, and the volumes that its manifest names: claims are folders, config maps and
secrets become files, emptyDir is a scratch folder. User, group, capabilities and probes are the manifest's.
"""
import base64
import http.client
import os
import shutil
import signal
import subprocess
import threading
import time

from network import DOMAIN, HUB_ADDRESS, inside
from policies import Policies

PROGRAMS = "/opt/canoe"

# The first argument is the new root; then comes the command. Mounts are made before the root becomes read-only.
INIT = """
set -eu
root=$1
mount --make-rprivate /
mount -t tmpfs -o mode=755 root "$root"
mkdir "$root/usr" "$root/proc" "$root/sys" "$root/dev" "$root/etc" "$root/opt" "$root{programs}" "$root/tmp"
for link in bin sbin lib lib64; do [ -L "/$link" ] && cp -P "/$link" "$root/$link" || {{ mkdir "$root/$link"; mount --rbind "/$link" "$root/$link"; }}; done
mount --rbind /usr "$root/usr"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
for file in passwd group nsswitch.conf ld.so.cache ssl; do cp -r "/etc/$file" "$root/etc/"; done
printf '%s' '{resolv}' > "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\\n{address} {hostname}\\n' > "$root/etc/hosts"
{program}
{mounts}
mount -o remount,bind,ro "$root"
hostname '{hostname}'
exec chroot "$root" setpriv --reuid={user} --regid={group} --groups={group} --no-new-privs --bounding-set=-all --inh-caps=-all \\
    env -i {variables} sh -c 'cd {directory}; exec "$@"' sh {command}
"""


def quote(text):
    return "'" + str(text).replace("'", "'\\''") + "'"


class Pod:
    """A pod that has been given a machine: its process, its address and its state."""

    def __init__(self, kubelet, manifest, has_canoe=True):
        self.kubelet, self.manifest, self.has_canoe = kubelet, manifest, has_canoe
        self.metadata, self.spec = manifest["metadata"], manifest["spec"]
        self.name = self.metadata["name"]
        self.folder = os.path.join(kubelet.folder, "pods", f"{self.metadata['namespace']}_{self.metadata.get('uid', self.name)}")
        self.namespace, self.address = kubelet.network.add()
        kubelet.policies.join(self.namespace, self.metadata["namespace"], self.metadata.get("labels", {}), self.address)
        self.ready, self.code, self.process, self.killed_by_probe = False, None, None, False
        self.is_main = False
        self.killed_for_memory, self.is_evicted, self.is_killed = False, False, False
        self.log_path = os.path.join(self.folder, "log")
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o711)
        open(self.log_path, "w").close()

    def run(self):
        """Init containers one after the other, then the container; the exit code of what ended it."""
        host = self.host_name()
        if host:
            self.kubelet.network.names[host] = self.address
        for container in self.spec.get("initContainers", []) + self.spec["containers"][:1]:
            self.begin(container)
            self.is_main = container is self.spec["containers"][0]
            code = self.process.wait()
            # `unshare` cannot end by SIGKILL as its child did.
            self.code = 137 if code == 1 and self.is_killed else code
            self.process = None
            if self.code != 0:
                break
        # The name goes with the pod, unless a successor has it already.
        if host and self.kubelet.network.names.get(host) == self.address:
            del self.kubelet.network.names[host]
        self.ready = False
        return self.code

    def host_name(self):
        hostname, subdomain = self.spec.get("hostname"), self.spec.get("subdomain")
        if not hostname or not subdomain:
            return None
        return f"{hostname}.{subdomain}.{self.metadata['namespace']}.{DOMAIN}"

    def begin(self, container):
        root = os.path.join(self.folder, f"root-{container['name']}")
        os.makedirs(root, exist_ok=True)
        security = self.spec.get("securityContext", {})
        variables = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "HOSTNAME": self.spec.get("hostname", self.name)}
        variables |= {"KUBERNETES_SERVICE_HOST": HUB_ADDRESS, "KUBERNETES_SERVICE_PORT_HTTPS": str(self.kubelet.api_port)}
        variables |= {variable["name"]: self.value(variable) for variable in container.get("env", [])}
        for source in container.get("envFrom", []):
            content = self.kubelet.content("secret", self.metadata["namespace"], source["secretRef"]["name"])
            variables |= {name: value.decode() for name, value in content.items()}
        command = container.get("command", []) + container.get("args", [])
        namespace = self.metadata["namespace"]
        script = INIT.format(
            programs=PROGRAMS,
            program=f'touch "$root{PROGRAMS}/canoe"; mount --bind {quote(self.kubelet.binary)} "$root{PROGRAMS}/canoe"' if self.has_canoe else "",
            resolv=f"nameserver {HUB_ADDRESS}\nsearch {namespace}.{DOMAIN} {DOMAIN}\noptions ndots:5 timeout:1\n",
            address=self.address,
            hostname=self.spec.get("hostname", self.name)[:63],
            mounts="\n".join(self.mounts(container, root)),
            user=security.get("runAsUser", 0),
            group=security.get("runAsGroup", 0),
            variables=" ".join(f"{name}={quote(value)}" for name, value in variables.items()),
            directory="/tmp",
            command=" ".join(quote(word) for word in command),
        )
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", root],
            stdin=subprocess.DEVNULL,
            stdout=open(self.log_path, "ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for kind in ("readinessProbe", "livenessProbe"):
            if kind in container:
                threading.Thread(target=self.probe, args=(kind, container, self.process), daemon=True).start()

    def value(self, variable):
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        if field is None:
            return variable.get("value", "")
        index = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        known = {"status.podIP": self.address, "metadata.name": self.name, "metadata.namespace": self.metadata["namespace"]}
        known[index] = self.metadata.get("labels", {}).get("batch.kubernetes.io/job-completion-index", "")
        return known[field]

    def mounts(self, container, root):
        volumes = {volume["name"]: self.folder_of(volume) for volume in self.spec.get("volumes", [])}
        # An account's token is mounted unless the pod, or else the account, says no.
        if self.spec.get("automountServiceAccountToken", True) and self.kubelet.account_folder:
            volumes["account"] = self.kubelet.account_folder
            account = {"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        else:
            account = None
        for mount in container.get("volumeMounts", []) + ([account] if account else []):
            place = quote(root + mount["mountPath"])
            yield f"mkdir -p {place}; mount --bind {quote(volumes[mount['name']])} {place}"
            if mount.get("readOnly"):
                yield f"mount -o remount,bind,ro {place}"

    def folder_of(self, volume):
        name = volume["name"]
        if "persistentVolumeClaim" in volume:
            return self.kubelet.claim_folder(self.metadata["namespace"], volume["persistentVolumeClaim"]["claimName"])
        folder = os.path.join(self.folder, "volumes", name)
        os.makedirs(folder, exist_ok=True)
        if "emptyDir" in volume:
            os.chmod(folder, 0o777)
        for kind, key in (("configMap", "name"), ("secret", "secretName")):
            if kind in volume:
                content = self.kubelet.content(kind, self.metadata["namespace"], volume[kind][key])
                files = {item["key"]: item["path"] for item in volume[kind].get("items", [])} or {k: k for k in content}
                mode = volume[kind].get("defaultMode", 0o644)
                publish(folder, {path: content[key_] for key_, path in files.items()}, mode, self.spec["securityContext"].get("fsGroup", 0))
        return folder

    def probe(self, kind, container, process):
        probe = container[kind]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        wanted = probe["httpGet"]["port"]
        port = ports.get(wanted, wanted)
        failures = 0
        while self.process is process:
            passed = self.ask(port, probe["httpGet"]["path"])
            failures = 0 if passed else failures + 1
            if kind == "readinessProbe":
                self.ready = passed
                self.kubelet.changed(self)
            elif failures * probe.get("periodSeconds", 10) > 30 + probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10):
                self.killed_by_probe = True
                self.signal(signal.SIGKILL)
            time.sleep(0.5 if kind == "readinessProbe" else probe.get("periodSeconds", 10))

    def ask(self, port, path):
        try:
            with inside(self.kubelet.network.hub):
                connection = http.client.HTTPConnection(self.address, port, timeout=2)
                connection.connect()
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def first_process(self):
        """The process that is number 1 inside."""
        process = self.process
        if process is None:
            return None
        # `ip netns exec` and `unshare` are one process; its child is the pod.
        try:
            children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def all_processes(self):
        first = self.first_process()
        found, rest = [], [first] if first else []
        while rest:
            process = rest.pop()
            found.append(process)
            try:
                for task in os.listdir(f"/proc/{process}/task"):
                    rest += map(int, open(f"/proc/{process}/task/{task}/children").read().split())
            except OSError:
                pass
        return found

    def signal(self, number):
        """To the first process, as a kubelet does; SIGKILL to it ends all, SIGSTOP and SIGCONT go to all."""
        everyone = number in (signal.SIGSTOP, signal.SIGCONT)
        self.is_killed |= number == signal.SIGKILL
        for process in self.all_processes() if everyone else [self.first_process()]:
            if process:
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    pass

    def execute(self, command, **pipes):
        """Starts a command in the pod, as `kubectl exec` does."""
        security = self.spec.get("securityContext", {})
        user, group = security.get("runAsUser", 0), security.get("runAsGroup", 0)
        who = ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={group}", "--no-new-privs"]
        enter = ["nsenter", "-t", str(self.first_process()), "--net", "--mount", "--pid", "--uts", "--root", "--wdns=/tmp"]
        variables = [f"PATH={PROGRAMS}:/usr/bin:/bin", "HOME=/tmp"]
        return subprocess.Popen(enter + who + ["env", "-i"] + variables + command, **pipes)

    def log(self):
        with open(self.log_path, "rb") as file:
            return file.read().decode(errors="replace")

    def remove(self):
        self.signal(signal.SIGKILL)
        self.kubelet.policies.leave(self.namespace)
        self.kubelet.network.remove(self.namespace)
        shutil.rmtree(self.folder, ignore_errors=True)


def publish(folder, files, mode, group):
    """As a kubelet does: a hidden folder with the version, a link to it, and links into that for what is seen."""
    version = "..2026_01_01_00_00_00.1"
    for path, content in files.items():
        write(os.path.join(folder, version, path), content, mode, group)
    seen = {path.split("/")[0] for path in files}
    links = {"..data": version} | {name: os.path.join("..data", name) for name in seen}
    for name, target in links.items():
        if not os.path.islink(os.path.join(folder, name)):
            os.symlink(target, os.path.join(folder, name))


def write(path, content, mode, group):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chown(path, 0, group)
    os.chmod(path, mode)


class Kubelet:
    """All machines of the cluster at once."""

    def __init__(self, network, folder, binary):
        self.network, self.folder, self.binary = network, folder, binary
        self.api_port = 6443
        self.account_folder = None
        self.contents = {}
        self.policies = Policies()
        os.makedirs(os.path.join(folder, "claims"), exist_ok=True)
        os.chmod(folder, 0o755)

    def pod(self, manifest, has_canoe):
        return Pod(self, manifest, has_canoe)

    def claim_folder(self, namespace, claim):
        folder = os.path.join(self.folder, "claims", f"{namespace}_{claim}")
        if not os.path.isdir(folder):
            os.makedirs(folder)
            os.chmod(folder, 0o777)
        return folder

    def keep(self, thing):
        """Remembers a ConfigMap or a Secret for the pods that mount it."""
        kind = {"ConfigMap": "configMap", "Secret": "secret"}[thing["kind"]]
        content = {key: text.encode() for key, text in thing.get("data", {}).items()}
        if kind == "secret":
            content = {key: base64.b64decode(text) for key, text in content.items()}
        content |= {key: base64.b64decode(text) for key, text in thing.get("binaryData", {}).items()}
        self.contents[kind, thing["metadata"]["namespace"], thing["metadata"]["name"]] = content

    def content(self, kind, namespace, name):
        return self.contents[kind, namespace, name]

    def changed(self, pod):
        """A pod's state may have changed; whoever shows it overrides this."""
