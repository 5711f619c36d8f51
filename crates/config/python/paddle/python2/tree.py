"""Rewrites the syntax tree of a Python 2 file so that it keeps its meaning under Python 3.

Only what the two languages read alike and mean differently is here: division, methods whose results changed, reading
of files, classes with Python 2's special methods. Every change calls a function whose name begins with `_p2_`
(`paddle.python2.names`), which looks at the values, because the text does not tell a dictionary from another object.
"""

import ast

TUPLE = '_p2_tuple_'  # prefix of the names that replace tuple parameters
CAUGHT = '_p2_caught_'  # prefix of the names that replace what an `except` assigns to, if that is not a name

# Methods that are replaced by calls of _p2_NAME(object, ...).
METHODS = frozenset('''split rsplit strip lstrip rstrip splitlines lower upper title capitalize swapcase isalpha isalnum
    isdigit isspace islower isupper istitle sub subn decode encode read readline readlines xreadlines write writelines
    getvalue communicate next keys values items iterkeys itervalues iteritems viewkeys viewvalues viewitems has_key
    sort fromstring tostring frombuffer load translate popen'''.split())
# Attributes that have another name now; objects of users may have the old one.
ATTRIBUTES = {'func_name': '__name__', 'func_doc': '__doc__', 'func_code': '__code__', 'func_defaults': '__defaults__',
              'func_globals': '__globals__', 'func_dict': '__dict__', 'func_closure': '__closure__',
              'im_func': '__func__', 'im_self': '__self__', 'isAlive': 'is_alive'}
# Functions that iterate over their first argument, which may be a file.
_WALKERS = frozenset('list tuple set frozenset enumerate sorted iter sum dict'.split())
# Expressions that are never a file.
_NO_FILES = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.Constant, ast.BinOp)
# Expressions and definitions whose `yield` is their own.
_OWN_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_CAUGHT_NOW = ('exc_type', 'exc_value', 'exc_traceback')  # attributes of `sys`
_SPECIAL = (('next', '__next__'), ('__nonzero__', '__bool__'), ('__div__', '__truediv__'),
            ('__rdiv__', '__rtruediv__'), ('__idiv__', '__itruediv__'))


def rewritten(tree, patterns=None):
    """The tree with Python 2's meaning."""
    tree = _Rewriter(patterns or {}, _imports_division(tree)).visit(tree)
    return ast.fix_missing_locations(tree)


def _imports_division(tree):
    return any(isinstance(node, ast.ImportFrom) and node.module == '__future__'
               and any(alias.name == 'division' for alias in node.names) for node in ast.walk(tree))


