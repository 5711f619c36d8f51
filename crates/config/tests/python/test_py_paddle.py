"""Samples as `Arguments`: every type and nesting, and what is refused. Nothing here computes."""

import io
import unittest
from array import array

from paddle.trainer.PyDataProvider2 import *
from py_paddle import DataProviderConverter, swig_paddle
from py_paddle.machine import described
from py_paddle.worker import Message, read

try:
    import numpy
except ImportError:
    numpy = None


def converted(slot_type, *values):
    """The slot of samples with one value each."""
    return DataProviderConverter([slot_type])([[value] for value in values]).slot(0)


def entries(matrix):
    return matrix.starts.tolist(), matrix.columns.tolist(), matrix.values and matrix.values.tolist()


class ConverterTest(unittest.TestCase):
    def test_dense(self):
        slot = converted(dense_vector(2), [1, 2], (3, 4))
        self.assertEqual((slot.value.getHeight(), slot.value.getWidth(), slot.value.getData()), (2, 2, [1, 2, 3, 4]))
        self.assertIsNone(slot.sequences)
        slot = converted(dense_vector_sequence(2), [[1, 2], [3, 4]], [], [[5, 6]])
        self.assertEqual((slot.value.getData(), slot.sequences.getData()), ([1, 2, 3, 4, 5, 6], [0, 2, 2, 3]))
        slot = converted(dense_vector_sub_sequence(1), [[[1], [2]], [[3]]], [[[4]]])
        self.assertEqual((slot.value.getData(), slot.sequences.getData(), slot.subsequences.getData()),
                         ([1, 2, 3, 4], [0, 3, 4], [0, 2, 3, 4]))

    def test_ids(self):
        self.assertEqual(converted(integer_value(9), 3, -1).ids.getData(), [3, -1])
        slot = converted(integer_value_sequence(9), [1, 2], [3])
        self.assertEqual((slot.ids.getData(), slot.sequences.getData()), ([1, 2, 3], [0, 2, 3]))
        slot = converted(integer_value_sub_sequence(9), [[1], [2, 3]], [[4]])
        self.assertEqual((slot.ids.getData(), slot.sequences.getData(), slot.subsequences.getData()),
                         ([1, 2, 3, 4], [0, 3, 4], [0, 1, 3, 4]))

    def test_sparse(self):
        slot = converted(sparse_binary_vector(9), [1, 8], [], [0])
        self.assertEqual(entries(slot.value), ([0, 2, 2, 3], [1, 8, 0], None))
        self.assertEqual(slot.value.getSparseRowCols(0), [1, 8])
        slot = converted(sparse_vector(9), [(1, 0.5)], [(2, 1.5), (3, 2)])
        self.assertEqual(entries(slot.value), ([0, 1, 3], [1, 2, 3], [0.5, 1.5, 2]))
        self.assertEqual(slot.value.getSparseRowColsVal(1), [(2, 1.5), (3, 2)])
        slot = converted(sparse_binary_vector_sequence(9), [[1], [2, 3]], [[4]])
        self.assertEqual((entries(slot.value)[0], slot.sequences.getData()), ([0, 1, 3, 4], [0, 2, 3]))
        slot = converted(sparse_vector_sub_sequence(9), [[[(1, 1)]], [[(2, 1)], [(3, 1)]]])
        self.assertEqual((slot.sequences.getData(), slot.subsequences.getData()), ([0, 3], [0, 1, 3]))

    def test_several_slots_from_a_generator_into_old_arguments(self):
        converter = DataProviderConverter([integer_value(5), dense_vector(1)])
        arguments = swig_paddle.Arguments.createArguments(7)
        self.assertIs(converter.convert(((i, [i]) for i in range(3)), arguments), arguments)
        self.assertEqual(arguments.getSlotNum(), 2)
        self.assertEqual(arguments.getSlotIds(0).getData(), [0, 1, 2])
        self.assertEqual(arguments.getSlotValue(1).getData(), [0, 1, 2])

    def test_what_does_not_fit(self):
        with self.assertRaisesRegex(ValueError, 'slot 0 needs 2 numbers a row, got 3'):
            converted(dense_vector(2), [1, 2, 3])
        with self.assertRaisesRegex(swig_paddle.RangeError, 'not below 4'):
            converted(sparse_binary_vector(4), [4])
        with self.assertRaisesRegex(ValueError, 'sample 0 has 1 values, but there are 2 types'):
            DataProviderConverter([integer_value(1), integer_value(1)])([[0]])
        with self.assertRaises(TypeError):
            DataProviderConverter([3])

    @unittest.skipIf(numpy is None, 'numpy is not installed')
    def test_arrays_of_numpy(self):
        slot = converted(dense_vector(2), numpy.array([1, 2]), numpy.array([3.5, 4]))
        self.assertEqual(slot.value.copyToNumpyMat().tolist(), [[1, 2], [3.5, 4]])
        matrix = swig_paddle.Matrix.createDenseFromNumpy(numpy.arange(6).reshape(2, 3).astype('float64'))
        self.assertEqual((matrix.getHeight(), matrix.getData()), (2, [0, 1, 2, 3, 4, 5]))
        self.assertEqual(swig_paddle.IVector.createVectorFromNumpy(numpy.array([1, 2])).copyToNumpyArray().tolist(), [1, 2])


