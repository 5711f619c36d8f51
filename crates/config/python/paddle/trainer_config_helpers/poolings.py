"""Ways to make one vector (or pixel) of many."""

__all__ = ['BasePoolingType', 'MaxPooling', 'AvgPooling', 'CudnnMaxPooling', 'CudnnAvgPooling', 'SumPooling',
           'SquareRootNPooling']


class BasePoolingType(object):
    """A pooling, by the layer type that does it on sequences."""

    def __init__(self, name):
        self.name = name

    def image_name(self):
        """The name of the same pooling on images."""
        return self.name


class MaxPooling(BasePoolingType):
    """The largest value.

    output_max_index: return its position instead of its value.
    """

    def __init__(self, output_max_index=None):
        BasePoolingType.__init__(self, 'max')
        self.output_max_index = output_max_index

    def image_name(self):
        return 'max-projection'


class AvgPooling(BasePoolingType):
    """The mean.

    strategy: `AvgPooling.STRATEGY_AVG` (mean), `STRATEGY_SUM` (sum) or `STRATEGY_SQROOTN` (sum divided by the square
        root of the length).
    """

    STRATEGY_AVG = 'average'
    STRATEGY_SUM = 'sum'
    STRATEGY_SQROOTN = 'squarerootn'

    def __init__(self, strategy=STRATEGY_AVG):
        BasePoolingType.__init__(self, 'average')
        self.strategy = strategy

    def image_name(self):
        return 'avg-projection'


class SumPooling(AvgPooling):
    """The sum."""

    def __init__(self):
        AvgPooling.__init__(self, AvgPooling.STRATEGY_SUM)


class SquareRootNPooling(AvgPooling):
    """The sum divided by the square root of the length."""

    def __init__(self):
        AvgPooling.__init__(self, AvgPooling.STRATEGY_SQROOTN)


class CudnnMaxPooling(BasePoolingType):
    """The largest value; v1's GPU variant, computed on the CPU here."""

    def __init__(self):
        BasePoolingType.__init__(self, 'cudnn-max-pool')


class CudnnAvgPooling(BasePoolingType):
    """The mean; v1's GPU variant, computed on the CPU here."""

    def __init__(self):
        BasePoolingType.__init__(self, 'cudnn-avg-pool')
