"""Messages of the package to the user: lines on stderr, without the cost of importing Python's logging."""

import sys

from paddle.core.errors import ConfigError


class Logger(object):
    """The part of `logging.Logger` that configuration files use. `fatal` ends the evaluation."""

    def _say(self, level, message, *details):
        sys.stderr.write('%s: %s\n' % (level, message % details if details else message))

    def debug(self, message, *details, **_):
        """Prints nothing."""

    info = debug

    def warning(self, message, *details, **_):
        """Prints a warning."""
        self._say('warning', message, *details)

    warn = warning

    def error(self, message, *details, **_):
        """Prints an error that does not end the evaluation."""
        self._say('error', message, *details)

    def log(self, level, message, *details, **_):
        """`level` as in Python's logging: 30 is a warning."""
        if level >= 30:
            self.warning(message, *details)

    def fatal(self, message, *details, **_):
        """Ends the evaluation."""
        raise ConfigError(message % details if details else message)

    critical = fatal

    def setLevel(self, level):
        """Accepted; the lines that this package writes are few."""


logger = Logger()
