"""Splits Python 2 text into tokens and joins them again without losing a character.

Python's own `tokenize` refuses what only Python 2 has (`0777`, `10L`, backquotes) from 3.12 on, so this is a small
tokenizer for them. A token is a list `[kind, text]`; writers change the text in place, and `joined` returns the
new source with the same line numbers.
"""

import re

_STRING = r'''(?:[uU][rR]?|[bB][rR]?|[rR])?(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'
    |"(?:\\(?:\r\n|.)|[^\\"\r\n])*"|'(?:\\(?:\r\n|.)|[^\\'\r\n])*')'''
_NUMBER = r'''0[xX][0-9a-fA-F]+[lL]?|0[oO][0-7]+[lL]?|0[bB][01]+[lL]?
    |(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[jJlL]?'''
_TOKEN = re.compile(r'''(?P<blank>[ \t\f]+|\\\r?\n)|(?P<comment>\#[^\r\n]*)|(?P<newline>\r?\n|\r)
    |(?P<string>%s)|(?P<number>%s)|(?P<name>[^\W0-9]\w*)
    |(?P<operator>\*\*=?|//=?|>>=?|<<=?|<>|[!=<>+\-*/%%&|^]=?|.)''' % (_STRING, _NUMBER), re.VERBOSE | re.DOTALL)

OPENING, CLOSING = ('(', '[', '{'), (')', ']', '}')
_BLOCKS = frozenset('if elif else while for try except finally with def class'.split())


def tokens(source):
    """All tokens of a source text."""
    return [[found.lastgroup, found.group()] for found in _TOKEN.finditer(source)]


def joined(parts):
    """The source text of tokens."""
    return ''.join(text for _, text in parts)


def silent(token):
    """Whether a token has no meaning of its own."""
    return token[0] in ('blank', 'comment')


def depths(parts):
    """For each token, the number of brackets around it; an opening bracket and its closing one count as outside."""
    found, depth = [], 0
    for kind, text in parts:
        if kind == 'operator' and text in CLOSING:
            depth = max(0, depth - 1)
        found.append(depth)
        if kind == 'operator' and text in OPENING:
            depth += 1
    return found


def statements(parts):
    """The simple statements and the heads of compound ones, each as a list of indexes of its tokens."""
    current, lambdas = [], 0
    for index, (token, depth) in enumerate(zip(parts, depths(parts))):
        kind, text = token
        if kind in ('blank', 'comment') or (kind == 'newline' and depth):
            continue
        if kind == 'newline' or (text == ';' and not depth):
            if current:
                yield current
            current, lambdas = [], 0
            continue
        current.append(index)
        if depth or kind == 'string':
            continue
        if text == 'lambda':
            lambdas += 1
        elif text == ':' and lambdas:
            lambdas -= 1
        elif text == ':' and parts[current[0]][1] in _BLOCKS:
            yield current
            current = []
    if current:
        yield current


def split_at(parts, indexes, separators):
    """Splits a statement at tokens outside brackets whose text is in `separators`: pieces and separators' indexes."""
    pieces, cuts, depth = [[]], [], 0
    for index in indexes:
        kind, text = parts[index]
        if kind == 'operator' and text in CLOSING:
            depth -= 1
        if not depth and kind in ('operator', 'name') and text in separators:
            cuts.append(index)
            pieces.append([])
        else:
            pieces[-1].append(index)
        if kind == 'operator' and text in OPENING:
            depth += 1
    return pieces, cuts
