"""The record of a job, as arrays."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass
from typing import Any, Optional

import numpy

from canoe import _core
from canoe._model import Path


@dataclass(frozen=True)
class Curve:
    """A curve: three arrays of the same length. What a roll-back undid is not in it."""

    #: Samples that the trainer had seen.
    samples: numpy.ndarray
    #: Seconds since 1970.
    time: numpy.ndarray
    values: numpy.ndarray

    def __len__(self) -> int:
        return len(self.values)


class Job:
    """What a job has recorded so far: `read_job` makes one."""

    def __init__(self, path: Path) -> None:
        recorded = _core.curves(path)
        #: The output folder.
        self.output = os.fspath(recorded['output'])
        #: All curves: by metric, whether it was measured on test data, and node.
        self.curves: dict[tuple[str, bool, int], Curve] = {
            (curve['metric'], curve['test'], curve['node']): Curve(
                samples=numpy.frombuffer(curve['samples'], numpy.float64),
                time=numpy.frombuffer(curve['time'], numpy.float64),
                values=numpy.frombuffer(curve['values'], numpy.float64),
            )
            for curve in recorded['curves']
        }
        #: All events, oldest first, as the reference of the record describes them; `process` says whose they are.
        self.events: list[dict[str, Any]] = list(read_events(self.output))

    @property
    def metrics(self) -> list[str]:
        """Names of what was measured: `cost` and evaluators."""
        return sorted({metric for metric, _, _ in self.curves})

    def curve(self, metric: str = 'cost', *, test: bool = False, node: Optional[int] = None) -> Curve:
        """The curve of a metric; by default that of the first trainer."""
        nodes = [own for name, kind, own in self.curves if (name, kind) == (metric, test) and node in (None, own)]
        if not nodes:
            known = ', '.join('%s%s' % (name, ' (test)' if kind else '') for name, kind, _ in self.curves)
            raise KeyError('no such curve; there are: %s' % known)
        return self.curves[metric, test, min(nodes)]

    def __repr__(self) -> str:
        return '<canoe.Job %s: %d events, %s>' % (self.output, len(self.events), ', '.join(self.metrics))


def read_job(path: Path) -> Job:
    """Reads the record of a running or finished job: a job folder, its output folder, or a trainer's `--save_dir`."""
    return Job(path)


def record_files(output: str) -> list[str]:
    """The files of a record."""
    return sorted(glob.glob(os.path.join(glob.escape(output), '*events.jsonl'))
                  + glob.glob(os.path.join(glob.escape(output), 'node_*', '*.events.jsonl')))


def event(output: str, file: str, line: bytes) -> Optional[dict[str, Any]]:
    """A line of a record; None if it is incomplete."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    name = os.path.relpath(file, output).replace(os.sep, '/')
    found['process'] = 'runner' if name == 'events.jsonl' else name[:-len('.events.jsonl')]
    return found


def read_events(output: str) -> list[dict[str, Any]]:
    events = []
    for file in record_files(output):
        with open(file, 'rb') as lines:
            events += [found for found in (event(output, file, line) for line in lines) if found is not None]
    return sorted(events, key=lambda found: found.get('t', 0.0))