class ArrayTest(unittest.TestCase):
    def test_vectors(self):
        vector = swig_paddle.Vector.create([1, 2])
        vector[1] = 5
        self.assertEqual((len(vector), vector.get(1)), (2, 5))
        self.assertEqual(swig_paddle.IVector.createZero(3).getData(), [0, 0, 0])
        self.assertRaises(swig_paddle.RangeError, vector.get, 2)
        self.assertRaises(swig_paddle.RangeError, vector.copyFrom, swig_paddle.Vector.create([1]))

    def test_matrices(self):
        matrix = swig_paddle.Matrix.createDense([1, 2, 3, 4], 2, 2)
        matrix.set(1, 0, 9)
        self.assertEqual((matrix.get(1, 0), matrix.isSparse()), (9, False))
        self.assertRaises(swig_paddle.RangeError, matrix.get, 2, 0)
        self.assertRaises(swig_paddle.RangeError, swig_paddle.Matrix.createDense, [1], 2, 2)
        sparse = swig_paddle.Matrix.createSparse(1, 3, 1)
        self.assertRaises(swig_paddle.RangeError, sparse.sparseCopyFrom, [0, 2], [1])
        self.assertRaises(swig_paddle.UnsupportError, sparse.getData)

    def test_training_is_refused_with_a_way_out(self):
        for call in (swig_paddle.Trainer.create, swig_paddle.ParameterUpdater.createLocalUpdater):
            with self.assertRaisesRegex(swig_paddle.UnsupportError, 'canoe train'):
                call(None)


    def test_generation_is_refused_with_its_own_way_out(self):
        machine = swig_paddle.GradientMachine.__new__(swig_paddle.GradientMachine)
        with self.assertRaisesRegex(swig_paddle.UnsupportError, 'beam_search.*--job=test'):
            machine.asSequenceGenerator([])


class MessageTest(unittest.TestCase):
    def test_a_message_is_a_line_and_its_arrays(self):
        slot = converted(sparse_vector_sequence(9), [[(1, 0.5)], [(2, 1)]])
        message = Message(call='forward')
        message.header['slots'] = [described(slot, message, 'word')]
        out = io.BytesIO()
        message.write(out)
        header = read(io.BytesIO(out.getvalue()))
        self.assertEqual(header['slots'], [{'kind': 'sparse', 'dim': 9, 'starts': 0, 'columns': 1, 'values': 2,
                                            'sequences': 3}])
        self.assertEqual(header['arrays'], [array('i', [0, 1, 2]), array('i', [1, 2]), array('f', [0.5, 1]),
                                            array('i', [0, 2])])
        self.assertIsNone(read(io.BytesIO(out.getvalue()[:-1])))

    def test_a_missing_program_is_named(self):
        from py_paddle.worker import Worker
        with self.assertRaisesRegex(swig_paddle.UnsupportError, 'no-such-canoe.*PATH'):
            Worker('no-such-canoe')


class SecondEditionTest(unittest.TestCase):
    def test_it_says_what_there_is_instead(self):
        with self.assertRaisesRegex(ImportError, 'canoe train'):
            import paddle.v2  # noqa: F401


if __name__ == '__main__':
    unittest.main()
