"""Compiles and imports files of users: each as the Python that it is written in.

A user's file is one that is found on the search path outside this package, Python's own library and installed
packages. Files in Python 3 go to Python's own loader; the others are rewritten in memory, so nothing is written to disk
and every line keeps its number.
"""

import ast
import builtins
import os
import re
import sys
import warnings
from importlib.machinery import PathFinder, SourceFileLoader

from paddle.python2 import judge
from paddle.python2.judge import THREE, TWO, UNMARKED

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = re.compile(r'[/\\](?:site|dist)-packages[/\\]')
_CODING = re.compile(r'^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)')
verdicts = {}


def is_users(path):
    """Whether a file belongs to the user."""
    path = os.path.abspath(path)
    return not path.startswith((PACKAGE, LIBRARY)) and not _INSTALLED.search(path)


def _coding(data):
    for line in data.split(b'\n', 2)[:2]:
        found = _CODING.match(line.decode('latin-1'))
        if found:
            return found.group(1)
    return 'utf-8'


def code_of(path, data):
    """The code of a file, and its language."""
    if data.startswith(b'\xef\xbb\xbf'):
        data = data[3:]
    verdict, tree, failure = _verdict(data, path)
    verdicts[path] = verdict
    if verdict.language == THREE:
        return compile(tree if tree is not None else data, path, 'exec', dont_inherit=True), THREE
    if verdict.language == UNMARKED and data.isascii():
        from paddle.python2.tree import rewritten
        return compile(rewritten(tree), path, 'exec', dont_inherit=True), UNMARKED
    try:
        return compiled(data.decode('latin-1'), path, 'exec', verdict.language, _coding(data)), verdict.language
    except SyntaxError as error:
        if failure is not None and (failure.lineno or 0) > (error.lineno or 0):
            raise failure from None
        error.text = _line(data, error.lineno)
        raise


def _verdict(data, path):
    """The verdict about a file, its tree if Python 3 can parse it, and otherwise why it cannot."""
    try:
        tree, failure = ast.parse(data, path), None
    except (SyntaxError, ValueError) as error:
        tree, failure = None, error if isinstance(error, SyntaxError) else SyntaxError(str(error))
    verdict = judge.declared(data.decode('latin-1'))
    if verdict is None:
        verdict = judge.judged(tree) if tree is not None else judge.Verdict(
            TWO, 'Python 3 cannot parse it: %s' % failure.msg, failure.lineno or 0)
    return verdict, tree, failure


def compiled(source, path, mode, language, coding='utf-8'):
    """Code of Python 2 text that has one character per byte."""
    from paddle.python2.statements import translated, with_literals
    from paddle.python2.tree import rewritten
    patterns = {}
    if language == TWO:
        source, patterns = translated(source, coding)
    elif not source.isascii():
        source = with_literals(source, coding)
    tree = ast.parse(source, path, mode)
    return compile(rewritten(tree, patterns), path, mode, dont_inherit=True)


def _line(data, number):
    lines = data.decode('utf-8', 'replace').split('\n')
    return lines[number - 1] if number and number <= len(lines) else ''


def prepared(path, names):
    """The code of a file; sets the builtins of its language in the name space."""
    with open(path, 'rb') as source:
        return prepared_text(source.read(), path, names)


def prepared_text(data, path, names):
    """As `prepared`, for the bytes of a file of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # about backslashes in strings, which Python 2 left unchanged
        code, language = code_of(path, data)
    if language == THREE:
        names['__builtins__'] = builtins
    else:
        from paddle.python2.names import builtins_for
        names['__builtins__'] = builtins_for(path, language)
    return code


def run_path(path, names, local_names=None):
    """Runs a file in a name space."""
    theirs = names.get('__builtins__')
    code = prepared(path, names)
    try:
        if local_names is None:
            exec(code, names)
        else:
            exec(code, names, local_names)
    finally:
        if theirs is not None:
            names['__builtins__'] = theirs


def run_text(data, path, names):
    """Runs bytes as if they were a file of this name."""
    exec(prepared_text(data, path, names), names)


class UserLoader(SourceFileLoader):
    """Runs a user's module in its own Python."""

    def exec_module(self, module):
        """What `importlib` calls."""
        exec(prepared(self.path, vars(module)), vars(module))


class UserFinder(object):
    """Finds modules of users before Python's own finder does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """What `importlib` calls."""
        spec = PathFinder.find_spec(name, path, target)
        origin = spec is not None and spec.has_location and spec.origin
        if not origin or not origin.endswith('.py') or not is_users(origin):
            return None
        spec.loader = UserLoader(name, origin)
        spec.cached = None
        return spec


def install():
    """From now on, modules of users run in their own Python."""
    if UserFinder not in sys.meta_path:
        before = [place for place, finder in enumerate(sys.meta_path) if finder is PathFinder]
        sys.meta_path.insert(before[0] if before else len(sys.meta_path), UserFinder)
