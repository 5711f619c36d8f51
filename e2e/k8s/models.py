"""What training decides of the files of a pass directory."""

import os


def decided(path):
    """The bytes of a file. Of checksums, without those of what servers keep beside the model: it has the numbers of ports and servers."""
    with open(path, "rb") as file:
        found = file.read()
    if os.path.basename(path) == "canoe.sums":
        lines = found.splitlines(keepends=True)
        found = b"".join(line for line in lines if b"  canoe.servers/" not in line)
    return found
