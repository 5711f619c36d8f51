"""Decides which Python a user's file is written in.

v1 ran Python 2.7, and most of its files do not declare it. The rule, first that holds:

1. A comment `# python: 2` or `# python: 3` among the first lines decides; so does `python2` or `python3` in a
   first line that begins with `#!`.
2. A file that Python 3 cannot parse is Python 2.
3. A file with syntax, or imports of modules, that only Python 3 has is Python 3.
4. A file with names, methods or modules that only Python 2 has is Python 2.
5. Any other file is unmarked: it means the same in both, or shows it when it runs. It runs as Python 2, except that
   a division of integers that leaves a remainder is an error, because the two languages would continue with different
   values.
"""

import ast
import re

TWO, THREE, UNMARKED = '2', '3', 'unmarked'

_COMMENT = re.compile(r'#.*?\bpython:\s*([23])\b', re.IGNORECASE)
_SHEBANG = re.compile(r'#!.*python([23])')
_NAMES_2 = frozenset('''xrange unicode basestring long raw_input unichr reduce execfile cmp file reload apply intern
    coerce'''.split())
_METHODS_2 = frozenset('iteritems itervalues iterkeys viewitems viewvalues viewkeys has_key'.split())
_ATTRIBUTES_2 = frozenset([('sys', 'maxint'), ('sys', 'setdefaultencoding'), ('string', 'letters'),
                           ('string', 'lowercase'), ('string', 'uppercase'), ('string', 'join'), ('os', 'getcwdu'),
                           ('itertools', 'izip'), ('itertools', 'imap'), ('itertools', 'ifilter')])
MODULES_2 = frozenset('''cPickle cStringIO StringIO ConfigParser Queue urllib2 urlparse __builtin__ httplib HTMLParser
    cookielib SocketServer BaseHTTPServer xmlrpclib copy_reg commands md5 sha sets UserDict thread exceptions
    htmlentitydefs'''.split())
_MODULES_3 = frozenset('''queue configparser builtins pathlib typing dataclasses enum asyncio concurrent http html
    statistics secrets contextvars'''.split())
_SYNTAX_3 = tuple(getattr(ast, name) for name in '''JoinedStr AnnAssign Nonlocal AsyncFunctionDef Await AsyncFor
    AsyncWith YieldFrom NamedExpr MatMult Match TryStar TypeAlias'''.split() if hasattr(ast, name))


class Verdict(object):
    """The language of a file, and the line and reason that decided."""

    def __init__(self, language, reason, line=0):
        self.language = language
        self.reason = reason
        self.line = line


def declared(text):
    """The language that the file declares, or None."""
    for number, line in enumerate(text.split('\n', 5)[:5], 1):
        found = _COMMENT.search(line) or (number == 1 and _SHEBANG.match(line))
        if found:
            return Verdict(found.group(1), 'it says so', number)
    return None


def judged(tree):
    """The verdict about a file that Python 3 can parse."""
    second = None
    bound = _bound(tree)
    for node, guarded in _nodes(tree):
        reason = _third_reason(node)
        if reason and not guarded:
            return Verdict(THREE, reason, node.lineno)
        if second is None and not guarded:
            reason = _second_reason(node, bound)
            if reason:
                second = Verdict(TWO, reason, node.lineno)
    return second or Verdict(UNMARKED, 'it shows neither Python 2 nor Python 3')


def _nodes(tree):
    """All nodes, and whether each is in a `try` that handles the other Python."""
    waiting = [(tree, False)]
    while waiting:
        node, guarded = waiting.pop()
        if hasattr(node, 'lineno'):
            yield node, guarded
        inner = guarded or (isinstance(node, ast.Try) and any(map(_expects_other_python, node.handlers)))
        waiting.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(node))))


def _expects_other_python(handler):
    if handler.type is None:
        return True
    names = [each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)]
    return any(name in ('ImportError', 'ModuleNotFoundError', 'NameError', 'AttributeError') for name in names)


def _bound(tree):
    """Names that the file itself defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split('.')[0])
    return found


def _modules(node):
    """Names of the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _third_reason(node):
    if isinstance(node, _SYNTAX_3):
        return type(node).__name__
    for module in _modules(node):
        if module.split('.')[0] in _MODULES_3 or module in ('urllib.request', 'urllib.parse', 'urllib.error'):
            return 'import of ' + module
    if isinstance(node, (ast.FunctionDef, ast.Lambda)) and _third_parameters(node):
        return 'parameters'
    if isinstance(node, ast.Raise) and node.cause is not None:
        return 'raise ... from'
    if isinstance(node, ast.ClassDef) and node.keywords:
        return 'class keywords'
    if isinstance(node, (ast.Assign, ast.For)) and _starred(node):
        return 'starred target'
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        given = {each.arg for each in node.keywords}
        if node.func.id == 'print' and given:
            return 'print(%s=...)' % sorted(map(str, given))[0]
        if node.func.id == 'open' and given & {'encoding', 'errors', 'newline'}:
            return 'open(%s=...)' % sorted(given & {'encoding', 'errors', 'newline'})[0]
        if node.func.id == 'super' and not node.args:
            return 'super()'
    return None


def _third_parameters(node):
    arguments = node.args
    everyone = arguments.args + arguments.kwonlyargs + getattr(arguments, 'posonlyargs', [])
    return bool(arguments.kwonlyargs or getattr(arguments, 'posonlyargs', None) or getattr(node, 'returns', None)
                or any(each.annotation for each in everyone))


def _starred(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(each, ast.Starred) for target in targets for each in ast.walk(target))


def _second_reason(node, bound):
    if isinstance(node, ast.Name) and node.id in _NAMES_2 and node.id not in bound:
        return node.id
    for module in _modules(node):
        if module.split('.')[0] in MODULES_2:
            return 'import of ' + module
    if isinstance(node, ast.Attribute):
        if node.attr in _METHODS_2:
            return '.' + node.attr
        if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in _ATTRIBUTES_2:
            return '%s.%s' % (node.value.id, node.attr)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == 'next' and not node.args:
            return '.next()'
    if isinstance(node, ast.Expr) and _prints(node.value):
        return 'the print statement'
    if isinstance(node, ast.Subscript) and _listed(node.value):
        return 'a subscript of %s' % _listed(node.value)
    if isinstance(node, ast.Name) and node.id == '__metaclass__':
        return node.id
    return None


def _prints(node):
    """Whether a statement prints in Python 2 and does something else in Python 3: `print (a), b`, `print >>file, a`."""
    if isinstance(node, ast.Tuple) and node.elts:
        first = node.elts[0]
        return _prints(first) or _is_print(getattr(first, 'func', None))
    if isinstance(node, ast.BinOp):
        while isinstance(node, ast.BinOp):
            node = node.left
        return _is_print(node) or _is_print(getattr(node, 'func', None))
    return _is_print(node)


def _is_print(node):
    return isinstance(node, ast.Name) and node.id == 'print'


def _listed(node):
    """The function or method whose result has positions in Python 2 only."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ('map', 'filter', 'zip'):
            return node.func.id
        if isinstance(node.func, ast.Attribute) and node.func.attr in ('keys', 'values', 'items') and not node.args:
            return '.' + node.func.attr
    return None
