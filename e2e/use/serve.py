"""`canoe serve` under load: a newer pass is swapped in without an error, overload is refused and passes, bodies of all
kinds leave the server standing, memory stays flat, and the end is graceful.

    serve.py --canoe PROGRAM [--seconds N]
"""
import argparse
import atexit
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import http.client


def canoe(program, *arguments, **more):
    subprocess.run([program] + list(arguments), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


class Server:
    """A process that serves, and its address."""

    def __init__(self, program, model, *arguments):
        self.process = subprocess.Popen([program, 'serve', model, '--address', '127.0.0.1:0'] + list(arguments),
                                        stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # a failed test leaves no server behind
        line = self.process.stdout.readline()
        assert 'serving' in line, line
        self.port = int(line.rsplit(':', 1)[1].strip().rstrip('/'))

    def ask(self, method, path, body=None, headers=None, connection=None):
        own = connection or http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        own.request(method, path, body, headers or {})
        reply = own.getresponse()
        data = reply.read()
        if connection is None:
            own.close()
        return reply.status, data

    def memory(self):
        with open('/proc/%d/statm' % self.process.pid) as statm:
            return int(statm.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def load_and_swap(server, job, seconds):
    """Clients ask for a while; a newer pass appears in the middle."""
    ended, seen, wrong, count = time.time() + seconds, set(), [], [0]
    body = json.dumps({'samples': [{'word': 'the sound is great'}, {'word': 'bad'}]})

    def client():
        connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=60)
        while time.time() < ended:
            status, data = server.ask('POST', '/predict', body, connection=connection)
            reply = json.loads(data)
            if status != 200 or len(reply.get('predictions', ())) != 2:
                wrong.append((status, data))
            seen.add(reply.get('pass'))
            count[0] += 1
    threads = [threading.Thread(target=client) for _ in range(8)]
    for each in threads:
        each.start()
    time.sleep(seconds / 4)
    before = server.memory()
    hidden = job + '/output/.coming'
    shutil.copytree(job + '/output/pass-00000', hidden)
    os.rename(hidden, job + '/output/pass-00001')
    # Training replaces the link in one step, too.
    os.symlink('pass-00001', job + '/output/.best')
    os.rename(job + '/output/.best', job + '/output/best')
    for each in threads:
        each.join()
    after = server.memory()
    assert not wrong, wrong[:3]
    assert {'pass-00000', 'pass-00001'} <= seen, seen
    assert after < before + (64 << 20), 'memory grew from %d to %d bytes' % (before, after)
    print('%d requests, none failed, passes %s, memory %d MB before the swap and %d MB at the end' % (
        count[0], sorted(seen), before >> 20, after >> 20))


def at_once(server, body, count):
    """Sends a body over many connections whose last bytes leave together; returns the statuses."""
    head = 'POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n' % len(body)
    connections = [socket.create_connection(('127.0.0.1', server.port), timeout=120) for _ in range(count)]
    for each in connections:
        each.sendall(head.encode() + body[:-1])
    for each in connections:
        each.sendall(body[-1:])
    statuses = []
    for each in connections:
        with each, each.makefile('rb') as reply:
            statuses.append(int(reply.readline().split()[1]))
            reply.read()
    return statuses


def overload(program, model, words):
    """A queue of one sample refuses most of a crowd at once, and replies afterwards.

    Computing a request takes many times as long as reading it (an LSTM, no word twice), and the crowd comes again until
    one was refused, so the result does not depend on how fast the machine is.
    """
    server = Server(program, model, '--queue', '1', '--threads', '1')
    draw = random.Random(3)
    body = json.dumps({'samples': [{'word': [draw.randrange(words) for _ in range(100)]} for _ in range(100)]}).encode()
    statuses = []
    for _ in range(20):
        statuses += at_once(server, body, 32)
        assert set(statuses) <= {200, 503}, set(statuses)
        if 503 in statuses:
            break
    assert set(statuses) == {200, 503}, set(statuses)
    assert server.ask('POST', '/predict', '{"word": "good"}')[0] == 200
    assert server.end() == 0
    print('overload: %d computed, %d refused with 503, and it recovers' % (statuses.count(200), statuses.count(503)))


def fuzz(server, rounds):
    """Bodies that are wrong in many ways; the server stays up and says 4xx."""
    draw = random.Random(7)
    good = json.dumps({'samples': [{'word': ['good', 3]}, {'word': 'bad day'}]}).encode()
    values = [None, True, 1, -1, 1.5, 1e300, '', 'x' * 1000, [], [[]], [None], {}, {'a': 1}, [1, 'good', [2]], 10 ** 30]
    for number in range(rounds):
        kind = number % 4
        if kind == 0:
            body = bytearray(good)
            for _ in range(draw.randrange(1, 8)):
                body[draw.randrange(len(body))] = draw.randrange(256)
            body = bytes(body)
        elif kind == 1:
            body = good[:draw.randrange(len(good))]
        elif kind == 2:
            body = json.dumps({draw.choice(['word', 'wrd', 'samples']): draw.choice(values)}).encode()
        else:
            body = json.dumps({'samples': [draw.choice(values), {'word': draw.choice(values)}]}).encode()
        status, data = server.ask('POST', '/predict', body)
        assert status in (200, 400, 422), (status, body, data)
        json.loads(data)
    assert server.ask('POST', '/predict', b'[' * 100000)[0] == 400
    assert server.ask('POST', '/predict', b'x' * (2 << 20))[0] == 413
    assert server.ask('GET', '/predict')[0] == 405
    assert server.ask('GET', '/nothing')[0] == 404
    assert server.ask('GET', '/model', headers={'Host': 'evil.example'})[0] == 403
    with socket.create_connection(('127.0.0.1', server.port)) as raw:
        raw.sendall(b'\x00\xff garbage\r\n\r\n')
    assert server.ask('GET', '/healthz') == (200, b'ok\n')
    print('%d wrong bodies, the server stands' % rounds)


def talk(server, sent, parts=1, close=True):
    """Sends bytes over a connection of their own, and returns all that comes back until its end."""
    with socket.create_connection(('127.0.0.1', server.port), timeout=120) as raw:
        step = max(1, len(sent) // parts)
        for at in range(0, len(sent), step):
            raw.sendall(sent[at:at + step])
            if parts > 1:
                time.sleep(0.01)
        if close:
            raw.shutdown(socket.SHUT_WR)
        return b''.join(iter(lambda: raw.recv(65536), b''))


def protocol(server):
    """What clients do besides one request after another."""
    def request(line, *fields, body=b''):
        return '\r\n'.join((line, 'Host: 127.0.0.1') + fields + ('', '')).encode() + body
    good = b'{"word": "good"}'
    post = request('POST /predict HTTP/1.1', 'Content-Length: %d' % len(good), body=good)
    for parts in (1, 7, len(post)):
        seen = talk(server, post + post + request('GET /healthz HTTP/1.1'), parts)
        assert seen.count(b'HTTP/1.1 200 OK') == 3 and seen.count(b'"prediction"') == 2 and seen.endswith(b'ok\n'), seen
    chunks = b'9;x=y\r\n{"word": \r\n7\r\n"good"}\r\n0\r\nA: b\r\n\r\n'
    seen = talk(server, request('POST /predict HTTP/1.1', 'Transfer-Encoding: chunked', body=chunks) + post, 5)
    assert seen.count(b'HTTP/1.1 200 OK') == 2, seen
    with socket.create_connection(('127.0.0.1', server.port), timeout=120) as raw:
        raw.sendall(request('POST /predict HTTP/1.1', 'Expect: 100-continue', 'Content-Length: %d' % len(good)))
        assert raw.recv(1000) == b'HTTP/1.1 100 Continue\r\n\r\n'
        raw.sendall(good)
        assert raw.recv(1000).startswith(b'HTTP/1.1 200 OK')
    seen = talk(server, request('HEAD /healthz HTTP/1.1', 'Connection: close'), close=False)
    assert b'content-length: 3' in seen and seen.endswith(b'\r\n\r\n'), seen
    assert b'connection: close' in talk(server, request('GET /healthz HTTP/1.0'), close=False)
    for wrong, status in ((b'GET / HTTP/1.1\r\n\r\n', 400), (request('POST /predict HTTP/1.1', 'Content-Length: 1', 'Content-Length: 1'), 400),
                          (request('POST /predict HTTP/1.1', 'A: ' + 'b' * 20000), 431), (request('POST /predict HTTP/1.1', 'Transfer-Encoding: gzip'), 501)):
        assert talk(server, wrong, close=False).startswith(b'HTTP/1.1 %d' % status), wrong
    status, data = server.ask('POST', '/predict', '[]')
    assert status == 400 and 'empty list' in json.loads(data)['error'], data
    # Those who never speak, or never finish, keep nobody out.
    silent = [socket.create_connection(('127.0.0.1', server.port)) for _ in range(300)]
    for each in silent[::2]:
        each.sendall(post[:30])
    assert server.ask('POST', '/predict', good)[0] == 200
    for each in silent:
        each.close()
    print('pipelined, in pieces, in chunks, with 100-continue, HEAD, HTTP/1.0; 300 silent clients')


def retrained(server, job):
    """A model that is saved anew under the same name is taken."""
    def taken():
        text = server.ask('GET', '/metrics')[1].decode()
        return float(text.split('\ncanoe_serve_replacements_total ')[1].split()[0])
    before = taken()
    os.rename(job + '/output', job + '/aside')
    shutil.copytree(job + '/aside', job + '/output', symlinks=True)
    until = time.time() + 120
    while taken() == before:
        assert time.time() < until, 'the new model is not served'
        time.sleep(0.1)
    assert server.ask('POST', '/predict', '{"word": "good"}')[0] == 200
    print('a folder that is trained anew is served')


def pages(server):
    """What else it serves."""
    status, data = server.ask('GET', '/openapi.json')
    document = json.loads(data)
    assert status == 200 and document['openapi'].startswith('3.'), document
    assert 'word' in json.dumps(document['paths']['/predict'])
    assert b'canoe_serve_requests_total' in server.ask('GET', '/metrics')[1]
    assert b'<form' in server.ask('GET', '/')[1]


def encrypted(program, job, folder):
    """HTTPS with a certificate of our own, and a token, at an address that is not on loopback."""
    certificate, key = folder + '/certificate.pem', folder + '/key.pem'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                    '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate],
                   check=True, stderr=subprocess.DEVNULL)
    process = subprocess.Popen([program, 'serve', job, '--address', '0.0.0.0:0', '--tls-cert', certificate, '--tls-key', key],
                               stdout=subprocess.PIPE, text=True, env=dict(os.environ, CANOE_SERVE_TOKEN='secret'))
    line = process.stdout.readline()
    assert ' https://' in line, line
    port = int(line.rsplit(':', 1)[1].strip().rstrip('/'))

    def ask(context, token='secret'):
        connection = http.client.HTTPSConnection('localhost', port, timeout=60, context=context)
        connection.request('POST', '/predict', json.dumps({'word': 'great'}), {'Authorization': 'Bearer ' + token})
        reply = connection.getresponse()
        return reply.status, reply.read()

    # Strangers that never finish, or never begin, a handshake keep nobody out.
    strangers = [socket.create_connection(('127.0.0.1', port)) for _ in range(20)]
    strangers[0].sendall(b'GET / HTTP/1.1\r\n\r\n')
    trusting = ssl.create_default_context(cafile=certificate)
    status, data = ask(trusting)
    assert status == 200 and 'prediction' in json.loads(data), data
    assert ask(trusting, 'guess')[0] == 401
    try:
        ask(ssl.create_default_context())
        raise AssertionError('a certificate that nobody signed was accepted')
    except ssl.SSLCertVerificationError:
        pass
    for each in strangers:
        each.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    swapped = subprocess.run([program, 'serve', job, '--tls-cert', key, '--tls-key', certificate], stderr=subprocess.PIPE, text=True)
    assert swapped.returncode == 1 and 'key.pem' in swapped.stderr, swapped.stderr
    print('HTTPS: a client that trusts the certificate and has the token is served, others are not')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--seconds', type=float, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = folder + '/job'
        canoe(options.canoe, 'demo', 'quick_start', job, '--train-samples=200', '--test-samples=20')
        canoe(options.canoe, 'train', '--config=quick_start/trainer_config.emb.py', '--save_dir=output', '--num_passes=1',
              '--dot_period=0', cwd=job)
        server = Server(options.canoe, job, '--look-period', '0.2')
        pages(server)
        protocol(server)
        load_and_swap(server, job, options.seconds)
        retrained(server, job)
        fuzz(server, 400)
        assert server.end() == 0
        print('SIGTERM: it ended with 0')
        canoe(options.canoe, 'train', '--config=quick_start/trainer_config.lstm.py', '--save_dir=slow', '--num_passes=1',
              '--dot_period=0', cwd=job)
        with open(job + '/data/dict.txt') as dictionary:
            words = len(dictionary.readlines())
        overload(options.canoe, job + '/slow/pass-00000', words)
        encrypted(options.canoe, job, folder)


if __name__ == '__main__':
    main()
