"""Small helpers for layer functions."""

from paddle.core.log import logger

from .default_decorators import _decorated

__all__ = ['deprecated']


def deprecated(instead):
    """Decorator: says once per call that the function has a successor."""
    def decorate(function):
        def wrapper(*positional, **named):
            logger.warning('%s is deprecated, use %s', function.__name__, instead)
            return function(*positional, **named)
        return _decorated(function, wrapper)
    return decorate
