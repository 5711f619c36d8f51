#!/usr/bin/env python3
"""What being watched costs: samples a second of the LR demo with the page open in a browser and without.

    python3 bench/watched.py --canoe target/release/canoe [--rounds 5] [--passes 150]

Needs Chromium and websocket-client. Rounds with and without the page alternate; the medians are compared: samples a second as the trainer
measured its passes, and samples a second of processor time of all processes of the job, which other work on the machine disturbs least. The browser's own
time is not the job's; on a machine with few cores it shows in the first figure all the same.
"""

import json
import pathlib
import resource
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "watch"))
import support  # noqa: E402
from browser import Browser  # noqa: E402


def number(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def speed(job):
    samples = seconds = 0.0
    every = 0
    for line in open(job / "output/node_0/train.events.jsonl"):
        record = json.loads(line)
        if record["kind"] == "pass_finished":
            every += record["samples"]
            if record["pass"] > 0:
                samples += record["samples"]
                seconds += record["seconds"]
    return samples / seconds, every


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(canoe, job, passes, browser):
    shutil.rmtree(job / "output", ignore_errors=True)
    before = processor_time()
    with support.run(canoe, job, passes=passes, nodes=1) as program:
        if browser:
            browser.goto(program.page)
            browser.wait("window.canoe && canoe.jobs[0].head", "the page")
            while program.process.poll() is None:
                try:
                    browser.ask("canoe.jobs[0].order")
                except AssertionError:
                    pass
                try:
                    program.process.wait(0.5)
                except Exception:
                    pass
        assert program.process.wait(600) == 0, program.text()
    spent = processor_time() - before
    per_second, samples = speed(job)
    return per_second, samples / spent


def main():
    canoe = support.canoe_from_arguments()
    rounds, passes = number("--rounds", 5), number("--passes", 150)
    with support.scratch() as folder:
        job = support.demo(canoe, folder)
        alone, watched = [], []
        for _ in range(rounds):
            alone.append(once(canoe, job, passes, None))
            with Browser() as browser:
                watched.append(once(canoe, job, passes, browser))
    result = {"rounds": rounds}
    for at, unit in enumerate(("per_second", "per_processor_second")):
        a, w = ([figures[at] for figures in runs] for runs in (alone, watched))
        result[unit] = {"alone": statistics.median(a), "watched": statistics.median(w), "ratio": statistics.median(w) / statistics.median(a), "best_ratio": max(w) / max(a)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
