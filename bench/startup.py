"""Seconds from the start of `canoe train` on the LR demo to its first batch, beside the start of Python alone.

    python3 bench/startup.py target/release/canoe
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
TRAIN = ['train', '--config=quick_start/trainer_config.lr.py', '--num_passes=1', '--log_period=1', '--dot_period=0']


def first_batch(canoe, job):
    """Until the line of the first batch is read."""
    begun = time.monotonic()
    child = subprocess.Popen([canoe] + TRAIN, cwd=job, stderr=subprocess.PIPE, text=True)
    for line in child.stderr:
        if ' Batch=1 ' in line:
            break
    seconds = time.monotonic() - begun
    child.stderr.read()
    if child.wait() != 0:
        sys.exit('canoe train failed')
    return seconds


def python_alone():
    begun = time.monotonic()
    subprocess.run(['python3', '-c', 'pass'], check=True)
    return time.monotonic() - begun


def main():
    canoe = os.path.abspath(sys.argv[1])
    job = tempfile.mkdtemp()
    try:
        subprocess.run([canoe, 'demo', 'quick_start', job + '/demo'], check=True, stderr=subprocess.DEVNULL)
        figures = {'first_batch_seconds': min(first_batch(canoe, job + '/demo') for _ in range(ROUNDS)),
                   'python_seconds': min(python_alone() for _ in range(ROUNDS))}
    finally:
        shutil.rmtree(job)
    figures['beyond_python_seconds'] = figures['first_batch_seconds'] - figures['python_seconds']
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == '__main__':
    main()
