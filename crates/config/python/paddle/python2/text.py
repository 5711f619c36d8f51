"""Python 2's text: a `str` there is a string of bytes.

Here it is a `str` with one character per byte (U+0000 to U+00FF). So length, slices, order, dictionaries and binary
data are those of Python 2, and words are equal when their bytes are, however a file was opened. `decode` returns
characters, `encode` converts them back. Files are opened as bytes, so that libraries can read them; where a *user's
file* reads, bytes become text. `lower`, `split` and the like change ASCII only, as in Python 2.
"""

import codecs
import io
import os
import re
import sys

from paddle.python2 import patterns

BINARY = (io.BufferedIOBase, io.RawIOBase)
_unfinished = set()  # files whose last print ended with a comma
default = {'encoding': 'ascii'}  # what `sys.setdefaultencoding` sets, for the whole process
_BYTE_CODECS = frozenset('hex hex_codec base64 base64_codec zlib zlib_codec bz2 bz2_codec'.split())
_LETTER_CODECS = frozenset(['rot13', 'rot_13', 'rot-13'])


def plain(data):
    """Bytes as text."""
    return data.decode('latin-1')


def raw(text):
    """Text as bytes; characters that are no bytes (from `u''`) as UTF-8."""
    try:
        return text.encode('latin-1')
    except UnicodeEncodeError:
        return text.encode('utf-8', 'surrogateescape')


def is_bytes(text):
    """Whether text beyond ASCII has the bytes of UTF-8, so that characters can hardly be meant."""
    if text.isascii():
        return False
    try:
        text.encode('latin-1').decode('utf-8')
    except UnicodeError:
        return False
    return True


def outward(text):
    """Text as other programs read it: bytes of UTF-8 are the characters that they stand for."""
    return text.encode('latin-1').decode('utf-8') if is_bytes(text) else text


def characters(text):
    """What Python 2 made of text where it needed characters: bytes are read in the default encoding."""
    return codecs.decode(text.encode('latin-1'), default['encoding']) if is_bytes(text) else text


def watched(path):
    """As `plain`, but the first bytes beyond ASCII are reported: an unmarked file may have expected characters."""
    told = []

    def decode(data):
        if not told and not data.isascii():
            told.append(True)
            sys.stderr.write('warning: %s reads text beyond ASCII as bytes, as Python 2 did: `# python: 3` on its first line '
                             'asks for characters, `# python: 2` says that bytes are right\n' % path)
        return data.decode('latin-1')

    return decode


class Writer(io.BufferedWriter):
    """A file that is written; libraries may write text, too."""

    def write(self, data):
        return super().write(raw(data) if isinstance(data, str) else data)


class Random(io.BufferedRandom):
    """A file that is read and written."""

    def write(self, data):
        return super().write(raw(data) if isinstance(data, str) else data)


class StringIO(io.BytesIO):
    """A file in memory; what is text in Python 2 is bytes for libraries."""

    def __init__(self, data=''):
        super().__init__(raw(data) if isinstance(data, str) else data)

    def write(self, data):
        return super().write(raw(data) if isinstance(data, str) else data)


class _FileType(type):
    def __instancecheck__(cls, value):
        return isinstance(value, io.IOBase)


class file(metaclass=_FileType):
    """Python 2's type of files, which opens them, too."""

    def __new__(cls, *arguments, **options):
        return open_file(*arguments, **options)


def open_file(name, mode='r', buffering=-1, **others):
    """Python 2's `open`: every file is one of bytes."""
    if others:
        return io.open(name, mode, buffering, **others)
    letters = ''.join(each for each in mode if each not in 'bUt') or 'r'
    file = io.FileIO(_path(name, letters), letters)
    if buffering == 0 and letters == 'r':
        return file
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    return (Random if '+' in letters else io.BufferedReader if letters == 'r' else Writer)(file, size)


def _path(name, mode):
    """A file name of one character per byte, unless a file has the name as it is."""
    if not isinstance(name, str) or name.isascii() or os.path.exists(name):
        return name
    return raw(name)


def write(file, *arguments, **options):
    """`file.write(data)`."""
    _unfinished.discard(id(file))
    data = arguments[0] if len(arguments) == 1 and not options else None
    if not isinstance(data, str):
        return file.write(*arguments, **options)
    if isinstance(file, BINARY) or isinstance(getattr(file, 'file', None), BINARY):  # those of `tempfile` wrap one
        file.write(raw(data))
    elif (file is sys.stdout or file is sys.stderr) and hasattr(file, 'buffer') and not data.isascii():
        file.flush()
        file.buffer.write(raw(data))
        file.buffer.flush()
    else:
        return file.write(data)
    return None


def writelines(file, *arguments, **options):
    """`file.writelines(lines)`."""
    if len(arguments) != 1 or options or not hasattr(file, 'write'):
        return file.writelines(*arguments, **options)
    for line in arguments[0]:
        write(file, line)
    return None


def print_to(file, *values, **options):
    """`print >>file, ...`; `more` means a comma at the end: the next one begins with a blank instead of a new line."""
    file = sys.stdout if file is None else file
    line = ''.join(shown(value) + ('' if isinstance(value, str) and value.endswith(('\n', '\t')) else ' ')
                   for value in values[:-1]) + ''.join(map(shown, values[-1:]))
    begin = ' ' if id(file) in _unfinished and values else ''
    write(file, begin + line + ('' if options.get('more') else '\n'))
    if options.get('more') and not line.endswith(('\n', '\t')):
        _unfinished.add(id(file))


def print_statement(*values, **options):
    """`print ...`."""
    print_to(sys.stdout, *values, **options)


