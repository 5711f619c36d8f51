"""The configuration package as the reference sees it: functions and classes with signatures, defaults and docstrings.

The package is parsed, not imported: importing it needs a table that the program writes. A docstring has a text and, after
it, lines `argument: meaning` (several names before the colon, `*` at the end of one, and indented lines that continue).
"""
import ast
import re

ARGUMENT = re.compile(r'([\w*]+(?:, [\w*]+)*): (.*)')


class Entry:
    """One function or class that configuration files use."""

    def __init__(self, node, features):
        self.name = node.name
        self.is_class = isinstance(node, ast.ClassDef)
        self.text, self.meanings = parsed(ast.get_docstring(node) or '')
        function = node
        if self.is_class:
            found = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == '__init__']
            function = found[0] if found else None
        self.arguments = arguments_of(function) if function else []
        self.decorators = {}
        self.supported = None
        for each in getattr(node, 'decorator_list', []):
            self._decorated(each, features)
        self.layer_types = sorted({each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
                                   and isinstance(each.value, ast.Name) and each.value.id == 'LayerType'})
        self.calls = {each.func.id for each in ast.walk(node)
                      if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}

    def _decorated(self, call, features):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return
        if call.func.id == 'defaults':
            self.decorators.update({each.arg: each.value for each in call.keywords})
        elif call.func.id == 'supports':
            self.supported = [features[each.id] for each in call.args]

    def default(self, argument, written):
        """The default as a reader should see it: what the decorator fills in, else what the signature says."""
        value = self.decorators.get(argument)
        if value is not None and argument.endswith('act'):
            return ast.unparse(value)
        if argument == 'bias_attr' and 'bias' in self.decorators:
            return 'with a bias' if ast.literal_eval(self.decorators['bias']) else 'no bias'
        return written

    def strangers(self):
        """Names that the docstring explains and the signature lacks."""
        known = [name for name, _ in self.arguments]
        for name in (each for names, _ in self.meanings for each in names):
            if name not in known and not (name.endswith('*') and any(each.startswith(name[:-1]) for each in known)):
                yield name

    def meaning(self, argument):
        """What the docstring says about an argument, or None."""
        for names, text in self.meanings:
            if any(argument == name or name.endswith('*') and argument.startswith(name[:-1]) for name in names):
                return text
        return None


def parsed(docstring):
    """The text of a docstring and the (names, meaning) lines of its later paragraphs that begin with one."""
    first, *others = docstring.split('\n\n')
    text, meanings = [first], []
    for paragraph in others:
        if not ARGUMENT.fullmatch(paragraph.split('\n')[0]):
            text.append(paragraph)
            continue
        for line in paragraph.split('\n'):
            found = ARGUMENT.fullmatch(line)
            if found and not line.startswith(' '):
                meanings.append((found.group(1).split(', '), found.group(2)))
            else:
                meanings[-1] = (meanings[-1][0], meanings[-1][1] + ' ' + line.strip())
    return '\n\n'.join(text).strip(), meanings


def arguments_of(function):
    """(name, default as text or None) of each argument but self; *args and **named without their stars."""
    given = function.args
    plain = given.args
    defaults = [None] * (len(plain) - len(given.defaults)) + [ast.unparse(each) for each in given.defaults]
    pairs = [(each.arg, default) for each, default in zip(plain, defaults) if each.arg != 'self']
    pairs += [(each.arg, '') for each in (given.vararg, given.kwarg) if each]
    return pairs


class Module:
    """One file of the package."""

    def __init__(self, path, features=None):
        self.tree = ast.parse(path.read_text(encoding='utf-8'))
        self.entries, self.aliases, self.public = {}, {}, None
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.entries[node.name] = Entry(node, features or {})
            elif isinstance(node, ast.Assign):
                self._assigned(node)
        for entry in list(self.entries.values()):
            self._inherit(entry)

    def _assigned(self, node):
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        if names == ['__all__'] and isinstance(node.value, ast.List):
            self.public = ast.literal_eval(node.value)
        elif isinstance(node.value, ast.Name):
            self.aliases.update({name: node.value.id for name in names})

    def _inherit(self, entry):
        """A class without a constructor has its parent's arguments."""
        if not entry.is_class or entry.arguments:
            return
        node = next(each for each in self.tree.body if getattr(each, 'name', None) == entry.name)
        has_own = any(isinstance(each, ast.FunctionDef) and each.name == '__init__' for each in node.body)
        for base in node.bases:
            if not has_own and isinstance(base, ast.Name) and base.id in self.entries:
                entry.arguments = self.entries[base.id].arguments

    def constants(self, class_name=None):
        """Names and values of the text constants of the module, or of one of its classes."""
        body = self.tree.body
        if class_name:
            body = next(each.body for each in body if getattr(each, 'name', None) == class_name)
        return {node.targets[0].id: node.value.value for node in body if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)}

    def calls(self, function):
        """(targets, literal arguments) of every module-level `name = function(literals)`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) \
                    and getattr(node.value.func, 'id', None) == function:
                yield [each.id for each in node.targets], [ast.literal_eval(each) for each in node.value.args]
