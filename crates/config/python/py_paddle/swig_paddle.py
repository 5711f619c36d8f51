"""The names of v1's extension module."""

from py_paddle.arguments import Arguments  # noqa: F401
from py_paddle.arrays import (SPARSE_CSC, SPARSE_CSR, SPARSE_NON_VALUE, SPARSE_VALUE, IVector, Matrix,  # noqa: F401
                              Vector)
from py_paddle.errors import RangeError, UnsupportError, training  # noqa: F401
from py_paddle.machine import (CREATE_MODE_NORMAL, CREATE_MODE_SGD_SPARSE_CPU_TRAINING,  # noqa: F401
                               CREATE_MODE_TESTING, NUM_PARAMETER_TYPES, PARAMETER_GRADIENT, PARAMETER_MOMENTUM,
                               PARAMETER_VALUE, PASS_GC, PASS_METRIC, PASS_METRIC_TRAIN, PASS_TEST, PASS_TRAIN,
                               GradientMachine, Parameter)
from py_paddle.worker import Message, worker

_flags = {}


def initPaddle(*args):
    """Takes v1's flags, such as `--use_gpu=0`; models are applied on the processor whatever they say."""
    for each in args:
        name, _, value = each.lstrip('-').partition('=')
        _flags[name] = value
    worker().ask(Message(call='init', flags=list(args)))


def isUsingGpu():
    """No."""
    return False


def isGpuVersion():
    """No."""
    return False


def setUseGpu(useGpu):
    """Accepted."""


def getTrainerCount():
    """The flag `trainer_count`."""
    return int(_flags.get('trainer_count') or 1)


class _Trains(object):
    """A class of v1 that trains."""

    def __init__(self, *_, **__):
        raise training(type(self).__name__)

    @classmethod
    def create(cls, *_, **__):
        """Refused."""
        raise training(cls.__name__)

    createLocalUpdater = createRemoteUpdater = createByCommandLine = create


class Trainer(_Trains):
    """Refused."""


class ParameterUpdater(_Trains):
    """Refused."""


class ParameterOptimizer(_Trains):
    """Refused."""
