"""Runs Python 2 files under Python 3 with their Python 2 meaning.

v1's configuration files, data providers and scripts are Python 2. They are rewritten in memory when they are loaded.

- `judge`: decides which Python a file is written in, and has the rule. Read this first.
- `tokens`, `statements`: what Python 3 cannot parse (print statements, `except E, e`, `0777`), text to text.
- `tree`: what both parse and mean differently (division, lists, files), tree to tree.
- `text`, `patterns`, `arithmetic`, `containers`, `hashes`: what the rewritten code calls. `text` has the
  model of strings and files.
- `names`: the builtins that such a file sees; `modules`: its imports.
- `loader`: combines the others. `python3 -m paddle.python2 SCRIPT ...` runs a script.
"""

from paddle.python2.judge import THREE  # noqa: F401
from paddle.python2.loader import install, run_path, verdicts  # noqa: F401