def _call(name, arguments, node, keywords=()):
    made = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=list(keywords))
    return ast.fix_missing_locations(ast.copy_location(made, node))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, patterns, divides):
        self.patterns = patterns
        self.divides = divides

    # Numbers.

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and not self.divides and not _is_float(node.left) and not _is_float(node.right):
            return _call('_p2_divide', [node.left, node.right], node)
        return node

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and not self.divides and not _is_float(node.value):
            node.value = _call('_p2_divisor', [node.value], node.value)
        return node

    def visit_Constant(self, node):
        if isinstance(node.value, bytes):
            return ast.copy_location(ast.Constant(value=node.value.decode('latin-1')), node)
        return node

    # Calls.

    def visit_Call(self, node):
        whole = isinstance(node.func, ast.Name) and node.func.id == 'int' and len(node.args) == 1
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in METHODS and _is_object(function.value):
            return _call('_p2_' + function.attr, [function.value] + node.args, node, node.keywords)
        if isinstance(function, ast.Name) and function.id in _WALKERS and len(node.args) in (1, 2):
            if not (function.id == 'iter' and len(node.args) == 2):
                node.args[0] = self.walked(node.args[0])
        if whole and isinstance(node.args[0], ast.Call) and getattr(node.args[0].func, 'id', '') == '_p2_divide':
            node.args[0].func.id = '_p2_divide_whole'
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if node.attr == 'message' and isinstance(node.ctx, ast.Load):
            return _call('_p2_message', [node.value], node)
        if node.attr in ATTRIBUTES and isinstance(node.ctx, ast.Load) and _is_object(node.value):
            names = [ast.Constant(value=node.attr), ast.Constant(value=ATTRIBUTES[node.attr])]
            return _call('_p2_attribute', [node.value] + names, node)
        if node.attr in _CAUGHT_NOW and getattr(node.value, 'id', '') == 'sys':
            shown = ast.parse('sys.exc_info()[%d]' % _CAUGHT_NOW.index(node.attr), mode='eval').body
            return _at(shown, node)
        if node.attr in ('version_info', 'version', 'hexversion') and getattr(node.value, 'id', '') == 'sys':
            return _call('_p2_version', [node.value, ast.Constant(value=node.attr)], node)
        return node

    def visit_ImportFrom(self, node):
        if [alias.name for alias in node.names] != ['*']:
            return node
        shaped = ast.parse('_p2_imported(globals())').body[0]
        return [node, ast.fix_missing_locations(_at(shaped, node))]

    # Loops.

    def walked(self, node):
        """An iterable as a Python 2 file would have to see it."""
        if isinstance(node, _NO_FILES) or isinstance(node, ast.Starred):
            return node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (
                'range', 'xrange', 'enumerate', 'zip', 'map', 'filter', 'sorted', '_p2_lines'):
            return node
        return _call('_p2_lines', [node], node)

    def visit_For(self, node):
        self.generic_visit(node)
        node.iter = self.walked(node.iter)
        return node

    def visit_comprehension(self, node):
        self.generic_visit(node)
        node.iter = self.walked(node.iter)
        return node

    def visit_ExceptHandler(self, node):
        self.generic_visit(node)
        for each in ast.walk(node) if node.name else ():
            if isinstance(each, ast.Subscript) and getattr(each.value, 'id', '') == node.name:
                each.value = _call('_p2_arguments', [each.value], each.value)
        if (node.name or '').startswith(CAUGHT):
            target = self.pattern(node.name, ast.Store())
            taken = '%s.args' if isinstance(target, (ast.Tuple, ast.List)) else '%s'
            assign = _at(ast.parse('_ = ' + taken % node.name).body[0], node)
            assign.targets = [target]
            node.body.insert(0, ast.fix_missing_locations(assign))
        return node

    def visit_GeneratorExp(self, node):
        called = any(isinstance(each, ast.Call) for part in [node.elt] + node.generators[1:] + node.generators[0].ifs
                     for each in ast.walk(part))
        self.generic_visit(node)
        return _call('_p2_until_stopped', [node], node) if called else node

    # Definitions.

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        taken = [ast.copy_location(ast.Assign(targets=[self.pattern(each.arg, ast.Store())],
                                              value=ast.Name(id=each.arg, ctx=ast.Load())), node)
                 for each in node.args.args if each.arg.startswith(TUPLE)]
        if taken:
            skip = 1 if ast.get_docstring(node, clean=False) is not None else 0
            for each in taken:
                ast.fix_missing_locations(each)
            node.body[skip:skip] = taken
        if _yields(node) and not any(map(_is_context_manager, node.decorator_list)):
            rest = 1 if ast.get_docstring(node, clean=False) is not None else 0
            handler = ast.ExceptHandler(type=ast.Name(id='_p2_stopped', ctx=ast.Load()), name=None, body=[ast.Return()])
            ends = ast.Try(body=node.body[rest:], handlers=[handler], orelse=[], finalbody=[])
            node.body[rest:] = [ast.fix_missing_locations(ast.copy_location(ends, node))]
        return node

    def visit_Lambda(self, node):
        self.generic_visit(node)
        for each in node.args.args:
            if each.arg.startswith(TUPLE):
                names = [found.id for found in ast.walk(self.pattern(each.arg, ast.Store()))
                         if isinstance(found, ast.Name)]
                inner = ast.parse('(lambda %s: 0)(*[(%s,) for %s in [%s]][0])' % (
                    ', '.join(names), ', '.join(names), self.patterns[each.arg], each.arg), mode='eval').body
                inner.func.body = node.body
                node.body = ast.fix_missing_locations(ast.copy_location(inner, node))
        return node

    def pattern(self, name, context):
        """The tuple that a parameter replaces."""
        tree = ast.parse(self.patterns[name], mode='eval').body
        for each in ast.walk(tree):
            if hasattr(each, 'ctx'):
                each.ctx = context
        return tree

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        node.body = [_ClassLists(node).visit(each) for each in node.body]
        for each in list(node.body):
            if isinstance(each, ast.Assign) and [getattr(to, 'id', '') for to in each.targets] == ['__metaclass__']:
                node.body.remove(each)
                node.keywords.append(ast.keyword(arg='metaclass', value=each.value))
        defined = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        for old, new in _SPECIAL:
            if old in defined and new not in defined:
                node.body.append(_assignment(new, old, node))
        if '__eq__' in defined and '__hash__' not in defined:
            node.body.append(_assignment('__hash__', 'object.__hash__', node))
        for wanted, decorator in ((('__cmp__',), '_p2_compared'),
                                  (('__getslice__', '__setslice__', '__delslice__'), '_p2_sliced')):
            if defined.intersection(wanted):
                node.decorator_list.append(ast.copy_location(ast.Name(id=decorator, ctx=ast.Load()), node))
        if not node.body:
            node.body.append(ast.copy_location(ast.Pass(), node))
        return node


class _ClassLists(ast.NodeTransformer):
    """List comprehensions in a class, which see the names of its body: in Python 3 they get them as arguments."""

    def __init__(self, node):
        self.bound = {each.id for part in node.body for each in ast.walk(part)
                      if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        self.bound.update(each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.ClassDef)))

    def visit_ListComp(self, node):
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
        read -= {each.id for each in names if isinstance(each.ctx, ast.Store)}
        needed = sorted(read & self.bound)
        first = node.generators[0].iter
        node.generators[0].iter = ast.copy_location(ast.Name(id='_p2_first', ctx=ast.Load()), first)
        parameters, arguments = ', '.join(['_p2_first'] + needed), ', '.join(['0'] + needed)
        made = _at(ast.parse('(lambda %s: 0)(%s)' % (parameters, arguments), mode='eval').body, node)
        made.func.body, made.args[0] = node, first
        return made

    def visit_FunctionDef(self, node):
        return node

    visit_Lambda = visit_GeneratorExp = visit_ClassDef = visit_SetComp = visit_DictComp = visit_FunctionDef


def _assignment(name, value, node):
    return _at(ast.parse('%s = %s' % (name, value)).body[0], node)


def _at(made, node):
    """New code with the line and column of the old code."""
    for each in ast.walk(made):
        if hasattr(each, 'lineno'):
            ast.copy_location(each, node)
    return made


def _yields(function):
    """Whether a function is a generator."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, _OWN_SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _is_context_manager(decorator):
    """Whether it is `contextlib.contextmanager`, which throws exceptions into a generator to see them come back."""
    return (getattr(decorator, 'id', None) or getattr(decorator, 'attr', '')) == 'contextmanager'


def _is_float(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _is_object(node):
    """Whether a method is called on a value; `super` looks for its frame, so its result is left unchanged."""
    return not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'super')
