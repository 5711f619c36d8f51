"""Records with v1's field names: what is set, what it defaults to, and its JSON form.

The tables of fields come from the program that reads the JSON (`paddle._schema` is written next to this package),
so the two sides cannot disagree.
"""

from _json import encode_basestring_ascii as quote

from paddle._schema import SCHEMA
from paddle.core.errors import ConfigError
from paddle.python2.text import outward

_INTEGERS = ('int32', 'int64', 'uint32', 'uint64')
_SCALARS = _INTEGERS + ('double', 'float', 'bool', 'string')
_ZERO = {'double': 0.0, 'float': 0.0, 'bool': False, 'string': ''}


class Message(object):
    """One record. Reading an absent field returns its default; an absent sub-record, an empty one."""

    __slots__ = ('_kind', '_values')

    def __init__(self, kind, **values):
        object.__setattr__(self, '_kind', kind)
        object.__setattr__(self, '_values', {})
        for field, value in values.items():
            setattr(self, field, value)

    def __getattr__(self, field):
        values = self._values
        if field in values:
            return values[field]
        label, kind, default = _field(self._kind, field)
        if label == 'repeated':
            values[field] = []
        elif kind in _SCALARS:
            return _ZERO.get(kind, 0) if default is None else default
        else:
            values[field] = Message(kind)
        return values[field]

    def __setattr__(self, field, value):
        label, kind, _ = _field(self._kind, field)
        where = '%s.%s' % (self._kind, field)
        if label == 'repeated':
            value = [_converted(kind, each, where) for each in value]
        else:
            value = _converted(kind, value, where)
        self._values[field] = value

    def HasField(self, field):
        """Whether the field has been set (v1's spelling)."""
        value = self._values.get(field)
        return bool(value._values) if isinstance(value, Message) else value is not None

    def ClearField(self, field):
        """Clears the field (v1's spelling)."""
        _field(self._kind, field)
        self._values.pop(field, None)

    def add(self, field, **values):
        """Appends a new record to the list `field` and returns it."""
        record = Message(_field(self._kind, field)[1], **values)
        getattr(self, field).append(record)
        return record

    def copy(self):
        """A new record with the same contents."""
        twin = Message(self._kind)
        for field, value in self._values.items():
            if isinstance(value, list):
                value = [each.copy() if isinstance(each, Message) else each for each in value]
            elif isinstance(value, Message):
                value = value.copy()
            twin._values[field] = value
        return twin

    def CopyFrom(self, other):
        """Copies the contents of `other` (v1's spelling)."""
        object.__setattr__(self, '_values', other.copy()._values)

    def __str__(self):
        """The text form, as `canoe config dump` prints it."""
        return ''.join(_lines(self, ''))

    def to_json(self):
        """The JSON text, fields in the order of the table, absent ones left out."""
        parts = []
        for field, (label, kind, _) in SCHEMA[self._kind].items():
            if field not in self._values:
                continue
            value = self._values[field]
            where = '%s.%s' % (self._kind, field)
            if label == 'repeated':
                if value:
                    texts = [_json(kind, _converted(kind, each, where), field) for each in value]
                    parts.append('"%s":[%s]' % (field, ','.join(texts)))
            elif self.HasField(field):
                parts.append('"%s":%s' % (field, _json(kind, value, field)))
        return '{%s}' % ','.join(parts)


def _field(kind, field):
    try:
        return SCHEMA[kind][field]
    except KeyError:
        raise AttributeError('%s has no field %r' % (kind, field)) from None


def _lines(message, indent):
    """Lines of the text form of a record: fields in the order of the table, absent ones left out."""
    for field, (label, kind, _) in SCHEMA[message._kind].items():
        if field not in message._values or not (label == 'repeated' or message.HasField(field)):
            continue
        value = message._values[field]
        for each in value if label == 'repeated' else [value]:
            if isinstance(each, Message):
                yield '%s%s {\n' % (indent, field)
                for line in _lines(each, indent + '  '):
                    yield line
                yield '%s}\n' % indent
            else:
                yield '%s%s: %s\n' % (indent, field, _text(kind, each, field))


_ESCAPES = {10: '\\n', 13: '\\r', 9: '\\t', 34: '\\"', 39: "\\'", 92: '\\\\'}


def _text(kind, value, field):
    """A value in the text form; floats have Python 2's twelve digits."""
    if kind == 'string':
        value = value if field in _BINARY else outward(value)
        return '"%s"' % ''.join(
            _ESCAPES.get(each) or (chr(each) if 32 <= each < 127 else '\\%03o' % each) for each in value.encode('utf-8'))
    if kind == 'bool':
        return 'true' if value else 'false'
    if isinstance(value, float):
        digits = '%.12g' % value
        return digits if '.' in digits or 'e' in digits else digits + '.0'
    return str(value)


# Fields that are bytes whatever they look like.
_BINARY = ('load_data_args',)


def _json(kind, value, field):
    if isinstance(value, Message):
        return value.to_json()
    if kind == 'string':
        return quote(value if field in _BINARY else outward(value))
    if kind == 'bool':
        return 'true' if value else 'false'
    return repr(value)


def _converted(kind, value, where):
    """`value` converted to the field's type, or a ConfigError that names the field."""
    if kind == 'string':
        if isinstance(value, bytes):
            return value.decode('utf-8', 'replace')
        if isinstance(value, str):
            return value
        raise ConfigError('%s must be text, not %r' % (where, value))
    if kind in _INTEGERS:
        return _in_range(kind, whole(value, where), where)
    if kind in ('double', 'float'):
        return _real(value, where)
    if kind == 'bool':
        return bool(value)
    if not isinstance(value, Message):
        raise ConfigError('%s must be a %s, not %r' % (where, kind, value))
    return value


def _in_range(kind, value, where):
    """An int that its field can hold."""
    signed, bits = kind[0] != 'u', int(kind[-2:])
    least, most = (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if least <= value <= most:
        return value
    wanted = '%d or less' % most if value > most else '0 or more' if not signed else '%d or more' % least
    raise ConfigError('%s is %d; it must be %s' % (where, value, wanted))


def whole(value, where):
    """`value` as an int. A float that is whole passes: in Python 2 `/` between whole numbers gave an int."""
    if isinstance(value, int):
        return int(value)
    try:
        number = int(value) if not isinstance(value, str) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise ConfigError('%s must be a whole number, not %r' % (where, value))
    if number != value:
        raise ConfigError('%s must be a whole number, not %r; in Python 3 `/` gives fractions, `//` whole numbers'
                          % (where, value))
    return number


def _real(value, where):
    """`value` as a float. An int stays one, as v1 kept it: the text form shows it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError):
        number = None
    if number is None or number != number or number in (float('inf'), float('-inf')):
        raise ConfigError('%s must be a finite number, not %r' % (where, value))
    return number
