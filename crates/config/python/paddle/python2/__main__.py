"""`python3 -m paddle.python2 SCRIPT ARGUMENT...`: runs a script in the Python that it is written in.

As with Python itself, `-m MODULE` runs a module, `-c CODE` a text, and `-` or nothing what comes from standard input.
"""

import os
import sys
import traceback
import warnings

from paddle.python2.loader import PACKAGE, install, is_users, run_path, run_text

# Options of Python 2 that change nothing here.
SILENT = {'-u', '-B', '-O', '-OO', '-s', '-t', '-tt', '-3'}


def show(kind, error, trace):
    """The traceback without the frames that run the script."""
    shown = traceback.TracebackException(kind, error, trace)
    theirs = [frame for frame in shown.stack if not frame.filename.startswith((PACKAGE, '<frozen'))]
    shown.stack = traceback.StackSummary.from_list(theirs)
    sys.stderr.write(''.join(shown.format()))


def module_file(name):
    """The file of a module, or of a package's `__main__`."""
    from importlib.util import find_spec
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(name + '.__main__')
    if spec is None or not spec.origin:
        sys.exit('No module named %s' % name)
    return spec.origin


def main(arguments):
    """Runs the script as Python would: its directory comes first on the search path."""
    while arguments and arguments[0] in SILENT:
        arguments = arguments[1:]
    first = arguments[0] if arguments else '-'
    if first in ('-m', '-c') and len(arguments) < 2:
        sys.exit('Argument expected for the %s option' % first)
    if first in ('-V', '--version'):
        return print('Python %s (with the meaning of Python 2 for files that are written in it)'
                     % sys.version.split()[0])
    is_script = first not in ('-m', '-c', '-')
    sys.argv[:] = arguments if is_script else [first] + arguments[1 if first == '-' else 2:]
    start = os.path.dirname(os.path.abspath(first)) if is_script else ''
    sys.path[:] = [start, PACKAGE.rstrip(os.sep)] + [each for each in sys.path if each]
    sys.excepthook = show
    warnings.simplefilter('ignore', DeprecationWarning)  # about names that Python 2 had
    install()
    module = sys.modules['__main__'] = type(sys)('__main__')
    if first == '-c':
        return run_text(arguments[1].encode('utf-8'), '<string>', vars(module))
    if first == '-':
        return run_text(sys.stdin.buffer.read(), '<stdin>', vars(module))
    path = first if is_script else module_file(arguments[1])
    if not is_script:
        module.__package__ = arguments[1].rpartition('.')[0]
        sys.argv[0] = path
        if not is_users(path):
            import runpy
            return runpy.run_module(arguments[1], run_name='__main__', alter_sys=True)
    module.__file__ = path
    run_path(path, vars(module))


if __name__ == '__main__':
    main(sys.argv[1:])
