"""Python 2's division: integers divided by integers yield integers, rounded down."""

import operator
from decimal import ROUND_HALF_UP, Context, Decimal

_EXACT = Context(prec=1200, rounding=ROUND_HALF_UP)  # all digits of any float


class UndecidedDivision(ArithmeticError):
    """A division that Python 2 and Python 3 would continue with different numbers."""


def _whole(value):
    """Whether Python 2 divides this value as an integer: integers, booleans, and NumPy's arrays of them."""
    if isinstance(value, int):
        return True
    kind = getattr(getattr(value, 'dtype', None), 'kind', '')
    return kind != '' and kind in 'iub'


def divide(left, right):
    """`left / right` as Python 2 computes it."""
    if _whole(left) and _whole(right):
        return left // right
    try:
        return left / right
    except TypeError:
        return _old_division(left, right)


def _old_division(left, right):
    """Classes from elsewhere that only have `__div__`."""
    for value, name, other in ((left, '__div__', right), (right, '__rdiv__', left)):
        method = getattr(type(value), name, None)
        if method is not None:
            return method(value, other)
    return left / right


def divide_undecided(left, right):
    """As `divide`, for a file that may be Python 3: an error where the languages differ."""
    if not (_whole(left) and _whole(right)):
        return divide(left, right)
    quotient = left // right
    exact = quotient * right == left
    if not (exact if isinstance(exact, bool) else exact.all()):
        shown = '%s / %s' % ((left, right) if isinstance(exact, bool) else ('integers', 'integers'))
        raise UndecidedDivision(
            '%s is rounded down in Python 2 and a fraction in Python 3, and this file shows neither: write // or '
            'float(...), or put `# python: 2` or `# python: 3` on its first line' % shown)
    return quotient


def divide_whole(left, right):
    """`int(left / right)` of an undecided file: both languages agree unless the sign is negative."""
    if isinstance(left, int) and isinstance(right, int) and right and (left < 0) == (right < 0):
        return left // right
    return divide_undecided(left, right)


def divisor(rule):
    """A function that wraps the right side of `/=`, for the given rule of division."""

    class Divisor(object):
        __slots__ = ('value',)

        def __init__(self, value):
            self.value = value

        def __rtruediv__(self, left):
            if hasattr(left, 'dtype') and getattr(left, 'ndim', 0):
                whole = _whole(left) and _whole(self.value)
                if whole:
                    rule(left, self.value)
                return (operator.ifloordiv if whole else operator.itruediv)(left, self.value)
            return rule(left, self.value)

        def __array_ufunc__(self, function, method, left, *_, **__):
            return self.__rtruediv__(left)  # NumPy leaves the division to us

    def wrapped(value):
        return value if isinstance(value, float) else Divisor(value)

    return wrapped


def rounded(number, digits=0):
    """Python 2's `round`: halves are rounded away from zero, and the result is a float."""
    number = float(number)
    if number - number != 0 or digits > 330:  # infinite, no number, or a place behind the last digit of every float
        return number
    return float(Decimal(number).quantize(Decimal(1).scaleb(-max(digits, -330)), context=_EXACT))
