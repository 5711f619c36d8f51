#!/usr/bin/env python3
"""Runs what README.md, docs/aws.md and the cluster section of docs/from-the-tutorial.md print: every command, as it stands there, on a terminal of 80 columns.

    documented.py --canoe target/debug/canoe --ministack path/to/ministack

The commands go to ministack. Questions are answered with y. Every line that docs/aws.md shows under a command must
be printed by that command; numbers and ids may differ. After `down` the aws command line must find nothing.
Credentials come from ~/.aws/credentials, and while the commands run, the argument lists and environments of all
processes are searched for the secret, as are stack events and templates.

ministack knows no NAT gateways and no EKS add-ons in a stack, so these two lines of cluster.yaml are edited after
`init`. It has no Kubernetes either: cluster.py has one, with as many machines as the documents show.
"""

import argparse
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import threading
import time

from place import REGION, SECRET, Place, inventory, ministack, proxy

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Lines of docs/aws.md that the stand-in cannot print, and why.
NOT_HERE = {
    "permissions": "the stand-in's caller is the root user",
    "user/me": "the same",
    "instance types": "the stand-in does not list what zones offer",
    "EKS: offers": "the stand-in does not list versions",
    "quota": "the stand-in has no quotas",
    "STANDARD_SUPPORT": "the stand-in does not list versions",
    "as arn:": "the same",
    "NAT gateway": "edited to public addresses",
    "…": "left out",
}

def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.S | re.M)


def readme_commands():
    lines = [line for block in blocks(ROOT / "README.md", "sh aws") for line in block.splitlines()]
    return [(line.split("  #")[0].strip(), []) for line in lines if line.startswith("canoe cluster")]


