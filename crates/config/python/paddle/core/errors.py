"""The one exception that means: the user's description is wrong."""


class ConfigError(Exception):
    """A mistake in a configuration file; the text names the layer, field or argument and the way out."""


def check(condition, message, *details):
    """Raises ConfigError with `message % details` unless `condition` holds."""
    if not condition:
        raise ConfigError(message % details if details else message)
