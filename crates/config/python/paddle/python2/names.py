"""The builtins of a Python 2 file.

A module whose name space has a `__builtins__` of its own looks there, and only it does: libraries and files in
Python 3 keep Python 3's. Functions whose names begin with `_p2_` are calls that this package inserts into the
code.
"""

import builtins
import importlib
import sys
from functools import reduce
from types import FunctionType

from paddle.python2 import arithmetic, containers, hashes, modules, processes, text
from paddle.python2.judge import TWO


class _Text(type):
    def __instancecheck__(cls, value):
        return isinstance(value, str) and not text.is_bytes(value)


class unicode(str, metaclass=_Text):
    """Characters; here they are the same type as Python 2's text."""

    def __new__(cls, value='', encoding=None, errors='strict'):
        if encoding is not None or isinstance(value, bytes):
            return text.decode(value, encoding or 'ascii', errors)
        own = getattr(type(value), '__unicode__', None)
        return text.characters(str(value) if own is None else own(value))


class _Bytes(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.bytearray)


class bytearray(builtins.bytearray, metaclass=_Bytes):
    """Bytes that can be changed, made of text."""

    def __init__(self, source=b'', *codec):
        super().__init__(text.raw(source) if isinstance(source, str) and not codec else source, *codec)

    def __str__(self):
        return text.plain(self)


def buffer(thing, offset=0, size=None):
    """Python 2's `buffer`, as text: a part of something's bytes."""
    data = text.raw(thing) if isinstance(thing, str) else memoryview(thing).cast('B')
    return text.plain(bytes(data[offset:None if size is None else offset + size]))


def exception(kind, value=None, trace=None):
    """What `raise kind, value, trace` raises."""
    if isinstance(kind, BaseException):
        made = kind
    elif isinstance(value, kind):
        made = value
    elif value is None:
        made = kind()
    else:
        made = kind(*value) if isinstance(value, tuple) else kind(value)
    return made.with_traceback(trace) if trace is not None else made


def message(thing):
    """`thing.message`, which exceptions had."""
    if isinstance(thing, BaseException) and not hasattr(thing, 'message'):
        return thing.args[0] if len(thing.args) == 1 else ''
    return thing.message


def arguments(caught):
    """What a subscript of a caught exception looks into."""
    return caught if hasattr(type(caught), '__getitem__') else caught.args


def attribute(thing, old, new):
    """An attribute under the name that it had in Python 2."""
    if isinstance(thing, FunctionType) and old in ('im_func', 'im_self'):  # of a class: Python 2's unbound method
        return thing if old == 'im_func' else None
    return getattr(thing, old if hasattr(thing, old) else new)


class Version(tuple):
    """Python 2's `sys.version_info`."""

    major, minor, micro, releaselevel, serial = (property(lambda self, place=place: self[place]) for place in range(5))


_VERSION = {'version_info': Version((2, 7, 18, 'final', 0)), 'version': '2.7.18', 'hexversion': 0x020712f0}


def version(language):
    """The attributes of `sys` that tell the language: a file in Python 2 chooses what it wrote for Python 2."""
    def attribute_of(thing, name):
        return _VERSION[name] if thing is sys and language == TWO else getattr(thing, name)
    return attribute_of


def octal(number):
    """Python 2's `oct`."""
    return '0' if number == 0 else '%s0%o' % ('-' if number < 0 else '', abs(number))


def fromstring(thing, *arguments, **options):
    """NumPy's and others' reading of numbers from binary data."""
    if arguments and isinstance(arguments[0], str) and not options.get('sep'):
        if getattr(thing, '__name__', '') == 'numpy':
            return thing.frombuffer(text.raw(arguments[0]), *arguments[1:], **options).copy()
        if not hasattr(thing, 'fromstring'):
            return thing.frombytes(text.raw(arguments[0]))  # array.array
    return thing.fromstring(*arguments, **options)


def tostring(thing, *arguments, **options):
    """The bytes of an array, under their old name too."""
    found = getattr(thing, 'tostring' if hasattr(thing, 'tostring') else 'tobytes')(*arguments, **options)
    return text.plain(found) if isinstance(found, bytes) else found


def frombuffer(thing, *arguments, **options):
    """As `fromstring`, without a copy."""
    arguments = [text.raw(each) if isinstance(each, str) and not place else each for place, each in enumerate(arguments)]
    return thing.frombuffer(*arguments, **options)


