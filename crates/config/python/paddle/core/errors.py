"""The exception for mistakes in the user's description."""


class ConfigError(Exception):
    """A mistake in a configuration file; the text names the layer, field or argument and what to do."""


def check(condition, message, *details):
    """Raises ConfigError with `message % details` unless `condition` holds."""
    if not condition:
        raise ConfigError(message % details if details else message)
