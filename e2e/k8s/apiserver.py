"""A small Kubernetes API server for tests: enough for the real kubectl and for canoe's own client, with faults on demand.

Discovery, lists, watches with resourceVersion, label and field selectors, server-side apply with strict fields, logs and exec. What
happens to the objects is in controllers.py. `faults` disturbs requests: status codes, hanging, watches that close.
"""
import base64
import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
import traceback
import urllib.parse

import kubernetes_validate
import yaml

import admission
import certificate
from controllers import Controllers, security_problems
from portforward import Channels, Session
from store import RESOURCES, Refused, Store, now

VERSION = "1.34"
BY_PATH = {}
for plural_, (path_, kind_, _) in RESOURCES.items():
    BY_PATH.setdefault(path_, {})[plural_] = kind_


class Faults:
    """What is done to requests whose method and path match a pattern."""

    def __init__(self):
        self.clear()

    def add(self, pattern, code=None, retry_after=None, hang=0, times=10**9, message="disturbed"):
        self.list.append({"pattern": re.compile(pattern), "code": code, "retry_after": retry_after, "hang": hang, "times": times, "message": message})

    def clear(self):
        # `protocols`: what web sockets can speak; servers before 1.30 have no v5.
        self.list, self.close_watches_after, self.protocols = [], None, ("v5.channel.k8s.io", "v4.channel.k8s.io")

    def find(self, text):
        for fault in self.list:
            if fault["times"] > 0 and fault["pattern"].search(text):
                fault["times"] -= 1
                return fault
        return None


