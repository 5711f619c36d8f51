"""Writes the statements and literals that only Python 2 has as Python 3 has them, each on its own line.

`translated` is a function of text alone. The meaning of a construct is implemented by functions whose names begin with
`_p2_`, which `paddle.python2.names` supplies.
"""

import re

from paddle.python2.tokens import CLOSING, OPENING, joined, split_at, statements, tokens
from paddle.python2.tree import CAUGHT, TUPLE


def with_literals(source, coding):
    """A file that Python 3 can parse, with Python 2's literals; its characters are bytes in `coding`."""
    parts = tokens(source)
    _literals(parts, coding, 'unicode_literals' in _future(parts), marked=False)
    return joined(parts)


def _future(parts):
    """What the file imports from `__future__`."""
    found = [[parts[index][1] for index in statement] for statement in statements(parts)
             if parts[statement[0]][1] == 'from']
    return {name for words in found if words[1:2] == ['__future__'] for name in words}


def translated(source, coding='utf-8'):
    """Python 3 text, and the patterns of tuple parameters by the names that replace them.

    `source` has one character per byte of the file; `coding` is that of its `u''` literals.
    """
    parts = tokens(source)
    future = _future(parts)
    _literals(parts, coding, 'unicode_literals' in future, marked=True)
    _indentation(parts)
    patterns = _tuple_parameters(parts)
    _caught(parts, patterns)
    for statement in list(statements(parts)):
        first = parts[statement[0]][1]
        if first == 'print' and 'print_function' not in future:
            _print(parts, statement)
        elif first in _WRITERS:
            _WRITERS[first](parts, statement)
    return joined(parts), patterns


def _literals(parts, coding, characters, marked):
    opened = False
    for token in parts:
        kind, text = token
        if kind == 'number':
            token[1] = _number(text)
        elif kind == 'string':
            token[1] = _string(text, coding, characters, marked)
        elif text == '<>':
            token[1] = '!='
        elif text == '`':
            token[1] = ')' if opened else 'repr('
            opened = not opened


def _number(text):
    """`10L` and `0777` as Python 3 writes them."""
    text = text.rstrip('lL')
    if text.isdigit() and text[0] == '0' and text.strip('0'):
        return '0o' + text.lstrip('0')
    return text


# A backslash with what it escapes; those before a group name characters only in `u''` literals.
_ESCAPE = re.compile(r'\\(?:([uUN])|.)', re.DOTALL)


def _string(text, coding, characters, marked):
    """A literal without `b`; one of characters (`u''`, or all without `b`) with these instead of their bytes.

    In a file in Python 2, `\\u4e2d` in a literal of bytes is six of them.
    """
    prefix = text[:len(text) - len(text.lstrip('uUbBrR'))]
    body = text[len(prefix):]
    lower = prefix.lower()
    if 'u' in lower or (characters and 'b' not in lower):
        body = body.encode('latin-1').decode(coding)
        return ('r' if 'r' in lower else 'u') + body
    if marked and 'r' not in lower:
        body = _ESCAPE.sub(lambda found: '\\' * bool(found.group(1)) + found.group(0), body)
    return lower.replace('b', '') + body


def _indentation(parts):
    """A tab goes to the next multiple of eight columns, as in Python 2."""
    depth, beginning = 0, True
    for token in parts:
        kind, text = token
        if kind == 'blank' and beginning and '\t' in text:
            token[1] = text.expandtabs(8)
        if kind == 'operator':
            depth += (text in OPENING) - (text in CLOSING)
        beginning = kind == 'newline' and depth <= 0


def _after(parts, index, text):
    parts[index][1] += text


def _before(parts, index, text):
    parts[index][1] = text + parts[index][1]


def _print(parts, statement):
    """`print >>to, a, b,` calls `_p2_print(a, b, to=to, more=True)`."""
    head, rest = statement[0], statement[1:]
    if not rest:
        parts[head][1] = '_p2_print()'
        return
    ending = ''
    if parts[rest[0]][1] == '>>':
        pieces, commas = split_at(parts, rest[1:], (',',))
        parts[rest[0]][1] = ''
        parts[head][1] = '_p2_print_to('
        if pieces[-1] == [] and len(pieces) > 2:
            ending = ', more=True'
            parts[commas[-1]][1] = ''
    else:
        parts[head][1] = '_p2_print('
        if parts[rest[-1]][1] == ',':
            parts[rest[-1]][1] = ''
            ending = ', more=True'
    _after(parts, rest[-1], ending + ')')


def _exec(parts, statement):
    """`exec code in names` calls `exec`; `exec(code)` is a call already."""
    pieces, cuts = split_at(parts, statement[1:], ('in',))
    if not cuts:
        if parts[statement[1]][1] != '(':
            _after(parts, statement[0], '(')
            _after(parts, statement[-1], ')')
        return
    _after(parts, statement[0], '((')
    _after(parts, pieces[0][-1], ')')
    parts[cuts[0]][1] = ','
    _after(parts, statement[-1], ')')


def _raise(parts, statement):
    """`raise kind, value, trace`."""
    pieces, cuts = split_at(parts, statement[1:], (',',))
    if cuts:
        _after(parts, statement[0], ' _p2_exception(')
        _after(parts, statement[-1], ')')


def _except(parts, statement):
    """`except Error, name:`."""
    pieces, cuts = split_at(parts, statement[1:-1], (',',))
    if cuts:
        parts[cuts[0]][1] = ' as '


def _caught(parts, patterns):
    """Replaces `(a, b)` in `except Error, (a, b):` by a name; the tree writer takes the exception apart."""
    for statement in list(statements(parts)):
        if parts[statement[0]][1] != 'except':
            continue
        pieces, cuts = split_at(parts, statement[1:-1], (',',))
        if cuts and (len(pieces[1]) > 1):
            first, last = pieces[1][0], pieces[1][-1]
            name = '%s%d' % (CAUGHT, len(patterns))
            patterns[name] = joined(parts[first:last + 1])
            _replaced(parts, first, last, name)


def _replaced(parts, first, last, name):
    """Puts a name in the place of tokens; lines keep their numbers."""
    for token in parts[first:last + 1]:
        token[1] = ''.join(each for each in token[1] if each in '\r\n') if token[0] == 'newline' else ''
    parts[first][1] = name


_WRITERS = {'exec': _exec, 'raise': _raise, 'except': _except}


def _tuple_parameters(parts):
    """Replaces `(a, b)` among parameters by a name; the tree writer takes the tuple apart."""
    patterns = {}
    meaning = [index for index, token in enumerate(parts) if token[0] not in ('blank', 'comment', 'newline')]
    for place, index in enumerate(meaning):
        text = parts[index][1]
        if text == 'lambda':
            _parameters(parts, meaning[place + 1:], ':', patterns)
        elif text == 'def' and place + 2 < len(meaning) and parts[meaning[place + 2]][1] == '(':
            _parameters(parts, meaning[place + 3:], ')', patterns)
    return patterns


def _parameters(parts, indexes, end, patterns):
    """Reads one list of parameters up to `end`."""
    depth, start, fresh = 0, None, True
    for index in indexes:
        kind, text = parts[index]
        if not depth and text == end:
            return
        if kind == 'operator' and text in OPENING:
            if not depth and fresh and text == '(':
                start = index
            depth += 1
        elif kind == 'operator' and text in CLOSING:
            depth -= 1
            if not depth and start is not None:
                name = '%s%d' % (TUPLE, len(patterns))
                patterns[name] = joined(parts[start:index + 1])
                _replaced(parts, start, index, name)
                start = None
        fresh = not depth and text == ','
