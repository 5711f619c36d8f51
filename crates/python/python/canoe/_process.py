"""Training: starts the real program and passes on what it records."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from canoe._core import Error
from canoe._job import Job, event, read_job, record_files
from canoe._model import Path

#: Seconds between two looks at the record.
PERIOD = 0.1

#: Bytes of a failed program's log that an error shows.
TAIL = 4000


def program() -> str:
    """The path of the command line `canoe`: that of the variable CANOE, of this installation, or of the search path."""
    given = os.environ.get('CANOE')
    if given:
        return given
    package = os.path.dirname(os.path.abspath(__file__))
    places = [sysconfig.get_path('scripts')]
    # pip install --target puts programs beside packages, pip install --user elsewhere.
    places.append(os.path.join(os.path.dirname(package), 'bin'))
    places.append(os.path.normpath(os.path.join(package, '..', '..', '..', '..', 'bin')))
    for place in places:
        path = os.path.join(place, 'canoe')
        if os.access(path, os.X_OK):
            return path
    found = shutil.which('canoe')
    if found is None:
        raise Error('the program canoe is not in %s nor on the search path' % places[0])
    return found


def run(job: Path, *, nodes: int = 1, passes: Optional[int] = None, config: Optional[str] = None, fresh: bool = False,
        options: Sequence[str] = (), trainer_flags: Sequence[str] = ()) -> Process:
    """Trains a job folder on this machine, as `canoe run` does. Iterate over the result for the events, or `wait()`.

    nodes: each is a parameter server and a trainer.
    passes, config, fresh: as the options of `canoe run`.
    options: further options of `canoe run`; trainer_flags: flags of `canoe train`.
    """
    command = ['run', os.fspath(job), '--nodes', str(nodes), '--watch', 'off']
    for name, value in (('--passes', passes), ('--config', config)):
        if value is not None:
            command += [name, str(value)]
    command += ['--fresh'] if fresh else []
    command += list(options) + (['--', *trainer_flags] if trainer_flags else [])
    return Process(command, os.path.join(os.fspath(job), 'output'), None)


def train(config: Path, *, save_dir: Path, passes: Optional[int] = None, directory: Optional[Path] = None,
          flags: Optional[Mapping[str, Any]] = None) -> Process:
    """Trains a configuration in one process, as `canoe train` does. Iterate over the result for the events, or `wait()`.

    save_dir: gets the pass directories and the record.
    directory: the folder in which the configuration is evaluated; by default the current one.
    flags: further flags of `canoe train`, without the dashes.
    """
    save = os.path.abspath(os.fspath(save_dir))
    command = ['train', '--config=%s' % os.fspath(config), '--save_dir=%s' % save]
    if passes is not None:
        command.append('--num_passes=%d' % passes)
    command += ['--%s=%s' % pair for pair in (flags or {}).items()]
    os.makedirs(save, exist_ok=True)
    return Process(command, save, None if directory is None else os.fspath(directory))


class Process:
    """A program that trains. Iterating yields its events as they are recorded, and ends with it.

    An exit status other than 0 raises `Error` at the end. As a context manager it ends the program at the end of the
    block, if it still runs.
    """

    def __init__(self, command: Sequence[str], output: str, directory: Optional[str]) -> None:
        self._output = output
        # Only what is new is passed on: lines of earlier runs stay where they are.
        self._read = {file: os.path.getsize(file) for file in record_files(output)}
        self._parts: dict[str, bytes] = {}
        self._log = tempfile.TemporaryFile()
        interpreter = os.path.dirname(sys.executable)
        path = os.pathsep.join([interpreter, os.environ.get('PATH', os.defpath)])
        self._process = subprocess.Popen([program(), *command], cwd=directory, stdin=subprocess.DEVNULL,
                                         stdout=self._log, stderr=self._log, env=dict(os.environ, PATH=path))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            ended = self._process.poll() is not None
            yield from self._new()
            if ended:
                break
            time.sleep(PERIOD)
        self.wait()

    def _new(self) -> list[dict[str, Any]]:
        found = []
        for file in record_files(self._output):
            with open(file, 'rb') as record:
                start = self._read.get(file, 0)
                if os.fstat(record.fileno()).st_size < start:
                    # Another run has begun a new file.
                    start, self._parts[file] = 0, b''
                record.seek(start)
                data = record.read()
            self._read[file] = start + len(data)
            lines = (self._parts.get(file, b'') + data).split(b'\n')
            self._parts[file] = lines.pop()
            found += [one for one in (event(self._output, file, line) for line in lines) if one is not None]
        return sorted(found, key=lambda one: one.get('t', 0.0))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    def log(self) -> str:
        """What the program has printed so far."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode('utf-8', 'replace')

    def wait(self) -> Job:
        """Waits for the end; returns the record of the job."""
        status = self._process.wait()
        if status != 0:
            raise Error('canoe ended with status %d:\n%s' % (status, self.log()[-TAIL:].strip()))
        return read_job(self._output)

    def stop(self) -> None:
        """Asks the program to end, and waits for it. What was saved stays."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
