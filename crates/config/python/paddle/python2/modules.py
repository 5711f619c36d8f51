"""Modules and names of libraries that Python 2 files import.

`importer` is the `__import__` of such a file. It knows modules that have another name now, wraps modules that work on
bytes for Python 2's text, and adds names that libraries have lost. Only such files see the first two.
"""

import builtins
import importlib
import importlib.util
import sys
from types import ModuleType

from paddle.python2 import patterns, processes, text

RENAMED = {
    'Queue': 'queue', 'thread': '_thread', 'urllib2': 'urllib.request', 'urlparse': 'urllib.parse',
    'httplib': 'http.client', 'HTMLParser': 'html.parser', 'cookielib': 'http.cookiejar', 'copy_reg': 'copyreg',
    'SocketServer': 'socketserver', 'BaseHTTPServer': 'http.server', 'xmlrpclib': 'xmlrpc.client',
    'exceptions': 'builtins', 'htmlentitydefs': 'html.entities',
}


def _like(real, **changed):
    """A module with the names of another one, some of them changed."""
    made = ModuleType(real.__name__, real.__doc__)
    vars(made).update({name: value for name, value in vars(real).items() if not name.startswith('__')})
    vars(made).update(changed)
    return made


def _bytes_of(value):
    return text.raw(value) if isinstance(value, str) else value


def _text_of(value):
    if isinstance(value, tuple):
        return tuple(map(_text_of, value))
    return text.plain(value) if isinstance(value, bytes) else value


def on_bytes(function):
    """Wraps a function of bytes so that it accepts and returns Python 2's text."""

    def call(*arguments, **options):
        return _text_of(function(*map(_bytes_of, arguments),
                                 **{name: _bytes_of(value) for name, value in options.items()}))
    call.__name__ = getattr(function, '__name__', 'call')
    return call


def _bytes_module(name):
    def make():
        real = importlib.import_module(name)
        functions = {each: on_bytes(value) for each, value in vars(real).items()
                     if not each.startswith('_') and callable(value) and not isinstance(value, type)}
        return _like(real, **functions)
    return make


def _signed(function):
    """A checksum as Python 2 returned it: a signed number of 32 bits."""

    def call(*arguments):
        found = function(*arguments)
        return found - ((found >> 31) << 32)
    return call


def _checksums(name):
    def make():
        made = _bytes_module(name)()
        for each in ('crc32', 'adler32'):
            if hasattr(made, each):
                setattr(made, each, _signed(getattr(made, each)))
        return made
    return make


def _pickle():
    import pickle

    class Unpickler(pickle.Unpickler):
        def __init__(self, file, **options):
            super().__init__(file, **dict(dict(encoding='latin-1'), **options))

    def load(file, **options):
        return Unpickler(file, **options).load()

    def loads(data, **options):
        return pickle.loads(_bytes_of(data), **dict(dict(encoding='latin-1'), **options))

    def dump(value, file, protocol=0):
        file.write(pickle.dumps(value, protocol))

    def dumps(value, protocol=0):
        return text.plain(pickle.dumps(value, protocol))

    return _like(pickle, Unpickler=Unpickler, load=load, loads=loads, dump=dump, dumps=dumps)


def _strings():
    made = ModuleType('StringIO')
    made.StringIO = text.StringIO
    return made


def _io():
    import io
    return _like(io, BytesIO=text.StringIO)


def _hashlib():
    import hashlib

    class Hash(object):
        def __init__(self, real):
            self.real = real
            self.update = on_bytes(real.update)
            self.digest = on_bytes(real.digest)
            self.hexdigest = real.hexdigest

        def copy(self):
            """A copy that continues from here."""
            return Hash(self.real.copy())

    def made(kind):
        return lambda data='': Hash(kind(_bytes_of(data)))

    kinds = {name: made(getattr(hashlib, name)) for name in ('md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512')}
    return _like(hashlib, new=lambda name, data='': Hash(hashlib.new(name, _bytes_of(data))), **kinds)


