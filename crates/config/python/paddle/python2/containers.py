"""Python 2's lists where Python 3 returns views and iterators, and sorting by comparison."""

import builtins
import sys
from collections.abc import ItemsView, KeysView, ValuesView
from functools import cmp_to_key
from itertools import zip_longest

_VIEWS = (KeysView, ValuesView, ItemsView)


def _listing(name):
    def call(mapping, *arguments, **options):
        found = getattr(mapping, name)(*arguments, **options)
        return list(found) if isinstance(found, _VIEWS) else found
    return call


def _lazy(old, new):
    """`iteritems` and the like, which classes of the user may have themselves."""

    def call(mapping, *arguments, **options):
        method = getattr(mapping, old, None)
        if method is not None:
            return method(*arguments, **options)
        found = getattr(mapping, new)(*arguments, **options)
        return iter(found) if old.startswith('iter') else found
    return call


def has_key(mapping, *arguments, **options):
    """`mapping.has_key(key)`."""
    method = getattr(mapping, 'has_key', None)
    return arguments[0] in mapping if method is None else method(*arguments, **options)


def compare(left, right):
    """Python 2's `cmp`."""
    return (left > right) - (left < right)


def sort(values, *arguments, **options):
    """`values.sort(...)`: the first argument of a list's method compares."""
    if isinstance(values, list):
        return values.sort(**_by_key(arguments, options))
    return values.sort(*arguments, **options)


def sort_copy(values, *arguments, **options):
    """`sorted`."""
    return builtins.sorted(values, **_by_key(arguments, options))


def _by_key(arguments, options):
    given = dict(zip(('cmp', 'key', 'reverse'), arguments), **options)
    comparison, key = given.pop('cmp', None), given.pop('key', None)
    if comparison is not None:
        by = cmp_to_key(comparison)
        given['key'] = by if key is None else lambda value: by(key(value))
    elif key is not None:
        given['key'] = key
    return given


def compared(kind):
    """Adds the comparisons that Python 3 needs to a class with `__cmp__`."""
    for name, holds in (('__lt__', lambda sign: sign < 0), ('__le__', lambda sign: sign <= 0),
                        ('__gt__', lambda sign: sign > 0), ('__ge__', lambda sign: sign >= 0),
                        ('__eq__', lambda sign: sign == 0), ('__ne__', lambda sign: sign != 0)):
        if name not in vars(kind):
            setattr(kind, name, lambda self, other, holds=holds: holds(self.__cmp__(other)))
    if vars(kind).get('__hash__') is None:
        kind.__hash__ = object.__hash__
    return kind


def sliced(kind):
    """Lets slices of a class with `__getslice__` and the like reach them; other subscripts go where they went."""
    for name, old in (('__getitem__', '__getslice__'), ('__setitem__', '__setslice__'), ('__delitem__', '__delslice__')):
        if old in vars(kind):
            setattr(kind, name, _slicing(old, getattr(kind, name, None), name))
    return kind


def _slicing(old, item, name):
    def end(thing, position, default):
        position = default if position is None else position
        return position if position >= 0 else position + len(thing)

    def call(self, key, *value):
        if isinstance(key, slice) and key.step is None:
            return getattr(self, old)(end(self, key.start, 0), end(self, key.stop, sys.maxsize), *value)
        if item is None:
            raise TypeError('%s has no %s' % (type(self).__name__, name))
        return item(self, key, *value)
    return call


def until_stopped(generator):
    """A generator expression that ends, as in Python 2, where something in it raises StopIteration."""
    try:
        for each in generator:
            yield each
    except RuntimeError as error:
        stopped = error.__cause__
        if not isinstance(stopped, StopIteration) or stopped.__traceback__.tb_frame.f_code is not generator.gi_code:
            raise


def functions(lines):
    """`map`, `filter`, `zip`, `reduce` and `range` of Python 2; `lines` makes files iterable."""

    def map_list(function, *iterables):
        iterables = [lines(each) for each in iterables]
        if len(iterables) == 1:
            # No builtins.map: it would take StopIteration from the function for the end of the list.
            return list(iterables[0]) if function is None else [function(each) for each in iterables[0]]
        rows = zip_longest(*iterables)
        return list(rows) if function is None else [function(*row) for row in rows]

    def filter_list(function, iterable):
        found = [each for each in lines(iterable) if (each if function is None else function(each))]
        if isinstance(iterable, str):
            return ''.join(found)
        return tuple(found) if isinstance(iterable, tuple) else found

    def zip_list(*iterables):
        return list(builtins.zip(*[lines(each) for each in iterables]))

    def range_list(*arguments):
        return list(builtins.range(*arguments))

    return {'map': map_list, 'filter': filter_list, 'zip': zip_list, 'range': range_list}


def methods():
    """Names of methods with what to call instead."""
    found = {name: _listing(name) for name in ('keys', 'values', 'items')}
    for prefix in ('iter', 'view'):
        for name in ('keys', 'values', 'items'):
            found[prefix + name] = _lazy(prefix + name, name)
    found.update(has_key=has_key, sort=sort)
    return found