class ApiServer:
    """The server, its store and its controllers. `kubeconfig` is for kubectl."""

    def __init__(self, folder, address, port, listen, kubelet=None):
        self.store, self.faults, self.requests, self.tokens = Store(), Faults(), [], []
        self.controllers = Controllers(self.store, kubelet)
        self.kubelet = kubelet
        key, authority = certificate.make(folder, address)
        handler = type("Handler", (Handler,), {"api": self})
        self.server = listen(lambda: Server((address, port), handler))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority, key)
        self.server.context = context
        self.address, self.port = address, self.server.server_address[1]
        self.certificate = authority
        self.kubeconfig = os.path.join(folder, "kubeconfig")
        cluster = {"server": f"https://{address}:{self.port}", "certificate-authority": authority}
        with open(self.kubeconfig, "w") as file:
            yaml.safe_dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
                "clusters": [{"name": "stand-in", "cluster": cluster}],
                "users": [{"name": "tester", "user": {"token": "tester"}}],
                "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "tester"}}],
            }, file)
        for name in ("default", "kube-system"):
            self.store.create("namespaces", {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.controllers.close()
        self.server.shutdown()
        self.server.server_close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 50

    def finish_request(self, request, client):
        request.settimeout(60)
        try:
            self.RequestHandlerClass(self.context.wrap_socket(request, server_side=True), client, self)
        except (OSError, ssl.SSLError):
            pass

    def handle_error(self, *_):
        """A fault of the stand-in itself must not look like one of the network."""
        traceback.print_exc()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        address = urllib.parse.urlsplit(self.path)
        self.query = {key: values[-1] for key, values in urllib.parse.parse_qs(address.query, keep_blank_values=True).items()}
        self.queries = urllib.parse.parse_qs(address.query)
        line = f"{self.command} {self.path}"
        self.api.requests.append(line)
        self.api.tokens.append(self.headers.get("Authorization"))
        try:
            self.disturb(line)
            self.dispatch(address.path.strip("/"), body)
        except Refused as refused:
            self.send(refused.code, refused.status)

    def disturb(self, line):
        fault = self.api.faults.find(line)
        if fault is None:
            return
        time.sleep(fault["hang"])
        if fault["code"]:
            self.retry_after = fault["retry_after"]
            reasons = {403: "Forbidden", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 401: "Unauthorized"}
            more = {"details": {"retryAfterSeconds": fault["retry_after"]}} if fault["retry_after"] else {}
            raise Refused(fault["code"], reasons.get(fault["code"], ""), fault["message"], **more)

    def send(self, code, thing, warnings=()):
        text = json.dumps(thing).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if code == 429 and getattr(self, "retry_after", None):
            self.send_header("Retry-After", str(self.retry_after))
        for warning in warnings:
            self.send_header("Warning", f'299 - "{warning}"')
        self.end_headers()
        self.wfile.write(text)

    def dispatch(self, path, body):
        parts = path.split("/")
        if path == "version":
            return self.send(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
        if path == "api":
            return self.send(200, {"kind": "APIVersions", "versions": ["v1"]})
        if path == "apis":
            groups = [p.split("/")[1:] for p in BY_PATH if p != "api/v1"]
            version = lambda g, v: {"groupVersion": f"{g}/{v}", "version": v}
            return self.send(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": g, "versions": [version(g, v)], "preferredVersion": version(g, v)} for g, v in groups]})
        if path in BY_PATH:
            return self.send(200, {"kind": "APIResourceList", "groupVersion": path.split("/", 1)[1], "resources": [
                {"name": plural, "singularName": kind.lower(), "namespaced": RESOURCES[plural][2], "kind": kind,
                 "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]}
                for plural, kind in BY_PATH[path].items()]})
        if path == "openapi/v3":
            return self.send(200, {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"} for p in BY_PATH}})
        if path.startswith("openapi/v3/") and path[11:] in BY_PATH:
            return self.send(200, self.description(path[11:]))
        root = "/".join(parts[:2]) if parts[0] == "api" else "/".join(parts[:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if root not in BY_PATH or not rest or rest[0] not in BY_PATH[root]:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        plural, name, sub = (rest + [None, None])[:3]
        if sub == "log":
            return self.logs(namespace, name)
        if sub == "exec":
            return self.execute(namespace, name)
        if sub == "portforward":
            return self.forward(namespace, name)
        self.resource(plural, namespace, name, body)

    def description(self, root):
        """Which objects can be patched, and that fields are checked by the server."""
        group, version = ("", "v1") if root == "api/v1" else root.split("/")[1:]
        parameters = [{"name": name, "in": "query"} for name in ("fieldValidation", "dryRun")]
        paths = {}
        for plural, kind in BY_PATH[root].items():
            space = "namespaces/{namespace}/" if RESOURCES[plural][2] else ""
            kinds = {"group": group, "version": version, "kind": kind}
            paths[f"/{root}/{space}{plural}/{{name}}"] = {"patch": {"parameters": parameters, "x-kubernetes-group-version-kind": kinds}}
        return {"openapi": "3.0.0", "info": {"title": "stand-in", "version": VERSION}, "paths": paths, "components": {"schemas": {}}}

    def resource(self, plural, namespace, name, body):
        store = self.api.store
        dry_run = "dryRun" in self.query
        if self.command == "GET" and name:
            thing = store.get(plural, namespace, name)
            if "as=PartialObjectMetadata" in self.headers.get("Accept", ""):
                thing = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing["metadata"]}
            return self.send(200, thing)
        if self.command == "GET":
            labels, fields = self.query.get("labelSelector", ""), self.query.get("fieldSelector", "")
            if self.query.get("watch") in ("1", "true"):
                return self.watch(plural, namespace or None, labels, fields)
            items, version = store.list(plural, namespace or None, labels, fields)
            path, kind, _ = RESOURCES[plural]
            return self.send(200, {"kind": f"{kind}List", "apiVersion": path.split("/", 1)[1], "metadata": {"resourceVersion": str(version)}, "items": items})
        if self.command == "DELETE":
            return self.delete(plural, namespace, name, body, dry_run)
        thing = yaml.safe_load(body)
        if self.command == "PATCH" and "merge-patch" in self.headers.get("Content-Type", ""):
            return self.send(200, self.merge(plural, namespace, name, thing))
        if namespace:
            thing["metadata"]["namespace"] = namespace
        self.check(plural, namespace, thing)
        warnings = self.warnings(plural, namespace, thing)
        if self.command == "POST":
            created = thing if dry_run else store.create(plural, thing)
            return self.send(201, created, warnings)
        if self.command == "PATCH" and "apply-patch" in self.headers.get("Content-Type", ""):
            manager, force = self.query.get("fieldManager", ""), self.query.get("force") == "true"
            applied, is_new = store.apply(plural, namespace, name, thing, dry_run, manager, force)
            return self.send(201 if is_new else 200, applied, warnings)
        raise Refused(405, "MethodNotAllowed", f"{self.command} is not known here")

    def merge(self, plural, namespace, name, change):
        """A merge patch. Of a Job, what may be changed is whether it is suspended."""
        if plural != "jobs" or set(change) != {"spec"} or set(change["spec"]) != {"suspend"}:
            raise Refused(422, "Invalid", f"{plural} {name} is invalid: field is immutable")
        return self.api.store.update(plural, namespace, name, lambda fresh: fresh["spec"].update(change["spec"]))

    def check(self, plural, namespace, thing):
        if RESOURCES[plural][2] and self.api.store.find("namespaces", "", namespace) is None:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"})
        try:
            kubernetes_validate.validate(thing, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            raise Refused(400, "BadRequest", f"strict decoding error: {error.message}") from None
        if plural == "pods" and self.api.store.find(plural, namespace, thing["metadata"]["name"]) is None:
            self.api.controllers.admit(thing)
        found = admission.problems(thing)
        if found:
            raise Refused(422, "Invalid", f'{thing["kind"]} "{thing["metadata"].get("name", "")}" is invalid: {found[0] if len(found) == 1 else found}')

    def warnings(self, plural, namespace, thing):
        space = self.api.store.find("namespaces", "", namespace) or {"metadata": {}}
        if plural != "jobs" or space["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce") != "restricted":
            return []
        problems = security_problems(thing["spec"]["template"]["spec"])
        return [f"would violate PodSecurity 'restricted:latest': {', '.join(problems)}".replace('"', "'")] if problems else []

    def delete(self, plural, namespace, name, body, dry_run):
        store = self.api.store
        thing = store.get(plural, namespace, name)
        options = json.loads(body or b"{}")
        if dry_run:
            pass
        elif plural == "jobs" or plural == "pods":
            def change(fresh):
                fresh["metadata"].setdefault("deletionTimestamp", now())
                if plural == "jobs" and options.get("propagationPolicy") == "Foreground":
                    fresh["metadata"]["finalizers"] = ["foregroundDeletion"]
            thing = store.update(plural, namespace, name, change)
        else:
            store.put(plural, thing, "DELETED")
        self.send(200, thing)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def watch(self, plural, namespace, labels, fields):
        store = self.api.store
        seen = int(self.query.get("resourceVersion") or 0)
        self.stream()
        if self.query.get("sendInitialEvents") == "true":
            items, seen = store.list(plural, namespace, labels, fields)
            path, kind, _ = RESOURCES[plural]
            for thing in items:
                self.chunk(json.dumps({"type": "ADDED", "object": thing}).encode() + b"\n")
            mark = {"resourceVersion": str(seen), "annotations": {"k8s.io/initial-events-end": "true"}}
            bookmark = {"kind": kind, "apiVersion": path.split("/", 1)[1], "metadata": mark}
            self.chunk(json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n")
        end = time.monotonic() + float(self.query.get("timeoutSeconds", 300))
        if self.api.faults.close_watches_after is not None:
            end = min(end, time.monotonic() + self.api.faults.close_watches_after)
        while time.monotonic() < end:
            with store.changed:
                fresh = [entry for entry in store.history if entry[0] > seen]
                if not fresh:
                    store.changed.wait(0.5)
                    continue
            for version, kind, what, thing in fresh:
                seen = version
                if what == plural and namespace in (None, thing["metadata"].get("namespace")) and store.is_chosen(thing, labels, fields):
                    self.chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")
        self.chunk(b"")

    def logs(self, namespace, name):
        pod = self.api.store.get("pods", namespace, name)
        process = self.api.controllers.running.get(pod["metadata"]["uid"])
        if process is None:
            raise Refused(400, "BadRequest", f'container "node" in pod "{name}" is waiting to start: {waiting_reason(pod)}')
        self.stream()
        with open(process.log_path, "rb") as file:
            lines = file.readlines()
            tail = self.query.get("tailLines")
            for line in lines[-int(tail) :] if tail else lines:
                self.chunk(line)
            while self.query.get("follow") == "true":
                line = file.readline()
                if line:
                    self.chunk(line)
                elif process.code is not None and not process.thread.is_alive():
                    break
                else:
                    time.sleep(0.05)
        self.chunk(b"")

    def execute(self, namespace, name):
        """`kubectl exec` over a web socket: channel 0 is standard input, 1 and 2 output, 3 the end; 255 closes a channel."""
        pod = self.api.store.get("pods", namespace, name)
        process = self.api.controllers.running.get(pod["metadata"]["uid"])
        if process is None or process.first_process() is None:
            raise Refused(400, "BadRequest", f"container not found in pod {name}")
        if self.headers.get("Upgrade", "").lower() != "websocket":
            raise Refused(400, "BadRequest", "only web sockets are spoken here")
        self.become_socket(self.spoken(*self.api.faults.protocols))
        child = process.execute(self.queries["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lock = threading.Lock()
        readers = [threading.Thread(target=self.copy_out, args=(pipe, channel, lock)) for pipe, channel in ((child.stdout, 1), (child.stderr, 2))]
        for reader in readers:
            reader.start()
        threading.Thread(target=self.copy_in, args=(child,), daemon=True).start()
        code = child.wait()
        for reader in readers:
            reader.join()
        status = {"metadata": {}, "status": "Success"}
        if code:
            status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": f"command terminated with exit code {code}", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        with lock:
            self.frame(2, b"\x03" + json.dumps(status).encode())
            self.frame(8, struct.pack(">H", 1000))

    def spoken(self, *known):
        """The first protocol of the client's that is known here."""
        offered = [name.strip() for name in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        for name in offered:
            if name in known:
                return name
        raise Refused(400, "BadRequest", f"unable to upgrade: no protocol of {offered} is spoken here")

    def become_socket(self, protocol):
        accept = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.upgrade({"Upgrade": "websocket", "Sec-WebSocket-Accept": base64.b64encode(accept).decode(), "Sec-WebSocket-Protocol": protocol})

    def upgrade(self, headers):
        self.send_response(101)
        for header, value in ({"Connection": "Upgrade"} | headers).items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        self.connection.settimeout(None)

    def forward(self, namespace, name):
        """Port forwarding: SPDY on the connection itself or in the messages of a web socket (kubectl), or channels of a web socket."""
        pod = self.api.store.get("pods", namespace, name)
        process = self.api.controllers.running.get(pod["metadata"]["uid"])
        if process is None or process.first_process() is None:
            raise Refused(400, "BadRequest", f"pod {name} is not running")
        wanted = self.headers.get("Upgrade", "").lower()
        if wanted == "websocket":
            protocol = self.spoken("SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io")
            self.become_socket(protocol)
            messages = Messages(self)
            if protocol == "v4.channel.k8s.io":
                Channels(self, [int(port) for text in self.queries["ports"] for port in text.split(",")], process.namespace).serve()
            else:
                Session(messages.read, lambda data: self.frame(2, data), process.namespace).serve()
        elif wanted == "spdy/3.1":
            self.upgrade({"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"})

            def write(data):
                self.wfile.write(data)
                self.wfile.flush()

            Session(self.exactly, write, process.namespace).serve()
        else:
            raise Refused(400, "BadRequest", "unable to upgrade: missing upgrade headers in request")

    def exactly(self, count):
        data = self.rfile.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def message(self):
        """The next frame of a web socket: its first byte and its data."""
        first, second = self.exactly(2)
        length = second & 127
        if length > 125:
            length = struct.unpack(">H", self.exactly(2))[0] if length == 126 else struct.unpack(">Q", self.exactly(8))[0]
        mask = self.exactly(4) if second & 128 else b"\0\0\0\0"
        data = self.exactly(length)
        if length:
            data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (length // 4 + 1))[:length], "big")).to_bytes(length, "big")
        return first, data

    def frame(self, kind, data):
        length = len(data)
        head = struct.pack("B", 0x80 | kind)
        head += struct.pack("B", length) if length < 126 else struct.pack(">BH", 126, length) if length < 65536 else struct.pack(">BQ", 127, length)
        self.wfile.write(head + data)
        self.wfile.flush()

    def copy_out(self, pipe, channel, lock):
        while data := pipe.read1(32768):
            with lock:
                try:
                    self.frame(2, bytes([channel]) + data)
                except OSError:
                    return

    def copy_in(self, child):
        message = b""
        try:
            while True:
                first, data = self.message()
                if first & 15 == 8:
                    break
                if first & 15 == 9:
                    continue
                message += data
                if not first & 128:
                    continue
                if message[:1] == b"\x00" and len(message) > 1:
                    child.stdin.write(message[1:])
                    child.stdin.flush()
                elif message[:1] == b"\xff" and message[1:2] == b"\x00":
                    child.stdin.close()
                message = b""
        except (OSError, EOFError, ValueError, struct.error):
            pass
        # The other end has gone: so does the command's input.
        try:
            child.stdin.close()
        except OSError:
            pass


class Messages:
    """The data of a web socket's messages as one stream of bytes."""

    def __init__(self, handler):
        self.handler, self.rest = handler, b""

    def read(self, count):
        while len(self.rest) < count:
            first, data = self.handler.message()
            if first & 15 == 8:
                raise EOFError
            if first & 15 == 9:
                self.handler.frame(10, data)
            elif first & 15 != 10:
                self.rest += data
        data, self.rest = self.rest[:count], self.rest[count:]
        return data


def waiting_reason(pod):
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return statuses[0].get("state", {}).get("waiting", {}).get("reason", "ContainerCreating") if statuses else "ContainerCreating"
