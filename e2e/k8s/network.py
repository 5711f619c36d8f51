"""A network of its own for pods: namespaces on a bridge, with a name server. Nothing of it is visible to the host.

One namespace, the hub, holds the bridge, the name server and whatever else the test binds there (the API server);
every pod has a namespace with one interface, `eth0`, and an address of 10.77.0.0/16.
"""
import ctypes
import os
import socket
import struct
import subprocess
import threading
import time

HUB_ADDRESS = "10.77.0.1"
DOMAIN = "svc.cluster.local"
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def why_not():
    """Why namespaces cannot be made here; None if they can."""
    name = f"canoe-probe-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "br0", "type", "bridge")
            run("ip", "netns", "exec", name, "unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt")
        finally:
            run("ip", "netns", "del", name)
    except (RuntimeError, FileNotFoundError) as error:
        return str(error)
    return None


def remove_leftovers():
    """Namespaces of an earlier run that was killed."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        parts = name.split("-")
        if parts[0] == "canoe" and len(parts) == 3 and parts[1].isdigit() and not os.path.exists(f"/proc/{parts[1]}"):
            run("ip", "netns", "del", name)


class inside:
    """Sockets that are made in this block belong to the namespace. Only the calling thread moves."""

    def __init__(self, namespace):
        self.namespace = namespace

    def __enter__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._enter(os.open(f"/run/netns/{self.namespace}", os.O_RDONLY))

    def __exit__(self, *_):
        self._enter(self.home)

    @staticmethod
    def _enter(descriptor):
        try:
            if libc.setns(descriptor, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)


class Network:
    """The hub and the namespaces of pods. `close` removes all of them."""

    def __init__(self):
        remove_leftovers()
        self.prefix = f"canoe-{os.getpid()}"
        self.hub = f"{self.prefix}-hub"
        self.namespaces = []
        self.names = {}
        # For how long the name server repeats what it said of a name, as those of real clusters do.
        self.remembers, self.said = 0, {}
        self.next_address = 10
        self.lock = threading.Lock()
        run("ip", "netns", "add", self.hub)
        self.namespaces.append(self.hub)
        hub = ("ip", "-n", self.hub)
        run(*hub, "link", "set", "lo", "up")
        run(*hub, "link", "add", "br0", "type", "bridge")
        run(*hub, "addr", "add", f"{HUB_ADDRESS}/16", "dev", "br0")
        run(*hub, "link", "set", "br0", "up")
        with inside(self.hub):
            self.dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.dns.bind((HUB_ADDRESS, 53))
        threading.Thread(target=self._answer_names, daemon=True).start()

    def add(self):
        """A namespace for one pod; its name and address. No address is given out twice."""
        with self.lock:
            number, self.next_address = self.next_address, self.next_address + 1
        name, link = f"{self.prefix}-{number}", f"pod{number}"
        address = f"10.77.{number // 250}.{number % 250}"
        run("ip", "netns", "add", name)
        self.namespaces.append(name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", link, "netns", self.hub)
        run("ip", "-n", self.hub, "link", "set", link, "master", "br0", "up")
        pod = ("ip", "-n", name)
        run(*pod, "link", "set", "lo", "up")
        run(*pod, "addr", "add", f"{address}/16", "dev", "eth0")
        run(*pod, "link", "set", "eth0", "up")
        return name, address

    def cut(self, namespace, is_cut):
        """Takes a pod's link away, or gives it back. The pod itself sees an interface that is up."""
        link = f"pod{namespace.rsplit('-', 1)[1]}"
        run("ip", "-n", self.hub, "link", "set", link, "down" if is_cut else "up")

    def remove(self, namespace):
        run("ip", "netns", "del", namespace)
        self.namespaces.remove(namespace)

    def close(self):
        self.dns.close()
        for namespace in list(self.namespaces):
            self.remove(namespace)

    def _answer_names(self):
        while True:
            try:
                query, sender = self.dns.recvfrom(512)
                now, question = time.monotonic(), query[12:]
                if self.said.get(question, (0, b""))[0] < now:
                    self.said[question] = now + self.remembers, answer(query, self.names)[2:]
                self.dns.sendto(query[:2] + self.said[question][1], sender)
            except OSError:
                return
            except (struct.error, IndexError, UnicodeDecodeError):
                continue


def answer(query, names):
    """The answer to a DNS query: an A record, nothing of that kind, or no such name."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += query[at] + 1
    kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
    question = query[12 : at + 5]
    address = names.get(".".join(labels).lower())
    code = 0 if address else 3
    records = b""
    if address and kind == 1:
        records = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
    head = query[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, 1 if records else 0, 0, 0)
    return head + question + records
