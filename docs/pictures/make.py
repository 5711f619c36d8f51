#!/usr/bin/env python3
"""Makes the pictures of the README: the page of a finished job, two jobs compared, and the terminal of a run.

    docs/pictures/make.py --canoe target/release/canoe        needs Chromium and the Python package websocket-client

Everything is what the program shows; nothing is drawn by hand.
"""
import argparse
import html
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
import fcntl
import termios

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / 'e2e/watch'))
import support
from browser import Browser

COLUMNS, ROWS = 96, 30
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body{margin:0;background:#14181b;color:#e3e8eb;padding:18px 22px;width:max-content}
pre{margin:0;font:15px/1.4 "DejaVu Sans Mono",monospace}</style><pre>%s</pre>"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--canoe', required=True, type=pathlib.Path, help='the program')
    canoe = parser.parse_args().canoe.resolve()
    with tempfile.TemporaryDirectory(prefix='canoe-pictures-') as folder, Browser(1180, 820) as browser:
        folder = pathlib.Path(folder)
        run = ['canoe', 'run', 'demo', '--nodes', '3', '--config', 'trainer_config.lr.py']
        first, second = folder / 'first', folder / 'second'
        texts = []
        for each, more in ((first, []), (second, ['--', '--seed=2'])):
            subprocess.run([canoe, 'demo', 'quick_start', each / 'demo'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            texts.append(terminal(canoe, run + more, each))
        (folder / 'terminal.html').write_text(TERMINAL % html.escape('$ ' + ' '.join(run) + '\n' + texts[0]), encoding='utf-8')
        browser.goto((folder / 'terminal.html').as_uri())
        wide, high = browser.ask('[document.body.scrollWidth, document.body.scrollHeight]')
        browser.size(wide, high)
        browser.picture(HERE / 'terminal.png')
        browser.size(1180, 820)
        (second / 'demo').rename(second / 'seed-2')
        for name, jobs in (('page', [first / 'demo']), ('two-jobs', [first / 'demo', second / 'seed-2'])):
            with support.dashboard(canoe, *jobs) as program:
                browser.goto(program.page + '/?theme=light')
                browser.wait('window.canoe && canoe.jobs.every(job => job.head && job.series.size)', 'the curves', 60)
                time.sleep(1)
                browser.picture(HERE / (name + '.png'))
                browser.leave()
    for picture in sorted(HERE.glob('*.png')):
        small(picture)
        print('%s  %d kB' % (picture.name, picture.stat().st_size // 1000))


def terminal(canoe, command, folder):
    """What a terminal shows after the command: the last lines, as characters."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execv(canoe, [str(part) for part in command])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
    seen = b''
    while True:
        ready, _, _ = select.select([master], [], [], 300)
        try:
            piece = os.read(master, 65536) if ready else b''
        except OSError:
            piece = b''
        if not piece:
            break
        seen += piece
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit('the command failed:\n' + seen.decode('utf-8', 'replace'))
    return shown(seen.decode('utf-8', 'replace'))


def shown(text):
    """Applies the only control sequences that the program uses: go up some lines, and erase what follows."""
    lines = ['']
    for part in re.split(r'(\x1b\[\d*[AJ]|\r|\n)', text):
        up = re.fullmatch(r'\x1b\[(\d*)A', part)
        if up:
            lines = lines[:len(lines) - int(up.group(1) or 1)]
        elif part == '\n':
            lines.append('')
        elif part == '\r' or part.endswith('J'):
            lines[-1] = '' if part != '\r' else lines[-1]
        else:
            lines[-1] += re.sub(r'\x1b\[[0-9;]*m', '', part)
    return '\n'.join(lines).rstrip() + '\n'


def small(picture):
    """Fewer colours make a smaller file, if Pillow is there."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(picture) as image:
        image.convert('RGB').quantize(96, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == '__main__':
    main()
