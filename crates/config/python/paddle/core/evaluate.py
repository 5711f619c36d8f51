"""Runs a user's configuration file and writes the result, or the failure, to a file as JSON.

Called as `main([config file, config arguments, result path])`. User files print freely, so nothing is written to
stdout. A failure names only the user's own frames: what happens inside this package or Python's own library is
not theirs to fix.
"""

import os
import re
import sys

from paddle import python2
from paddle.core import third_party
from paddle.core.errors import ConfigError
from paddle.core.message import quote
from paddle.python2.text import outward

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What the trainer itself says to every configuration, and what the package reads.
OWN_ARGUMENTS = {'trainer_id', 'local', 'with_cost', 'use_gpu', 'parallel_nn', 'cudnn_version',
                 'extension_module_name'}
LIBRARY = os.path.dirname(os.path.abspath(os.__file__))


def prepare(config_directory):
    """Search path as v1 had it (working directory, then that of the configuration file), and modules in Python 2."""
    system = [each for each in sys.path if each and each != PACKAGE]
    sys.path[:] = [PACKAGE, os.getcwd(), config_directory] + system
    third_party.install()
    python2.install()


def load():
    """Imports the package, and keeps its bytecode, whatever the user sets for other files."""
    theirs, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        import paddle.python2.names  # noqa: F401
        import paddle.python2.tree  # noqa: F401
        import paddle.trainer_config_helpers  # noqa: F401
        from paddle.trainer.config_parser import parse_config
        return parse_config
    finally:
        sys.dont_write_bytecode = theirs


def main(arguments):
    """Evaluates and writes the result; the exit status only says whether the result file exists."""
    path, config_arguments, result = arguments
    try:
        prepare(os.path.dirname(os.path.abspath(path)))
        parse_config = load()
        config = parse_config(path, config_arguments).to_json()
        notes = ','.join(quote(note) for note in unread_arguments())
        text = '{"config":%s,"python":%s,"places":%s,"notes":[%s]}' % (
            config, quote(sys.executable or ''), places(), notes)
    except BaseException as error:  # whatever a user's file raises, SystemExit and KeyboardInterrupt too
        text = '{"failure":%s}' % failure(error)
    with open(result, 'w') as out:
        out.write(text)


def places():
    """Where layers and data sources are described, as JSON."""
    from paddle.core.job import job
    found = ('%s:[%s,%d]' % (quote(outward(name)), quote(place[0]), place[1])
             for name, place in job().places.items() if place)
    return '{%s}' % ','.join(found)


def unread_arguments():
    """What is said about arguments of the command line that the configuration does not read."""
    from paddle.core.job import job
    here = job()
    for name in sorted(set(here.arguments) - here.asked - OWN_ARGUMENTS):
        asked = sorted(here.asked - OWN_ARGUMENTS)
        meant = nearest(name, asked)
        hint = 'did you mean %s?' % meant if meant else 'it reads %s' % (', '.join(asked) or 'none')
        yield 'the configuration does not read %s of --config_args; %s' % (name, hint)


def failure(error):
    """The failure as JSON."""
    frames = user_frames(error.__traceback__)
    if isinstance(error, SyntaxError):
        frames.append((error.filename or '', error.lineno or 0, '', (error.text or '').strip()))
    parts = ['{"file":%s,"line":%d,"function":%s,"text":%s}' % (quote(file), line, quote(function), quote(text))
             for file, line, function, text in frames]
    return '{"kind":%s,"exception":%s,"message":%s,"hint":%s,"frames":[%s]}' % (
        quote(kind_of(error)), quote(type(error).__name__), quote(outward(message_of(error))), quote(hint_for(error)),
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
    """What the user can do, if that is known; otherwise empty."""
    if isinstance(error, SyntaxError):
        return 'neither Python 2 nor Python 3 can read this line'
    if isinstance(error, UnicodeDecodeError):
        return "files in Python 3 read text as UTF-8; open(name, encoding='latin-1') reads any bytes"
    meant = guess_for(error)
    if meant:
        return 'did you mean %s?' % meant
    verdict = language_of(error)
    if verdict is not None and verdict.language == python2.THREE and isinstance(
            error, (NameError, AttributeError, TypeError, ImportError)):
        return 'the file runs as Python 3 because of line %d: %s; `# python: 2` on its first line changes that' % (
            verdict.line, verdict.reason)
    return ''


def guess_for(error):
    """The name or the argument that a misspelt one was meant to be, or None."""
    frame, trace = None, error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame.f_code):
            frame = trace.tb_frame
        trace = trace.tb_next
    if frame is None:
        return None
    names = dict(frame.f_globals, **frame.f_locals)
    name = re.match(r"name '(\w+)' is not defined", str(error))
    argument = re.match(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, NameError) and name:
        return nearest(name.group(1), names)
    if isinstance(error, TypeError) and argument and callable(names.get(argument.group(1))):
        import inspect
        try:
            known = inspect.signature(names[argument.group(1)]).parameters
        except (TypeError, ValueError):
            return None
        return nearest(argument.group(2), known)
    return None


def nearest(word, known):
    """The most similar of the known words, or None."""
    import difflib
    found = difflib.get_close_matches(word, [each for each in known if not each.startswith('_')], n=1, cutoff=0.7)
    return found[0] if found else None


def language_of(error):
    """The verdict about the user's file in which it happened, or None."""
    found, trace = None, error.__traceback__
    while trace is not None:
        found = python2.verdicts.get(trace.tb_frame.f_code.co_filename, found)
        trace = trace.tb_next
    return found


def is_users(code):
    """Whether it is neither of this package nor of Python's library."""
    return not code.co_filename.startswith((PACKAGE, LIBRARY, '<frozen', '<string>'))


def user_frames(trace):
    """File, line, function and source text of the frames outside this package and Python's library, outermost first."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code):
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
