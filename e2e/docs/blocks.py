"""Fenced blocks of Markdown files, and the shell that runs them.

The first word after the fence is the language, the second says more:

    ```sh             runs in the tests, unchanged
    ```sh cluster     needs a Kubernetes cluster
    ```sh aws         needs an AWS account
    ```sh build       builds the program itself
    ```sh serve       serves a page until it is interrupted
    ```python a.py    the contents of the file a.py, which is written before the next block runs
"""
import os
import pathlib
import signal
import subprocess
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = ('cluster', 'aws', 'build')
LANGUAGES = ('sh', 'text', 'console', 'python', 'yaml', 'json', 'toml', 'rust', 'csv')


class Block:
    """One fenced block."""

    def __init__(self, path, line, info):
        self.path, self.line, self.lines = path, line, []
        self.language, *rest = info.split() or ['']
        self.note = rest[0] if rest else ''

    @property
    def text(self):
        return '\n'.join(self.lines) + '\n'

    @property
    def place(self):
        return '%s:%d' % (self.path.relative_to(ROOT), self.line)


def blocks(path):
    """The fenced blocks of a file, in order. Fences that are not closed or have no known language are errors."""
    found, open_block = [], None
    for number, line in enumerate(path.read_text(encoding='utf-8').split('\n'), 1):
        if open_block and line.strip() == '```':
            found.append(open_block)
            open_block = None
        elif open_block:
            open_block.lines.append(line)
        elif line.startswith('```'):
            open_block = Block(path, number, line[3:])
            if open_block.language not in LANGUAGES:
                raise SystemExit('%s: a fence needs one of the languages %s' % (open_block.place, ', '.join(LANGUAGES)))
    if open_block:
        raise SystemExit('%s: the fence is not closed' % open_block.place)
    return found


class Shell:
    """Runs blocks one after the other in one directory; `cd` and variables of a block hold for those that follow."""

    def __init__(self, canoe, directory):
        self.directory = pathlib.Path(directory)
        links = self.directory / '.bin'
        links.mkdir()
        (links / 'canoe').symlink_to(pathlib.Path(canoe).resolve())
        self.environment = dict(os.environ, PATH='%s:%s' % (links, os.environ['PATH']))
        self.before = ''
        self.place = self.directory

    def run(self, block):
        """Runs a block and fails with its output unless it succeeds."""
        print('%s: %s' % (block.place, '; '.join(each for each in block.lines if each and each[0] != '#')), flush=True)
        if block.note == 'serve':
            return self._serve(block)
        keep = self.directory / '.state'
        script = '%sset -e\n%s\n{ pwd; export -p; } > "%s"' % (self.before, block.text, keep)
        done = subprocess.run(['bash', '-c', script], cwd=self.directory, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise SystemExit('%s ended with %d:\n%s' % (block.place, done.returncode, done.stdout))
        place, _, exports = keep.read_text().partition('\n')
        self.place = pathlib.Path(place)
        self.before = 'cd "%s"\n%s' % (place, exports)

    def follow(self, block):
        """What a reader does with a block: runs it, saves it as a file, or only reads it. Returns whether it was run."""
        if block.language == 'sh':
            if block.note not in ('', 'serve') + NOT_RUN:
                raise SystemExit('%s: "%s" is no known word after sh' % (block.place, block.note))
            if block.note not in NOT_RUN:
                self.run(block)
                return True
        elif block.note:
            target = self.place / block.note
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding='utf-8')
        return False

    def _serve(self, block):
        """Starts a block that serves a page, fetches the page, and interrupts it."""
        process = subprocess.Popen(['bash', '-c', '%sset -e\nexec %s' % (self.before, block.text)], cwd=self.directory,
                                   env=self.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                address = next((word for word in line.split() if word.startswith('http://')), None)
                if address:
                    with urllib.request.urlopen(address) as page:
                        if '<html' not in page.read().decode():
                            raise SystemExit('%s: there is no page at %s' % (block.place, address))
                    return
            raise SystemExit('%s ended without an address:\n%s' % (block.place, ''.join(said)))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
