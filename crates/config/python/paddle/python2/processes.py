"""Output of other programs as Python 2's text: what they print is bytes, however it is read.

`subprocess` is imported when it is used: it asks for modules of other systems, and a module that is not found makes
Python search for installed packages (`paddle.core.third_party`).
"""

import io
import os

from paddle.python2 import text


class Pipe(io.BufferedReader):
    """What a command prints; `close` returns its status, as Python 2's `os.popen` did."""

    def __init__(self, process):
        super().__init__(process.stdout.detach())
        self.process = process

    def close(self):
        """Waits for the command: None, or the status as `wait` has it."""
        super().close()
        return status(self.process.wait()) or None


class Feed(text.Writer):
    """What a command reads."""

    def __init__(self, process):
        super().__init__(process.stdin.detach())
        self.process = process

    def close(self):
        """As that of `Pipe`."""
        super().close()
        return status(self.process.wait()) or None


def status(code):
    """The number that `wait` has for an exit code, or for the signal that ended the command."""
    return code << 8 if code >= 0 else -code


def popen(thing, *arguments, **options):
    """`os.popen(command, mode)`; objects of other kinds have their own `popen`."""
    if thing is not os:
        return thing.popen(*arguments, **options)
    given = dict(zip(('command', 'mode', 'bufsize'), arguments), **options)
    command = given['command']
    command = text.raw(command) if isinstance(command, str) else command
    import subprocess
    if 'w' in given.get('mode', 'r'):
        return Feed(subprocess.Popen(command, shell=True, stdin=subprocess.PIPE))
    return Pipe(subprocess.Popen(command, shell=True, stdout=subprocess.PIPE))


def getstatusoutput(command):
    """Of the module `commands`: the status and what was printed, without the last line end."""
    import subprocess
    done = subprocess.run(text.raw(command), shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    printed = text.plain(done.stdout)
    return status(done.returncode), printed[:-1] if printed.endswith('\n') else printed


def getoutput(command):
    """Of the module `commands`."""
    return getstatusoutput(command)[1]


def check_output(*arguments, **options):
    """Of the module `subprocess`."""
    import subprocess
    found = subprocess.check_output(*arguments, **options)
    return text.plain(found) if isinstance(found, bytes) else found
