"""NetworkPolicies, enforced: every pod that one selects gets rules in its own network namespace, as a CNI would make them.

What comes from the machine itself (probes of the kubelet) is let in, as clusters do; all else must be in a policy.
"""
import subprocess
import threading

from network import HUB_ADDRESS
from shutil import which


def why_not():
    """Why policies are not enforced here; None if they are."""
    return None if which("iptables-restore") else "iptables is not there"


class Policies:
    """Who is in the network, under which namespace and labels, and which policies there are."""

    def __init__(self):
        self.list, self.members, self.lock = [], {}, threading.RLock()

    def keep(self, policies):
        """From now on there are these and no others."""
        with self.lock:
            if policies != self.list:
                self.list = policies
                self.refresh()

    def join(self, place, namespace, labels, address):
        with self.lock:
            self.members[place] = (namespace, dict(labels), address)
            self.refresh()

    def leave(self, place):
        with self.lock:
            self.members.pop(place, None)

    def refresh(self):
        if why_not():
            return
        for place, (namespace, labels, _) in self.members.items():
            chosen = [policy for policy in self.list if policy["metadata"]["namespace"] == namespace and matches(policy["spec"]["podSelector"], labels)]
            subprocess.run(["ip", "netns", "exec", place, "iptables-restore"], input=self.rules(chosen), text=True, check=True)

    def rules(self, policies):
        lines = []
        for chain, direction, side, device in (("INPUT", "ingress", "-s", "-i"), ("OUTPUT", "egress", "-d", "-o")):
            concerned = [policy for policy in policies if direction.capitalize() in policy["spec"]["policyTypes"]]
            lines.append(f":{chain} {'DROP' if concerned else 'ACCEPT'} [0:0]")
            lines.append(f"-A {chain} {device} lo -j ACCEPT")
            lines.append(f"-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT")
            if chain == "INPUT":
                lines.append(f"-A {chain} -s {HUB_ADDRESS} -j ACCEPT")
            for policy in concerned:
                for rule in policy["spec"].get(direction, []):
                    for address in self.addresses(rule.get("from" if direction == "ingress" else "to"), policy["metadata"]["namespace"]):
                        for port in rule.get("ports") or [None]:
                            what = f" -p {port['protocol'].lower()} --dport {port['port']}" if port else ""
                            lines.append(f"-A {chain}{f' {side} {address}' if address else ''}{what} -j ACCEPT")
        # A table begins with its chains.
        lines.sort(key=lambda line: not line.startswith(":"))
        return "\n".join(["*filter", *lines, "COMMIT", ""])

    def addresses(self, peers, own):
        """The addresses that a rule speaks of; one that names nobody means all."""
        if not peers:
            return [None]
        found = []
        for peer in peers:
            for namespace, labels, address in self.members.values():
                right_space = matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace}) if "namespaceSelector" in peer else namespace == own
                if right_space and matches(peer.get("podSelector", {}), labels):
                    found.append(address)
        return found


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