def _json():
    import json

    def loads(data, **options):
        options.pop('encoding', None)
        return json.loads(_bytes_of(data), **options)

    def read(value):
        """Bytes in a value that is to be written as ASCII: Python 2 takes them for UTF-8."""
        if isinstance(value, dict):
            return {read(key): read(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [read(each) for each in value]
        return text.raw(value).decode('utf-8') if isinstance(value, str) and text.is_bytes(value) else value

    def dumps(value, **options):
        options.pop('encoding', None)
        return json.dumps(read(value) if options.get('ensure_ascii', True) else value, **options)

    def dump(value, file, **options):
        file.write(dumps(value, **options))

    return _like(json, loads=loads, dumps=dumps, dump=dump)


def _math():
    import math
    return _like(math, floor=lambda number: float(math.floor(number)), ceil=lambda number: float(math.ceil(number)))


def _array():
    import array

    class Array(array.array):
        def __new__(cls, kind, values=()):
            return super().__new__(cls, kind, text.raw(values) if isinstance(values, str) and kind != 'u' else values)

    Array.__name__ = 'array'
    return _like(array, array=Array, ArrayType=Array)


def _base64():
    import base64
    made = _bytes_module('base64')()
    made.encodestring, made.decodestring = on_bytes(base64.encodebytes), on_bytes(base64.decodebytes)
    return made


def _subprocess():
    import subprocess
    return _like(subprocess, check_output=processes.check_output)


def _csv():
    import csv
    lines = text.readers(text.plain)['lines']

    class DictReader(csv.DictReader):
        def __init__(self, file, *arguments, **options):
            super().__init__(lines(file), *arguments, **options)

    return _like(csv, reader=lambda file, *arguments, **options: csv.reader(lines(file), *arguments, **options),
                 DictReader=DictReader)


def _configparser():
    import configparser

    def old(kind):
        class Parser(kind):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **dict(dict(strict=False), **options))

            def readfp(self, file, name=None):
                """Python 2's `read_file`."""
                self.read_file(text.readers(text.plain)['lines'](file), name)
        Parser.__name__ = kind.__name__
        return Parser

    return _like(configparser, RawConfigParser=old(configparser.RawConfigParser),
                 ConfigParser=old(configparser.ConfigParser), SafeConfigParser=old(configparser.ConfigParser))


def _itertools():
    """Functions that iterate over files get lines of text."""
    import itertools
    lines = text.readers(text.plain)['lines']

    def walking(function):
        def call(*arguments, **options):
            return function(*[lines(each) if isinstance(each, text.BINARY) else each for each in arguments], **options)
        return call

    names = {name: walking(getattr(itertools, name))
             for name in ('chain', 'cycle', 'dropwhile', 'groupby', 'islice', 'takewhile', 'tee', 'starmap')}
    names['chain'].from_iterable = itertools.chain.from_iterable
    return _like(itertools, izip=walking(zip), imap=walking(map), ifilter=walking(filter),
                 izip_longest=walking(itertools.zip_longest), ifilterfalse=walking(itertools.filterfalse), **names)


def _re():
    import re

    def plain(name):
        function = getattr(re, name)

        def call(pattern, string, flags=0):
            return function(pattern, string, patterns.flags_of(pattern, flags))
        return call

    def sub(pattern, repl, string, count=0, flags=0):
        return patterns.sub(patterns.compiled(pattern, flags), repl, string, count)

    def subn(pattern, repl, string, count=0, flags=0):
        return patterns.subn(patterns.compiled(pattern, flags), repl, string, count)

    def split(pattern, string, maxsplit=0, flags=0):
        return patterns.split(patterns.compiled(pattern, flags), string, maxsplit)

    return _like(re, compile=patterns.compiled, sub=sub, subn=subn, split=split,
                 **{name: plain(name) for name in ('match', 'search', 'findall', 'finditer')})


def _one(module, **names):
    def make():
        made = ModuleType(module)
        for name, path in names.items():
            place, _, attribute = path.rpartition('.')
            setattr(made, name, getattr(shaped(place) or importlib.import_module(place), attribute))
        return made
    return make


SHAPED = {
    'cPickle': _pickle, 'pickle': _pickle, 'StringIO': _strings, 'cStringIO': _strings, 'hashlib': _hashlib, 'io': _io,
    'json': _json, 'csv': _csv, 'ConfigParser': _configparser, 're': _re, 'itertools': _itertools,
    'md5': _one('md5', new='hashlib.md5', md5='hashlib.md5'), 'sha': _one('sha', new='hashlib.sha1'),
    'sets': _one('sets', Set='builtins.set', ImmutableSet='builtins.frozenset'),
    'math': _math, 'array': _array, 'base64': _base64, 'subprocess': _subprocess,
    'commands': _one('commands', getoutput='paddle.python2.processes.getoutput',
                     getstatusoutput='paddle.python2.processes.getstatusoutput'),
    'UserDict': _one('UserDict', UserDict='collections.UserDict', DictMixin='collections.abc.MutableMapping'),
}
SHAPED.update({name: _bytes_module(name) for name in ('struct', 'marshal')})
SHAPED.update({name: _checksums(name) for name in ('zlib', 'binascii')})
# In an unmarked file these are those of Python 3: positions may be computed with them.
_MARKED_ONLY = frozenset(['math'])
_made = {}


def shaped(name):
    """The Python 2 form of a module, or None."""
    if name not in SHAPED:
        return None
    if name not in _made:
        _made[name] = SHAPED[name]()
    return _made[name]


def reshaper(marked):
    """Gives a name space that imported everything from somewhere the Python 2 forms of the modules it got."""

    def reshape(names):
        for name, value in list(names.items()):
            if isinstance(value, ModuleType) and value is sys.modules.get(value.__name__):
                if value.__name__ in SHAPED and (marked or value.__name__ not in _MARKED_ONLY):
                    names[name] = shaped(value.__name__)

    return reshape


def importer(own_names, marked):
    """The `__import__` of Python 2 files; `own_names` are their builtins, `marked` files show that they are Python 2."""
    ours = _OURS if marked else _OURS - _MARKED_ONLY

    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        head = name.partition('.')[0]
        if level <= 0 and _is_sibling(globals, head):
            return builtins.__import__(name, globals, locals, fromlist, 1)
        if name == 'xml.etree.cElementTree':
            sys.modules.setdefault(name, importlib.import_module('xml.etree.ElementTree'))
        if level <= 0 and name in ours and not _is_users(name):
            if name == '__builtin__':
                made = ModuleType('__builtin__')
                vars(made).update(own_names)
                return made
            return shaped(name) or _extended(RENAMED[name], importlib.import_module(RENAMED[name]))
        return _extended(name, builtins.__import__(name, globals, locals, fromlist, max(level, 0)))

    return __import__


_OURS = frozenset(RENAMED) | frozenset(SHAPED) | {'__builtin__'}


def _extended(name, module):
    """A module; names that it, its parents and its submodules lost are added."""
    for changed, names in _ADDITIONS.items():
        if changed in sys.modules and (name == changed or name.startswith(changed + '.') or changed.startswith(name + '.')):
            _add(sys.modules[changed], names)
    return module


def _is_users(name):
    """Whether a module of that name is in a folder of the user, which comes first in Python 2, too."""
    from paddle.python2.loader import UserFinder
    if name in sys.modules:
        return getattr(getattr(sys.modules[name], '__spec__', None), 'loader', None).__class__.__name__ == 'UserLoader'
    return UserFinder.find_spec(name) is not None


def _is_sibling(names, head):
    """Whether Python 2 would find the module next to the one that imports it."""
    package = (names or {}).get('__package__')
    if not package or 'absolute_import' in names or package.partition('.')[0] == 'paddle':
        return False
    try:
        return importlib.util.find_spec('%s.%s' % (package, head)) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _add(module, names):
    """Adds names that a module does not have; `names` is a function that returns them."""
    for name, value in names().items():
        if name not in vars(module):
            setattr(module, name, value)


def _sys():
    return {'maxint': sys.maxsize, 'exc_clear': lambda: None,
            'setdefaultencoding': lambda name: text.default.update(encoding=name)}


def _string():
    import string
    names = {'letters': string.ascii_letters, 'lowercase': string.ascii_lowercase, 'uppercase': string.ascii_uppercase,
             'join': lambda words, separator=' ': separator.join(words), 'atoi': int, 'atof': float, 'atol': int,
             'maketrans': text.maketrans}
    methods = text.methods()
    for name in ('translate', 'split', 'strip', 'lstrip', 'rstrip', 'lower', 'upper', 'capitalize'):
        names[name] = methods[name]
    for name in ('replace', 'find', 'rfind', 'index', 'count', 'zfill', 'ljust', 'rjust', 'center'):
        names[name] = getattr(str, name)
    return names


def _collections():
    import collections.abc
    return {name: getattr(collections.abc, name) for name in collections.abc.__all__}


def _types():
    return {'StringType': str, 'UnicodeType': str, 'StringTypes': (str,), 'IntType': int, 'LongType': int,
            'FloatType': float, 'ListType': list, 'TupleType': tuple, 'DictType': dict, 'BooleanType': bool,
            'NoneType': type(None)}


def _urllib():
    import urllib.parse
    import urllib.request

    def quote(value, safe='/'):
        return urllib.parse.quote(_bytes_of(value), safe)

    def quote_plus(value, safe='', *_):
        return urllib.parse.quote_plus(_bytes_of(value), safe)

    def unquote(value):
        return text.plain(urllib.parse.unquote_to_bytes(value))

    def unquote_plus(value):
        return unquote(value.replace('+', ' '))

    def urlencode(query, doseq=0):
        return urllib.parse.urlencode(query, doseq, quote_via=quote_plus)

    return {'quote': quote, 'quote_plus': quote_plus, 'unquote': unquote, 'unquote_plus': unquote_plus, 'urlencode': urlencode,
            'urlopen': urllib.request.urlopen, 'urlretrieve': urllib.request.urlretrieve}


def _urllib2():
    import urllib.error
    parse = _urllib()
    return {'urlencode': parse['urlencode'], 'quote': parse['quote'], 'URLError': urllib.error.URLError,
            'HTTPError': urllib.error.HTTPError}


def _numpy():
    return {'float': float, 'int': int, 'bool': bool, 'object': object, 'str': str, 'long': int, 'unicode': str}


def _image():
    from PIL import Image
    return {'ANTIALIAS': getattr(Image, 'LANCZOS', 1)}


def _os():
    import os
    return {'getcwdu': os.getcwd}


def _os_path():
    import os

    def walk(top, visit, argument):
        for folder, folders, files in os.walk(top):
            names = folders + files
            visit(argument, folder, names)
            folders[:] = [name for name in folders if name in names]

    return {'walk': walk}


def _inspect():
    import inspect

    def getargspec(function):
        found = inspect.getfullargspec(function)
        return found.args, found.varargs, found.varkw, found.defaults

    return {'getargspec': getargspec}


def _fractions():
    import math
    return {'gcd': math.gcd}


def _time():
    import time
    return {'clock': time.process_time}


def _operator():
    import operator
    from paddle.python2.arithmetic import divide
    return {'div': divide, 'isCallable': callable, 'sequenceIncludes': operator.contains}


_ADDITIONS = {'sys': _sys, 'string': _string, 'collections': _collections, 'types': _types,
              'urllib': _urllib, 'urllib.request': _urllib2, 'numpy': _numpy, 'PIL.Image': _image, 'os': _os,
              'os.path': _os_path, 'inspect': _inspect, 'fractions': _fractions,
              'time': _time, 'operator': _operator}