def load(thing, *arguments, **options):
    """`numpy.load` read pickles when Python 2 wrote them; every other `load` is called as it is."""
    if getattr(thing, '__name__', '') == 'numpy':
        options = dict(dict(allow_pickle=True, encoding='latin1'), **options)
    return thing.load(*arguments, **options)


def raw_input(prompt=''):
    """A line of standard input."""
    if prompt:
        text.write(sys.stdout, text.shown(prompt))
        sys.stdout.flush()
    line = text.readers(text.plain)['readline'](sys.stdin)
    if not line:
        raise EOFError('EOF when reading a line')
    return line[:-1] if line.endswith('\n') else line


def reload(module):
    """Loads a module again; Python 2 files reload `sys` to get `setdefaultencoding`, which exists here."""
    return module if module is sys else importlib.reload(module)


def builtins_for(path, language):
    """The builtins of one file; an unmarked one gets errors where the languages differ."""
    marked = language == TWO
    divide = arithmetic.divide if marked else arithmetic.divide_undecided
    readers = text.readers(text.plain if marked else text.watched(path))
    names = dict(vars(builtins))
    names.update(containers.functions(readers['lines']))
    names.update(
        xrange=range, unicode=unicode, basestring=str, long=int, unichr=chr, bytes=str, repr=ascii,
        cmp=containers.compare, sorted=containers.sort_copy, raw_input=raw_input, open=text.open_file,
        file=text.file, round=arithmetic.rounded, intern=sys.intern, reload=reload, oct=octal,
        hash=hashes.hash, buffer=buffer, bytearray=bytearray,
        apply=lambda function, arguments=(), options={}: function(*arguments, **options),
        coerce=lambda left, right: (left + type(right)(0), right + type(left)(0)),
        reduce=lambda function, values, *first: reduce(function, readers['lines'](values), *first))
    names['print'] = text.print_function
    helpers = dict(text.methods(), **containers.methods())
    helpers.update(readers)
    helpers.update(
        divide=divide, divide_whole=divide if marked else arithmetic.divide_whole, divisor=arithmetic.divisor(divide),
        exception=exception, message=message, arguments=arguments, sliced=containers.sliced,
        compared=containers.compared, print=text.print_statement,
        print_to=text.print_to, fromstring=fromstring, tostring=tostring, frombuffer=frombuffer,
        stopped=StopIteration, until_stopped=containers.until_stopped,
        load=load, attribute=attribute, version=version(language), popen=processes.popen,
        imported=modules.reshaper(marked))
    names.update(('_p2_' + name, value) for name, value in helpers.items())
    names.update(_evaluators(names, language))
    names['__import__'] = modules.importer(names, marked)
    return names


def _evaluators(names, language):
    """`eval`, `exec`, `execfile` and `input`, whose text is in the language of the file that calls them."""
    from paddle.python2.loader import compiled, run_path

    def scopes(global_names, local_names):
        frame = sys._getframe(2)
        if global_names is None:
            return frame.f_globals, frame.f_locals if local_names is None else local_names
        global_names.setdefault('__builtins__', names)
        return global_names, global_names if local_names is None else local_names

    def evaluate(source, global_names=None, local_names=None):
        global_names, local_names = scopes(global_names, local_names)
        code = compiled(source.strip(), '<string>', 'eval', language) if isinstance(source, str) else source
        return eval(code, global_names, local_names)

    def execute(source, global_names=None, local_names=None):
        global_names, local_names = scopes(global_names, local_names)
        code = compiled(source, '<string>', 'exec', language) if isinstance(source, str) else source
        exec(code, global_names, local_names)

    def execute_file(path, global_names=None, local_names=None):
        global_names, local_names = scopes(global_names, local_names)
        run_path(path, global_names, local_names)

    def ask(prompt=''):
        frame = sys._getframe(1)
        return eval(compiled(raw_input(prompt), '<input>', 'eval', language), frame.f_globals, frame.f_locals)

    def compile_text(source, name, mode, *flags, **options):
        if isinstance(source, str) and not any(flags) and not options:
            return compiled(source.strip(' \t') if mode == 'eval' else source, name, mode, language)
        return builtins.compile(source, name, mode, *flags, **options)

    return {'eval': evaluate, 'exec': execute, 'execfile': execute_file, 'input': ask, 'compile': compile_text}
