"""Runs a user's configuration file and leaves the result, or what went wrong, as JSON in a file.

Called as `main([config file, config arguments, result path])`. User files print freely, so nothing is said on
stdout. A failure names only the user's own frames: what happens inside this package or Python's own library is
not theirs to mend.
"""

import os
import sys

from paddle.core import python2, third_party
from paddle.core.errors import ConfigError
from paddle.core.message import quote

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.path.dirname(os.path.abspath(os.__file__))


def prepare(config_directory):
    """Search path as v1 had it (working directory, then that of the configuration file), and Python 2's names."""
    system = [each for each in sys.path if each and each != PACKAGE]
    sys.path[:] = [PACKAGE, os.getcwd(), config_directory] + system + [os.path.join(PACKAGE, 'python2')]
    third_party.install()
    python2.install()


def load():
    """Imports the package, and keeps its bytecode whatever the user wants for files of their own."""
    theirs, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        import paddle.trainer_config_helpers  # noqa: F401
        from paddle.trainer.config_parser import parse_config
        return parse_config
    finally:
        sys.dont_write_bytecode = theirs


def main(arguments):
    """Evaluates and writes the result; the exit status only says whether the result file is there."""
    path, config_arguments, result = arguments
    try:
        prepare(os.path.dirname(os.path.abspath(path)))
        parse_config = load()
        config = parse_config(path, config_arguments).to_json()
        text = '{"config":%s,"python":%s}' % (config, quote(sys.executable or ''))
    except BaseException as error:  # whatever a user's file raises, SystemExit and KeyboardInterrupt too
        text = '{"failure":%s}' % failure(error)
    with open(result, 'w') as out:
        out.write(text)


def failure(error):
    """What went wrong, as JSON."""
    frames = user_frames(error.__traceback__)
    if isinstance(error, SyntaxError):
        frames.append((error.filename or '', error.lineno or 0, '', (error.text or '').strip()))
    parts = ['{"file":%s,"line":%d,"function":%s,"text":%s}' % (quote(file), line, quote(function), quote(text))
             for file, line, function, text in frames]
    return '{"kind":%s,"exception":%s,"message":%s,"hint":%s,"frames":[%s]}' % (
        quote(kind_of(error)), quote(type(error).__name__), quote(message_of(error)), quote(hint_for(error)),
        ','.join(parts))


def kind_of(error):
    """`description` (this package refuses it), `syntax`, `import`, `exit` or `exception`."""
    for kind, types in (('description', ConfigError), ('syntax', SyntaxError), ('import', ImportError),
                        ('exit', (SystemExit, KeyboardInterrupt))):
        if isinstance(error, types):
            return kind
    return 'exception'


def message_of(error):
    """The text of the exception."""
    return (error.msg or 'invalid syntax') if isinstance(error, SyntaxError) else str(error)


def hint_for(error):
    """A way out, where there is a usual one."""
    if isinstance(error, SyntaxError):
        if 'print' in (error.msg or ''):
            return 'this is the print statement of Python 2: write print(...)'
        if 'except' in (error.text or '') and ',' in (error.text or ''):
            return 'Python 3 writes `except Error as name`'
        return 'files are read as Python 3; `2to3 -w FILE` converts most of Python 2'
    if isinstance(error, UnicodeDecodeError):
        return "files are read as UTF-8; open(name, encoding='latin-1') reads any bytes"
    if isinstance(error, TypeError):
        text = str(error)
        if 'float' in text and ('integer' in text or 'non-int' in text):
            return 'in Python 3 `/` gives fractions; `//` gives whole numbers as Python 2 did'
        if any("'%s'" % each in text for each in ('map', 'filter', 'zip', 'dict_keys', 'dict_values', 'dict_items')):
            return 'Python 3 does not make a list of it: write list(...)'
    return ''


def user_frames(trace):
    """File, line, function and source text of the frames outside this package and Python's library, outermost first."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((PACKAGE, LIBRARY, '<frozen', '<string>')):
            frames.append((code.co_filename, trace.tb_lineno, code.co_name, source_line(code.co_filename,
                                                                                       trace.tb_lineno)))
        trace = trace.tb_next
    return frames


def source_line(path, number):
    """One line of a file, empty if it cannot be read."""
    try:
        with open(path, 'rb') as source:
            for index, line in enumerate(source, 1):
                if index == number:
                    return line.decode('utf-8', 'replace').strip()
    except OSError:
        pass
    return ''
