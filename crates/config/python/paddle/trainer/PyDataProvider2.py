"""The data provider interface of v1: `@provider` and the input types.

A provider is a function that yields the samples of one file::

    @provider(input_types={'word': sparse_binary_vector(30001), 'label': integer_value(2)},
              cache=CacheType.CACHE_PASS_IN_MEM)
    def process(settings, file_name):
        with open(file_name) as lines:
            for line in lines:
                label, words = line.split('\\t')
                yield {'word': [...], 'label': int(label)}

The decorator only describes. `paddle.trainer.provider_worker` runs the function in worker processes and sends
samples to the trainer, which shuffles, caches and makes batches.
"""

# v1 exported these modules along with its own names, and providers use them.
import collections
import functools
import itertools
import logging
import pickle
import pickle as cPickle  # noqa: F401

logging.basicConfig(format='[%(levelname)s %(asctime)s %(filename)s:%(lineno)s] %(message)s')


class SequenceType(object):
    """How deeply a slot is nested."""
    NO_SEQUENCE = 0
    SEQUENCE = 1
    SUB_SEQUENCE = 2


class DataType(object):
    """What one position of a slot is."""
    Dense = 0
    SparseNonValue = 1
    SparseValue = 2
    Index = 3


class CacheType(object):
    """Whether later passes read samples again."""
    NO_CACHE = 0
    CACHE_PASS_IN_MEM = 1


class InputType(object):
    """The type of one slot: dimension (or range of an integer), nesting, kind."""
    __slots__ = ['dim', 'seq_type', 'type']

    def __init__(self, dim, seq_type, tp):
        self.dim = dim
        self.seq_type = seq_type
        self.type = tp

    def __repr__(self):
        kind = ('dense_vector', 'sparse_binary_vector', 'sparse_vector', 'integer_value')[self.type]
        return '%s%s(%s)' % (kind, ('', '_sequence', '_sub_sequence')[self.seq_type], self.dim)


def dense_vector(dim, seq_type=SequenceType.NO_SEQUENCE):
    """A list of `dim` floats."""
    return InputType(dim, seq_type, DataType.Dense)


def sparse_binary_vector(dim, seq_type=SequenceType.NO_SEQUENCE):
    """A list of the positions that are 1, each below `dim`."""
    return InputType(dim, seq_type, DataType.SparseNonValue)


def sparse_vector(dim, seq_type=SequenceType.NO_SEQUENCE):
    """A list of (position, value) pairs, each position below `dim`."""
    return InputType(dim, seq_type, DataType.SparseValue)


def integer_value(value_range, seq_type=SequenceType.NO_SEQUENCE):
    """An integer from 0 to `value_range - 1`."""
    return InputType(value_range, seq_type, DataType.Index)


def dense_vector_sequence(dim):
    """A list of dense vectors."""
    return dense_vector(dim, SequenceType.SEQUENCE)


def dense_vector_sub_sequence(dim):
    """A list of lists of dense vectors."""
    return dense_vector(dim, SequenceType.SUB_SEQUENCE)


def sparse_binary_vector_sequence(dim):
    """A list of sparse binary vectors."""
    return sparse_binary_vector(dim, SequenceType.SEQUENCE)


def sparse_binary_vector_sub_sequence(dim):
    """A list of lists of sparse binary vectors."""
    return sparse_binary_vector(dim, SequenceType.SUB_SEQUENCE)


def sparse_vector_sequence(dim):
    """A list of sparse vectors."""
    return sparse_vector(dim, SequenceType.SEQUENCE)


def sparse_vector_sub_sequence(dim):
    """A list of lists of sparse vectors."""
    return sparse_vector(dim, SequenceType.SUB_SEQUENCE)


def integer_value_sequence(value_range):
    """A list of integers."""
    return integer_value(value_range, SequenceType.SEQUENCE)


def integer_value_sub_sequence(value_range):
    """A list of lists of integers."""
    return integer_value(value_range, SequenceType.SUB_SEQUENCE)


dense_slot = dense_vector
sparse_non_value_slot = sparse_binary_vector
sparse_value_slot = sparse_vector
index_slot = integer_value
integer_sequence = integer_value_sequence

_TRUE = (1, 't', 'true', 'on')
_FALSE = (0, 'f', 'false', 'off')


def _switch(value, logger):
    """`should_shuffle` as True, False or None (shuffle when training)."""
    if value is None or isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else value
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    logger.warning('should_shuffle=%r is not understood, so training data are shuffled and test data are not; '
                   'give a bool or one of %r', value, _TRUE + _FALSE)
    return None


def provider(input_types=None, should_shuffle=None, pool_size=-1, min_pool_size=-1, can_over_batch_size=True,
             calc_batch_size=None, cache=CacheType.NO_CACHE, check=False, check_fail_continue=False, init_hook=None,
             **others):
    """Makes a data provider of a generator function `process(settings, file_name)` that yields samples.

    input_types: a dictionary from data layer to type (samples are dictionaries), or a list of types (samples are
        tuples in the order of the inputs).
    should_shuffle: whether samples are shuffled; None shuffles training data only.
    pool_size: draw samples at random from a pool of so many; -1 takes the whole pass.
    min_pool_size: if `pool_size` is unlimited, the pool holds so many samples, at least 16 batches; -1 holds the whole
        pass.
    can_over_batch_size: whether the last sample of a batch may exceed the batch size.
    calc_batch_size: a function of a sample that returns how much of the batch it takes; by default every sample takes
        1.
    cache: `CacheType.CACHE_PASS_IN_MEM` keeps the samples in memory for later passes.
    check: verify every sample against `input_types`.
    check_fail_continue: drop samples that fail the check instead of stopping.
    init_hook: a function `init_hook(settings, file_list, is_train, input_order, **args)` that runs once in every
        worker process and may set `settings.input_types`.
    others: `slots`, an old name of `input_types`.
    """

    def decorate(generator):
        class DataProvider(object):
            """What a provider function gets as `settings`."""

            def __init__(self, file_list, **kwargs):
                self.logger = logging.getLogger('')
                self.logger.setLevel(logging.INFO)
                self.input_types = None
                self.should_shuffle = _switch(should_shuffle, self.logger)
                self.pool_size = pool_size
                self.min_pool_size = min_pool_size
                self.can_over_batch_size = can_over_batch_size
                self.calc_batch_size = calc_batch_size
                self.file_list = file_list
                self.generator = generator
                self.cache = cache
                self.input_order = kwargs['input_order']
                self.check = check
                self.check_fail_continue = check_fail_continue
                self.slots = None
                if init_hook is not None:
                    init_hook(self, file_list=file_list, **kwargs)
                for types in (others.get('slots'), input_types, self.input_types):
                    if types is not None:
                        self.slots = types
                if self.slots is None:
                    raise ValueError("the data provider's input_types must be set, in @provider or in its init_hook")

        functools.update_wrapper(DataProvider, generator, updated=())
        return DataProvider

    return decorate


def deserialize_args(args):
    """The arguments of a configuration, from the text that carries them."""
    return pickle.loads(args.encode('latin-1'))
