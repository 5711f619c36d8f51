"""Port forwarding, the server's side: SPDY/3.1 streams, over an upgraded connection or inside of a web socket (kubectl), or
channels of a web socket (canoe's own client).

With SPDY, each forwarded connection is a pair of streams: one for errors, one for data. Their headers are compressed with a dictionary that
both sides must have; kubectl has it in its program.
"""
import os
import shutil
import socket
import struct
import threading
import zlib

from network import inside

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1
DICTIONARY_BEGIN, DICTIONARY_LENGTH = b"\x00\x00\x00\x07options\x00\x00\x00\x04head", 1423


def dictionary():
    program = open(os.path.realpath(shutil.which("kubectl")), "rb").read()
    at = program.find(DICTIONARY_BEGIN)
    if at < 0:
        raise RuntimeError("this kubectl has no SPDY dictionary")
    return program[at : at + DICTIONARY_LENGTH]


class Session:
    """One connection of kubectl. `read(n)` gives exactly n bytes or raises; `write` sends all."""

    def __init__(self, read, write, namespace):
        self.read, self.send, self.namespace = read, write, namespace
        self.lock = threading.Lock()
        self.inflate = zlib.decompressobj(zdict=dictionary())
        self.deflate = zlib.compressobj()
        self.streams, self.pairs = {}, {}

    def serve(self):
        try:
            while True:
                self.frame(*struct.unpack(">II", self.read(8)))
        except (OSError, EOFError, ValueError, zlib.error):
            pass
        for connection in self.streams.values():
            if connection:
                connection.close()

    def frame(self, first, second):
        flags, data = second >> 24, self.read(second & 0xFFFFFF)
        if not first >> 31:
            return self.data(first, flags, data)
        kind = first & 0xFFFF
        if kind == SYN_STREAM:
            self.open(struct.unpack(">I", data[:4])[0] & 0x7FFFFFFF, self.headers(data[10:]))
        elif kind == PING:
            self.control(PING, data)
        elif kind == RST_STREAM:
            self.finish(struct.unpack(">I", data[:4])[0])
        elif kind == GOAWAY:
            raise EOFError

    def headers(self, data):
        block = self.inflate.decompress(data)
        (count,), at, found = struct.unpack(">I", block[:4]), 4, {}
        words = []
        for _ in range(2 * count):
            (length,) = struct.unpack(">I", block[at : at + 4])
            words.append(block[at + 4 : at + 4 + length].decode())
            at += 4 + length
        for name, value in zip(words[::2], words[1::2]):
            found[name.lower()] = value
        return found

    def control(self, kind, data, flags=0):
        with self.lock:
            self.send(struct.pack(">II", 0x80030000 | kind, flags << 24 | len(data)) + data)

    def put(self, stream, data, flags=0):
        with self.lock:
            self.send(struct.pack(">II", stream, flags << 24 | len(data)) + data)

    def open(self, stream, headers):
        with self.lock:
            block = self.deflate.compress(struct.pack(">I", 0)) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
            data = struct.pack(">I", stream) + block
            self.send(struct.pack(">II", 0x80030000 | SYN_REPLY, len(data)) + data)
        pair = self.pairs.setdefault(headers["requestid"], {"port": int(headers["port"])})
        pair[headers["streamtype"]] = stream
        self.streams[stream] = None
        if "error" in pair and "data" in pair:
            self.connect(pair)

    def connect(self, pair):
        try:
            with inside(self.namespace):
                connection = socket.create_connection(("127.0.0.1", pair["port"]), timeout=5)
            connection.settimeout(None)
        except OSError as error:
            self.put(pair["error"], f"failed to connect to localhost:{pair['port']} inside the pod: {error}".encode(), FIN)
            self.put(pair["data"], b"", FIN)
            return
        self.streams[pair["data"]] = connection
        threading.Thread(target=self.copy_out, args=(connection, pair), daemon=True).start()

    def copy_out(self, connection, pair):
        try:
            while data := connection.recv(32768):
                self.put(pair["data"], data)
            self.put(pair["data"], b"", FIN)
            self.put(pair["error"], b"", FIN)
        except (OSError, ValueError):
            pass

    def data(self, stream, flags, data):
        connection = self.streams.get(stream)
        try:
            if connection and data:
                connection.sendall(data)
            if connection and flags & FIN:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def finish(self, stream):
        connection = self.streams.pop(stream, None)
        if connection:
            connection.close()


class Channels:
    """Protocol v4.channel.k8s.io: every port has a channel for data and one for errors; each begins with the port's number."""

    def __init__(self, handler, ports, namespace):
        self.handler, self.ports, self.namespace = handler, ports, namespace
        self.lock = threading.Lock()
        self.connections = {}

    def put(self, channel, data):
        with self.lock:
            self.handler.frame(2, bytes([channel]) + data)

    def serve(self):
        for place, port in enumerate(self.ports):
            for channel in (2 * place, 2 * place + 1):
                self.put(channel, struct.pack("<H", port))
            self.connect(place, port)
        try:
            self.read()
        except (OSError, EOFError, ValueError, struct.error):
            pass
        for connection in self.connections.values():
            connection.close()

    def connect(self, place, port):
        try:
            with inside(self.namespace):
                connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            connection.settimeout(None)
        except OSError as error:
            return self.put(2 * place + 1, f"failed to connect to localhost:{port} inside the pod: {error}".encode())
        self.connections[2 * place] = connection
        threading.Thread(target=self.copy_out, args=(connection, 2 * place), daemon=True).start()

    def copy_out(self, connection, channel):
        try:
            while data := connection.recv(32768):
                self.put(channel, data)
            with self.lock:
                self.handler.frame(8, struct.pack(">H", 1000))
        except (OSError, ValueError):
            pass

    def read(self):
        message = b""
        while True:
            first, data = self.handler.message()
            kind = first & 15
            if kind == 8:
                return
            if kind == 9:
                with self.lock:
                    self.handler.frame(10, data)
            if kind in (9, 10):
                continue
            message += data
            if first & 128:
                connection = self.connections.get(message[0]) if message else None
                if connection and len(message) > 1:
                    connection.sendall(message[1:])
                message = b""
