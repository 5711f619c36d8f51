"""Turns samples, as a data provider yields them, into `Arguments`."""

from array import array
from collections.abc import Sequence

import paddle.trainer.PyDataProvider2 as dp2
from py_paddle.arguments import Arguments
from py_paddle.arrays import IVector, Matrix

__all__ = ['DataProviderConverter']


class DataProviderConverter(object):
    """Converts batches of samples whose slots have the given types, in order."""

    def __init__(self, input_types):
        if not isinstance(input_types, Sequence) or not all(isinstance(each, dp2.InputType) for each in input_types):
            raise TypeError('input_types is a list of types such as dense_vector(10) or integer_value_sequence(100)')
        self.input_types = input_types

    def convert(self, dat, argument=None):
        """`Arguments` of an iterable of samples; each sample has one value per type."""
        samples = list(dat)
        for number, sample in enumerate(samples):
            if len(sample) < len(self.input_types):
                raise ValueError('sample %d has %d values, but there are %d types' % (
                    number, len(sample), len(self.input_types)))
        argument = Arguments.createArguments(0) if argument is None else argument
        argument.resize(len(self.input_types))
        for index, slot_type in enumerate(self.input_types):
            fill(argument.slot(index), slot_type, [sample[index] for sample in samples], index)
        return argument

    def __call__(self, dat, argument=None):
        return self.convert(dat, argument)


def fill(slot, slot_type, values, index):
    """Puts one column of a batch into a slot."""
    slot.value = slot.ids = slot.sequences = slot.subsequences = None
    if slot_type.seq_type == dp2.SequenceType.SUB_SEQUENCE:
        slot.sequences = IVector(starts(sum(map(len, value)) for value in values))
        values = [part for value in values for part in value]
        slot.subsequences = IVector(starts(map(len, values)))
        values = [row for part in values for row in part]
    elif slot_type.seq_type == dp2.SequenceType.SEQUENCE:
        slot.sequences = IVector(starts(map(len, values)))
        values = [row for value in values for row in value]
    if slot_type.type == dp2.DataType.Index:
        slot.ids = IVector(values)
    elif slot_type.type == dp2.DataType.Dense:
        slot.value = dense(slot_type.dim, values, index)
    else:
        slot.value = sparse(slot_type, values)


def starts(lengths):
    """Offsets: 0, and after each length the sum so far."""
    found = [0]
    for length in lengths:
        found.append(found[-1] + length)
    return found


def dense(dim, rows, index):
    """A dense matrix; rows are lists or arrays of NumPy's."""
    values = array('f')
    for row in rows:
        before = len(values)
        if hasattr(row, 'astype'):
            values.frombytes(row.astype('<f4').tobytes())
        else:
            values.extend(row)
        if len(values) - before != dim:
            raise ValueError('slot %d needs %d numbers a row, got %d' % (index, dim, len(values) - before))
    return Matrix(len(rows), dim, values)


def sparse(slot_type, rows):
    """A sparse matrix; rows are lists of columns, or of (column, value) pairs."""
    valued = slot_type.type == dp2.DataType.SparseValue
    entries = [entry for row in rows for entry in row]
    made = Matrix.createSparse(len(rows), slot_type.dim, len(entries), not valued)
    columns = [entry[0] for entry in entries] if valued else entries
    made.sparseCopyFrom(starts(map(len, rows)), columns, [entry[1] for entry in entries] if valued else ())
    return made
