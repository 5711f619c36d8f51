"""Where in the user's files something was described."""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def here():
    """File and line of the innermost frame outside this package; None if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((PACKAGE, '<')):
            return file, frame.f_lineno
        frame = frame.f_back
    return None
