"""`canoe serve` beside a minimal uvicorn + onnxruntime server of the same network: requests per CPU-second of the server,
and percentiles of the latency, at 1, 16 and 256 connections. The clients are plain sockets of this process.

    serve.py --canoe PROGRAM FOLDER [NETWORK...] [--seconds N]

FOLDER is what prepare.py made; every request is another review, so nothing is saved by equal requests. Needs numpy, onnxruntime, uvicorn.
"""
import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

APP = '''
import json, os
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["ONNX"], options, providers=["CPUExecutionProvider"])

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    ids = json.loads(body)["word"]
    out = session.run(None, {"word": numpy.array(ids, numpy.int64), "word.lengths": numpy.array([len(ids)], numpy.int64)})
    data = json.dumps({"prediction": out[0][0].tolist()}).encode()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]})
    await send({"type": "http.response.body", "body": data})
'''


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def cpu_of(pid):
    with open('/proc/%d/stat' % pid) as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def wait(port):
    for _ in range(600):
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit('nothing listens at port %d' % port)


async def client(port, requests, first, until, times):
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    while time.perf_counter() < until:
        request = requests[(first + len(times)) % len(requests)]
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b'\r\n\r\n')
        if not head.startswith(b'HTTP/1.1 200'):
            raise SystemExit(head.decode())
        length = int(head.lower().split(b'content-length:')[1].split(b'\r\n')[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - began)
    writer.close()


async def load(port, requests, connections, seconds):
    times = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*[client(port, requests, 37 * own, until, times) for own in range(connections)])
    return sorted(times)


def measure(name, pid, port, requests, seconds):
    asyncio.run(load(port, requests, 4, 1))
    found = {}
    for connections in (1, 16, 256):
        before = cpu_of(pid)
        times = asyncio.run(load(port, requests, connections, seconds))
        used = max(cpu_of(pid) - before, 0.01)
        found[connections] = len(times) / used
        print('%s, %d connections: %.0f requests per CPU-second, p50 %.2f ms, p99 %.2f ms' % (
            name, connections, found[connections], 1000 * times[len(times) // 2], 1000 * times[int(len(times) * 0.99)]))
        sys.stdout.flush()
    return found


def compare(program, name, model, samples, seconds):
    head = b'POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
    requests = [head % len(line) + line for line in samples]
    with tempfile.TemporaryDirectory() as folder:
        onnx = os.path.join(folder, 'model.onnx')
        subprocess.run([program, 'model', 'export', model, onnx], check=True, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, 'app.py'), 'w') as out:
            out.write(APP)
        ports = [free_port(), free_port()]
        ours = subprocess.Popen([program, 'serve', model, '--threads', '1', '--address', '127.0.0.1:%d' % ports[0]],
                                stdout=subprocess.DEVNULL)
        theirs = subprocess.Popen([sys.executable, '-m', 'uvicorn', 'app:app', '--port', str(ports[1]), '--log-level',
                                   'error', '--no-access-log'], cwd=folder, env=dict(os.environ, ONNX=onnx))
        try:
            for port in ports:
                wait(port)
            a = measure('%s, canoe serve' % name, ours.pid, ports[0], requests, seconds)
            b = measure('%s, uvicorn + onnxruntime' % name, theirs.pid, ports[1], requests, seconds)
            for connections in a:
                print('%s, %d connections: ratio %.1f' % (name, connections, a[connections] / b[connections]))
        finally:
            for process in (ours, theirs):
                process.send_signal(signal.SIGTERM)
                process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('folder')
    parser.add_argument('networks', nargs='*')
    options = parser.parse_args()
    for name in options.networks or ('lr', 'cnn'):
        with open(os.path.join(options.folder, name + '.jsonl'), 'rb') as lines:
            samples = [line.strip() for line in lines]
        compare(options.canoe, name, os.path.join(options.folder, name), samples, options.seconds)


if __name__ == '__main__':
    main()
