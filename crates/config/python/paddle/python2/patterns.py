"""Python 2's regular expressions: classes such as `\\w` are ASCII unless `re.UNICODE` is asked for, and empty matches.

Python 2 never split at an empty match, and replaced one only where it did not touch the match before: so
`re.split('\\s*', 'a b')` gave words, which in Python 3 gives characters.
"""

import re
from functools import lru_cache

try:
    from re import _parser as parser
except ImportError:
    import sre_parse as parser

_UNICODE_INSIDE = re.compile(r'\(\?[a-zA-Z]*u')


def flags_of(pattern, flags):
    """The flags with which Python 3 reads a pattern as Python 2 did."""
    flags = int(flags)
    if not isinstance(pattern, str):
        return flags
    flags &= ~int(re.LOCALE)  # Python 3 has it for bytes only; without a locale it changed nothing
    return flags if flags & re.UNICODE or _UNICODE_INSIDE.search(pattern) else flags | re.ASCII


def compiled(pattern, flags=0):
    """`re.compile`."""
    return re.compile(pattern, flags_of(pattern, flags))


@lru_cache(maxsize=512)
def _may_be_empty(pattern):
    return parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG).getwidth()[0] == 0


def split(pattern, string, maxsplit=0):
    """`pattern.split`."""
    if not _may_be_empty(pattern):
        return pattern.split(string, maxsplit)
    parts, end = [], 0
    for found in pattern.finditer(string):
        if found.end() > found.start():
            parts.append(string[end:found.start()])
            parts.extend(found.groups())
            end = found.end()
            maxsplit -= 1
            if not maxsplit:
                break
    return parts + [string[end:]]


def subn(pattern, repl, string, count=0):
    """`pattern.subn`."""
    if not _may_be_empty(pattern):
        return pattern.subn(repl, string, count)
    parts, end, number = [], 0, 0
    for found in pattern.finditer(string):
        if found.end() == found.start() == end and number:
            continue
        parts += [string[end:found.start()], repl(found) if callable(repl) else found.expand(repl)]
        end = found.end()
        number += 1
        if number == count:
            break
    return ''.join(parts + [string[end:]]), number


def sub(pattern, repl, string, count=0):
    """`pattern.sub`."""
    return subn(pattern, repl, string, count)[0]


def method(name, function):
    """A method call of a Python 2 file that may be one of a pattern."""

    def call(thing, *arguments, **options):
        if isinstance(thing, re.Pattern):
            return function(thing, *arguments, **options)
        return getattr(thing, name)(*arguments, **options)
    return call
