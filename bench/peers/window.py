"""What every peer's measurement shares: warm up, count samples until enough CPU time has passed, print one JSON line."""
import argparse
import json
import resource
import time


def arguments(workloads):
    parser = argparse.ArgumentParser()
    parser.add_argument('workload', choices=workloads)
    parser.add_argument('folder')
    parser.add_argument('--cpu-seconds', type=float, default=4.0)
    return parser.parse_args()


def measure(step, batches, batch_size, cpu_seconds, warm_up=5):
    """Calls step(batch) over and over; the clocks start after `warm_up` steps, reading of text is not in them."""
    for i in range(warm_up):
        step(batches[i % len(batches)])
    wall, cpu, steps = time.perf_counter(), time.process_time(), 0
    while steps < 2 or time.process_time() - cpu < cpu_seconds:
        cost = step(batches[(warm_up + steps) % len(batches)])
        steps += 1
    return {'samples': steps * batch_size, 'seconds': time.perf_counter() - wall, 'cpu_s': time.process_time() - cpu,
            'cost': float(cost)}


def report(system, result):
    result['system'] = system
    result['samples_per_cpu_s'] = result['samples'] / result['cpu_s']
    result['samples_per_s'] = result['samples'] / result['seconds']
    result['peak_rss_mb'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result), flush=True)
