"""What each layer type adds to the common part: sizes, parameters, fields.

One short function per type, grouped by family; importing this package registers them all.
"""

from paddle.core.kinds import algebra, costs, dense, image, mixed, recurrent, sequence  # noqa: F401
