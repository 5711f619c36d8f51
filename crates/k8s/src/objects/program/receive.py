# The receiving end of `dataset::carry`, for images that have no canoe yet. Argument: the folder.
import hashlib, json, os, sys

folder, files, replies = sys.argv[1], sys.stdin.buffer, sys.stdout


class Differs(Exception):
    """What arrived of a file is not what was sent."""


def reply(value):
    print(json.dumps(value), file=replies, flush=True)


def is_right(path, item):
    if not os.path.isfile(path) or os.path.getsize(path) != item["size"]:
        return False
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return f"sha256:{found.hexdigest()}" == item["sum"]


def begun(path, item):
    if is_right(path, item):
        return item["size"]
    return min(os.path.getsize(path + ".part"), item["size"]) if os.path.exists(path + ".part") else 0


def receive(path, item, there):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part, left = path + ".part", item["size"] - there
    with open(part, "ab") as file:
        file.truncate(there)
        while left > 0:
            piece = files.read(min(left, 1 << 20))
            if not piece:
                raise OSError("the connection was closed; run the command again to resume")
            file.write(piece)
            left -= len(piece)
        file.flush()
        os.fsync(file.fileno())
    if not is_right(part, item):
        os.remove(part)
        raise Differs(path)
    os.replace(part, path)


try:
    items = json.loads(files.readline())
    paths = [os.path.join(folder, item["name"]) for item in items]
    for item in items:
        if os.path.isabs(item["name"]) or ".." in item["name"].split("/"):
            raise OSError(f"{item['name']!r} is not the name of a file in a folder")
    there = [begun(path, item) for path, item in zip(paths, items)]
    reply({"there": there})
    for path, item, count in zip(paths, items, there):
        if count < item["size"] or not os.path.exists(path):
            receive(path, item, count)
    reply("done")
except Differs as error:
    reply({"differs": str(error)})
    sys.exit(1)
except (OSError, ValueError, KeyError, TypeError) as error:
    reply({"failed": str(error)})
    sys.exit(1)
