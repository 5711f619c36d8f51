"""Paddle's own parameter server (fleet, asynchronous), two servers and two trainers on loopback, on W1. One JSON line.

The launcher starts four copies of itself and reads the processor time of all of them around the trainers' window.
Paddle's sockets listen on every interface, so the launcher moves into a network namespace of its own first.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

SERVERS = TRAINERS = 2
BATCH, WARM_UP, STEPS = 128, 5, 150


def processor_seconds(pid):
    with open(f'/proc/{pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Marks:
    """Files in the run's folder by which trainers and launcher meet."""

    def __init__(self, folder):
        self.folder = folder

    def set(self, name):
        open(os.path.join(self.folder, name), 'w').close()

    def all(self, name, count):
        return all(os.path.exists(os.path.join(self.folder, f'{name}{i}')) for i in range(count))

    def wait(self, name, count, seconds=120):
        end = time.monotonic() + seconds
        while not self.all(name, count):
            if time.monotonic() > end:
                raise TimeoutError(f'no {name} from all {count} within {seconds} s')
            time.sleep(0.005)


def network(paddle):
    ids, label = paddle.static.data('ids', [-1, 1], 'int64'), paddle.static.data('label', [-1, 1], 'int64')
    words = paddle.static.nn.sparse_embedding(ids, [30_000, 2], param_attr=paddle.ParamAttr(name='words'))
    bias = paddle.static.create_parameter([2], 'float32', name='bias', is_bias=True)
    scores = paddle.add(paddle.sum(paddle.reshape(words, [-1, 60, 2]), 1), bias)
    return paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(scores, label))


def role(folder, marks):
    import paddle
    import paddle.distributed.fleet as fleet
    import samples
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    cost = network(paddle)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.Adam(2e-3), strategy).minimize(cost)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    me = fleet.worker_index()
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    batches = samples.w1(folder, BATCH)[me::TRAINERS]
    program = paddle.static.default_main_program()

    def step(i):
        words, label = batches[i % len(batches)]
        executor.run(program, feed={'ids': words.reshape(-1, 1), 'label': label.reshape(-1, 1)}, fetch_list=[cost])

    for i in range(WARM_UP):
        step(i)
    marks.set(f'ready{me}')
    marks.wait('ready', TRAINERS)
    marks.wait('go', 1)
    for i in range(STEPS):
        step(WARM_UP + i)
    # Gradients may still wait in the client's queue; sending them belongs to the work.
    fleet.fleet._runtime_handle._worker.client_flush()
    marks.set(f'done{me}')
    marks.wait('measured', 1)
    os._exit(0)


def environments(run):
    ports = free_ports(SERVERS + TRAINERS)
    servers, trainers = [f'127.0.0.1:{port}' for port in ports[:SERVERS]], [f'127.0.0.1:{port}' for port in ports[SERVERS:]]
    common = dict(os.environ, BENCH_MARKS=run, PADDLE_PSERVERS_IP_PORT_LIST=','.join(servers),
                  PADDLE_TRAINERS_NUM=str(TRAINERS), PADDLE_TRAINER_ENDPOINTS=','.join(trainers), POD_IP='127.0.0.1',
                  OMP_NUM_THREADS='1', FLAGS_enable_pir_api='0', GLOG_minloglevel='2', PADDLE_WITH_GLOO='0',
                  MKL_DEBUG_CPU_TYPE='5')
    for i in range(SERVERS):
        yield dict(common, TRAINING_ROLE='PSERVER', PADDLE_PORT=str(ports[i]), PADDLE_PSERVER_ID=str(i))
    for i in range(TRAINERS):
        yield dict(common, TRAINING_ROLE='TRAINER', PADDLE_TRAINER_ID=str(i), PADDLE_PORT=str(ports[SERVERS + i]),
                   PADDLE_CURRENT_ENDPOINT=trainers[i])


def launch():
    with tempfile.TemporaryDirectory() as run:
        marks, argv = Marks(run), [sys.executable, '-W', 'ignore', os.path.abspath(__file__), *sys.argv[1:]]
        with open(os.path.join(run, 'log'), 'w') as log:
            processes = [subprocess.Popen(argv, env=env, stdout=log, stderr=log, cwd=run) for env in environments(run)]
        try:
            marks.wait('ready', TRAINERS)
            cpu, wall = sum(processor_seconds(p.pid) for p in processes), time.perf_counter()
            marks.set('go0')
            marks.wait('done', TRAINERS)
            cpu, wall = sum(processor_seconds(p.pid) for p in processes) - cpu, time.perf_counter() - wall
            marks.set('measured0')
        except TimeoutError as error:
            with open(os.path.join(run, 'log')) as log:
                sys.exit(f'{error}\n{log.read()[-2000:]}')
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return STEPS * BATCH * TRAINERS, wall, cpu


def main():
    folder = os.path.abspath(sys.argv[2])
    if 'TRAINING_ROLE' in os.environ:
        return role(folder, Marks(os.environ['BENCH_MARKS']))
    if 'BENCH_NAMESPACE' not in os.environ:
        os.environ['BENCH_NAMESPACE'] = 'own'
        inner = 'ip link set lo up; exec "$@"'
        os.execvp('unshare', ['unshare', '-rn', 'sh', '-c', inner, 'sh', sys.executable, *sys.argv])
    from importlib.metadata import version
    samples, wall, cpu = launch()
    print(json.dumps({'system': f'Paddle {version("paddlepaddle")} servers', 'samples': samples, 'seconds': wall, 'cpu_s': cpu,
                      'samples_per_s': samples / wall, 'samples_per_cpu_s': samples / cpu}))


main()