def print_function(*values, **options):
    """`print(...)` in a file that both languages can read."""
    end, separator = options.get('end') or '\n', options.get('sep') or ' '
    write(options.get('file') or sys.stdout, separator.join(map(shown, values)) + end)


def shown(value):
    """`str(value)`; bytes as text, and bytes inside containers as escapes."""
    if isinstance(value, (list, tuple, dict, set)):
        return ascii(value)
    return plain(value) if isinstance(value, bytes) else str(value)


def _codec(arguments, options):
    """Encoding and treatment of errors that a call of `decode` or `encode` asks for."""
    given = dict(zip(('encoding', 'errors'), arguments), **options)
    return given.get('encoding', 'ascii').replace('string-escape', 'string_escape'), given.get('errors', 'strict')


def decode(text, *arguments, **options):
    """`text.decode(...)`; objects that are not text have their own `decode`."""
    if not isinstance(text, (str, bytes)):
        return text.decode(*arguments, **options)
    encoding, errors = _codec(arguments, options)
    if encoding in _LETTER_CODECS:
        return codecs.decode(text if isinstance(text, str) else plain(text), 'rot13', errors)
    try:
        data = text.encode('latin-1') if isinstance(text, str) else text
    except UnicodeEncodeError:
        return text  # characters already
    if encoding == 'string_escape':
        return plain(codecs.escape_decode(data)[0])
    found = codecs.decode(data, encoding, errors)
    return plain(found) if isinstance(found, bytes) else found


def encode(text, *arguments, **options):
    """`text.encode(...)`."""
    if not isinstance(text, str):
        return text.encode(*arguments, **options)
    encoding, errors = _codec(arguments, options)
    if encoding == 'string_escape':
        return plain(codecs.escape_encode(raw(text))[0])
    if encoding in _LETTER_CODECS:
        return codecs.encode(text, 'rot13', errors)
    if encoding in _BYTE_CODECS:
        return plain(codecs.encode(raw(text), encoding, errors))
    return plain(characters(text).encode(encoding, errors))


def translate(text, *arguments, **options):
    """`text.translate(table, deleted)`; a table of characters is a dictionary."""
    if not isinstance(text, str):
        return text.translate(*arguments, **options)
    table, deleted = (arguments + ('', ''))[:2]
    if deleted:
        text = text.translate(dict.fromkeys(map(ord, deleted)))
    return text.translate(table) if table else text


def maketrans(old, new):
    """`string.maketrans`: a table of 256 characters."""
    return ''.join(map(chr, range(256))).translate(str.maketrans(old, new))


# What `str` takes for ends of lines, and for blanks, and bytes do not.
_UNLIKE = {'splitlines': '\x0b\x0c\x1c\x1d\x1e'}
_UNLIKE.update(dict.fromkeys('split rsplit strip lstrip rstrip isspace'.split(), '\x1c\x1d\x1e\x1f'))


def _bytewise(name):
    """The method of `str`, on text where the two differ with the rules of `bytes`."""
    unlike = _UNLIKE.get(name, '')
    method, of_bytes = getattr(str, name), getattr(bytes, name)

    def call(text, *arguments, **options):
        if type(text) is bytes:
            text = plain(text)
        if name == 'split' and isinstance(text, re.Pattern):
            return patterns.split(text, *arguments, **options)
        if not isinstance(text, str):
            return getattr(text, name)(*arguments, **options)
        alike = text.isascii() and not any(each in text for each in unlike)
        if alike or (arguments and arguments[0] is not None and name != 'splitlines'):
            return method(text, *arguments, **options)
        try:
            data = text.encode('latin-1')
        except UnicodeEncodeError:
            return method(text, *arguments, **options)
        found = of_bytes(data, *arguments, **options)
        if isinstance(found, list):
            return [plain(each) for each in found]
        return plain(found) if isinstance(found, bytes) else found

    return call


def methods():
    """Names of text methods with what to call instead."""
    names = '''split rsplit strip lstrip rstrip splitlines lower upper title capitalize swapcase isalpha isalnum isdigit
        isspace islower isupper istitle'''.split()
    found = {name: _bytewise(name) for name in names}
    found.update(sub=patterns.method('sub', patterns.sub), subn=patterns.method('subn', patterns.subn))
    found.update(decode=decode, encode=encode, translate=translate, write=write, writelines=writelines)
    return found


def readers(text_of):
    """Names of methods that read, with what to call instead; `text_of` turns bytes into text."""

    def convert(found):
        if isinstance(found, bytes):
            return text_of(found)
        if isinstance(found, (list, tuple)) and any(isinstance(each, bytes) for each in found):
            return type(found)(convert(each) for each in found)
        return found

    def reading(name):
        def call(file, *arguments, **options):
            file = file.buffer if _is_input(file) else file
            return convert(getattr(file, name)(*arguments, **options))
        return call

    def communicate(process, *arguments, **options):
        arguments = [raw(each) if isinstance(each, str) else each for each in arguments]
        options = {name: raw(each) if isinstance(each, str) else each for name, each in options.items()}
        return convert(process.communicate(*arguments, **options))

    def lines(source):
        if isinstance(source, BINARY) or isinstance(getattr(source, 'file', None), BINARY):
            return map(text_of, source)
        if isinstance(source, bytes):
            return text_of(source)
        return map(text_of, source.buffer) if _is_input(source) else source

    def following(iterator, *arguments, **options):
        if arguments or options or hasattr(iterator, 'next'):
            return iterator.next(*arguments, **options)
        return convert(next(iterator.buffer if _is_input(iterator) else iterator))

    found = {name: reading(name) for name in ('read', 'readline', 'readlines', 'getvalue')}
    found.update(xreadlines=lines, communicate=communicate, lines=lines, next=following)
    return found


def _is_input(file):
    return file is sys.stdin and hasattr(file, 'buffer')
