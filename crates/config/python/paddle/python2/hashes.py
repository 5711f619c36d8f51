"""Python 2.7's `hash` (64 bits, not randomised), by which providers divide samples and configurations choose names.

Python 3 draws a secret for the hashes of text, so they differ from process to process; dictionaries and sets use those.
"""

import builtins
import math

_MASK = (1 << 64) - 1
_DIGIT = 30  # bits of a digit of Python 2's long integers


def hash(value):
    """The hash of text, numbers, and tuples of them; everything else has that of Python 3."""
    kind = type(value)
    if isinstance(value, (str, bytes)) and kind.__hash__ in (str.__hash__, bytes.__hash__):
        return _of_codes(value if isinstance(value, bytes) else map(ord, value), len(value))
    if isinstance(value, int) and kind.__hash__ in (int.__hash__, bool.__hash__):
        return _of_integer(int(value))
    if isinstance(value, float) and kind.__hash__ is float.__hash__:
        return _of_float(value)
    if isinstance(value, tuple) and kind.__hash__ is tuple.__hash__:
        return _of_tuple(value)
    return builtins.hash(value)


def _signed(number):
    """64 bits as a signed number; -1 means an error in C, so it is never a hash."""
    number &= _MASK
    number -= (number >> 63) << 64
    return -2 if number == -1 else number


def _of_codes(codes, length):
    found = None
    for code in codes:
        found = (1000003 * (code << 7 if found is None else found) ^ code) & _MASK
    return _signed((found or 0) ^ length)


def _of_integer(number):
    if -1 << 63 <= number < 1 << 63:
        return _signed(number)
    digits, rest = [], abs(number)
    while rest:
        digits.append(rest & (1 << _DIGIT) - 1)
        rest >>= _DIGIT
    found = 0
    for digit in reversed(digits):
        found = (found << _DIGIT & _MASK) | found >> 64 - _DIGIT
        found += digit
        if found > _MASK:
            found = (found & _MASK) + 1
    return _signed(found if number > 0 else -found)


def _of_float(number):
    if math.isinf(number):
        return 314159 if number > 0 else -271828
    if math.isnan(number):
        return 0
    if number == int(number):
        return _of_integer(int(number))
    fraction, exponent = math.frexp(number)
    high = int(fraction * 2.0 ** 31)
    return _signed(high + int((fraction * 2.0 ** 31 - high) * 2.0 ** 31) + (exponent << 15))


def _of_tuple(values):
    found, factor, left = 0x345678, 1000003, len(values)
    for value in values:
        left -= 1
        found = (found ^ hash(value)) * factor & _MASK
        factor += 82520 + 2 * left
    return _signed(found + 97531)
