"""What Python 2 files take for granted and Python 3 can still give them.

`install` puts `xrange`, `unicode`, `reduce` and their kin among the builtins and gives dictionaries `iteritems`,
`has_key` and their kin. Modules that were renamed (`cPickle`, `StringIO`, ...) are files beside this package.
"""

import builtins
import gc
from _functools import reduce


def execfile(path, names=None, local_names=None):
    """Runs a file in the given name spaces."""
    import sys
    frame = sys._getframe(1)
    with open(path) as source:
        code = compile(source.read(), path, 'exec')
    exec(code, frame.f_globals if names is None else names, names if local_names is None else local_names)


def _compare(left, right):
    return (left > right) - (left < right)


def install():
    """Makes the names known to every module that is imported from now on."""
    for name, value in (('xrange', range), ('unicode', str), ('basestring', str), ('long', int), ('reduce', reduce),
                        ('raw_input', input), ('unichr', chr), ('cmp', _compare), ('execfile', execfile)):
        if not hasattr(builtins, name):
            setattr(builtins, name, value)
    _extend_dict()


def _extend_dict():
    """A mapping proxy is all that Python shows of a builtin type; the collector knows the dictionary behind it."""
    behind = gc.get_referents(dict.__dict__)
    if len(behind) != 1 or not isinstance(behind[0], dict):
        return
    methods = behind[0]
    for name, method in (('iteritems', dict.items), ('itervalues', dict.values), ('iterkeys', dict.keys),
                         ('viewitems', dict.items), ('viewvalues', dict.values), ('viewkeys', dict.keys),
                         ('has_key', dict.__contains__)):
        methods.setdefault(name, method)