def documented_commands():
    """Commands of docs/aws.md, each with the lines that it is said to print."""
    found = []
    for block in blocks(ROOT / "docs/aws.md", "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].split("  #")[0].strip(), []))
            elif found and line.strip():
                found[-1][1].append(line)
    return found


def tutorial_commands():
    """Commands in the table of the cluster, with its placeholders filled in; `init` comes first and `down` last."""
    text = (ROOT / "docs/from-the-tutorial.md").read_text().split("## The cluster")[1].split("\n## ")[0]
    found = []
    for command in re.findall(r"`(canoe cluster [^`]+)`", text):
        for old, new in (("NAME", "demo"), (" R ", " us-west-2 "), ("workers N", "workers 2"), ("[--offline]", "--offline")):
            command = command.replace(old, new)
        if command not in found:
            found.append(command)
    found.sort(key=lambda command: {"init": 0, "up": 2, "down": 9}.get(command.split()[2], 1 if command.split()[2] in ("policy", "validate", "render") else 3))
    return [(command, []) for command in found]


def on_terminal(command, place, answers="y\n"):
    """Runs a shell command on a terminal; what it printed, and how it ended."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen(["sh", "-c", command], env=place.environment, cwd=place.directory,
                               stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    said = ""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        said += data.decode(errors="replace")
        if said.endswith("[y/N] "):
            os.write(master, answers.encode())
    os.close(master)
    return process.wait(timeout=240), said.replace("\r\n", "\n")


def pattern(line):
    """A line of the documentation as a pattern: numbers and ids may differ, … stands for anything."""
    text = re.sub(r"(fs|fsap)-[0-9a-f]+", r"\1-HEX", line.strip())
    text = re.sub(r"[0-9]+", "NUMBER", text)
    text = re.sub(r"(\\ )+", r"\\s+", re.escape(text))
    return text.replace("HEX", "[0-9a-f]+").replace("NUMBER", "[0-9]+").replace("…", ".*")


def check_lines(command, shown, said):
    for line in shown:
        if any(word in line for word in NOT_HERE):
            continue
        assert re.search(pattern(line), said), f"{command}\ndoes not print\n{line}\nbut\n{said}"


class Watch(threading.Thread):
    """Looks for the secret in argument lists and environments of every process, as often as it can."""

    def __init__(self):
        super().__init__(daemon=True)
        self.found, self.names, self.looks, self.ended = [], set(), 0, False

    def run(self):
        while not self.ended:
            self.looks += 1
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                for file in ("cmdline", "environ"):
                    try:
                        text = (process / file).read_bytes()
                    except OSError:  # gone, or not ours
                        continue
                    if file == "cmdline":
                        self.names.update(os.path.basename(word) for word in text.decode(errors="replace").split("\0")[:2])
                    if SECRET.encode() in text:
                        self.found.append(f"{process}/{file}")
            time.sleep(0.02)

    def end(self):
        """Ends with a look at a process that does show the secret, so that silence means something."""
        assert self.found == [], self.found
        assert "canoe" in {name.split(".")[0] for name in self.names}, self.names
        with subprocess.Popen(["sleep", "30", ], env={"LEAK": SECRET}) as leak:
            while not self.found:
                time.sleep(0.05)
            leak.kill()
        self.ended = True


def account_shows_no_secret(place, port):
    for stack in ("demo-base", "demo-storage", "demo-cluster"):
        for call in ("describe-stack-events", "get-template"):
            text = str(place.aws(port, "cloudformation", call, "--stack-name", stack))
            assert SECRET not in text and "PRIVATE KEY" not in text, f"{call} {stack}"


def edit_for_the_stand_in(folder):
    path = folder / "cluster.yaml"
    text = path.read_text()
    edited = re.sub(r"(?m)^addons: .*$", "addons: []", text.replace("egress: nat", "egress: public"))
    assert edited != text
    path.write_text(edited)


def run_all(commands, place, port):
    widest = ""
    for command, shown in commands:
        if "…" in command:
            continue  # canoe job submit …: docs/kubernetes.md
        code, said = on_terminal(command, place)
        assert SECRET not in said, command
        refused = "--dir mine up" in command  # the stand-in knows no machines in a stack
        assert (code == 0) != refused, f"{command} ended with {code}:\n{said}"
        check_lines(command, shown, said)
        widest = max([widest, *said.splitlines()], key=len)
        words = command.split()
        if "init" in words:
            edit_for_the_stand_in(place.directory / words[words.index("--dir") + 1] if "--dir" in words else place.directory)
        if "scale" in words:
            account_shows_no_secret(place, port)
        print(f"  $ {command}")
    return widest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canoe", default="canoe")
    parser.add_argument("--ministack", default="ministack")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ministack(arguments.ministack, scratch) as port:
        home = pathlib.Path(scratch) / "home"
        (home / ".aws").mkdir(parents=True)
        (home / ".aws/credentials").write_text(
            f"[default]\naws_access_key_id = AKIATESTTESTTESTTEST\naws_secret_access_key = {SECRET}\n")
        place = Place(arguments.canoe, home, proxy(port))
        (place.programs / "canoe").symlink_to(os.path.abspath(arguments.canoe))
        for name in ("sh", "rm"):
            (place.programs / name).symlink_to(shutil.which(name))
        place.cluster.machines(3)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del place.environment[name]
        watch = Watch()
        watch.start()
        for name, commands in (("README.md", readme_commands()), ("docs/aws.md", documented_commands()),
                               ("docs/from-the-tutorial.md", tutorial_commands())):
            assert [w for w in ("init", "validate", "up", "status", "scale", "down")
                    if not any(w in command.split() for command, _ in commands)] == [], f"{name} has not all commands"
            print(name)
            widest = run_all(commands, place, port)
            assert place.cluster.has("persistentvolumes", "canoe-demo-files"), "the volume is installed"
            place.cluster.taken_down()
            on_terminal("canoe cluster --dir mine down --yes --delete-data; rm -rf demo mine", place)
            left = inventory(place, port)
            assert left == [], f"{name} leaves behind: {left}"
            print(f"  nothing is left; the widest line has {len(widest)} columns: {widest.strip()[:60]}")
        watch.end()
        print(f"process list: searched {watch.looks} times, no secret; none in events and templates")


if __name__ == "__main__":
    main()
