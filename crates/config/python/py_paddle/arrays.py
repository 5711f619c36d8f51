"""`Matrix`, `Vector` and `IVector`: numbers in one piece of memory, dense or in rows of few columns."""

from array import array

from py_paddle.errors import RangeError, UnsupportError, numpy

SPARSE_NON_VALUE, SPARSE_VALUE = 0, 1
SPARSE_CSR, SPARSE_CSC = 0, 1


class _Numbers(object):
    """What both kinds of vector do; `letter` is the type of `array`, `dtype` NumPy's."""
    letter = dtype = None

    def __init__(self, values):
        self.values = values if isinstance(values, array) else array(self.letter, values)

    @classmethod
    def create(cls, data, useGpu=False):
        """From a list."""
        return cls(data)

    @classmethod
    def createZero(cls, size, useGpu=False):
        """So many zeros."""
        return cls(array(cls.letter, bytes(4 * size)))

    @classmethod
    def createVectorFromNumpy(cls, data, copy=True, useGpu=False):
        """From an array of NumPy's."""
        values = array(cls.letter)
        values.frombytes(data.astype(cls.dtype).tobytes())
        return cls(values)

    createCpuVectorFromNumpy = createGpuVectorFromNumpy = createVectorFromNumpy

    def copyToNumpyArray(self):
        """A copy as an array of NumPy's."""
        return numpy().frombuffer(self.values, self.dtype).copy()

    def toNumpyArrayInplace(self):
        """An array of NumPy's over the same memory."""
        return numpy().frombuffer(self.values, self.dtype)

    def copyFromNumpyArray(self, data):
        """Takes the values of an array of the same length."""
        self._take(type(self).createVectorFromNumpy(data).values)

    def copyFrom(self, other):
        """Takes the values of a vector of the same length."""
        self._take(other.values)

    def _take(self, values):
        if len(values) != len(self.values):
            raise RangeError('%d values do not fit a vector of %d' % (len(values), len(self.values)))
        self.values[:] = values

    def getData(self):
        """The values as a list."""
        return self.values.tolist()

    def get(self, index):
        """One value."""
        return self[index]

    def set(self, index, value):
        """Changes one value."""
        self[index] = value

    def getSize(self):
        """How many there are."""
        return len(self.values)

    def isGpu(self):
        """No."""
        return False

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        if not 0 <= index < len(self.values):
            raise RangeError('position %d of %d' % (index, len(self.values)))
        return self.values[index]

    def __setitem__(self, index, value):
        self.get(index)
        self.values[index] = value


class Vector(_Numbers):
    """Floats of 32 bits."""
    letter, dtype = 'f', '<f4'


class IVector(_Numbers):
    """Integers of 32 bits."""
    letter, dtype = 'i', '<i4'


class Matrix(object):
    """`height` rows of `width` floats; a sparse one has `starts` (height + 1 offsets), `columns`, perhaps `values`."""

    def __init__(self, height, width, values=None, starts=None, columns=None):
        self.height = height
        self.width = width
        self.values = values
        self.starts = starts
        self.columns = columns

    @staticmethod
    def createZero(height, width, useGpu=False):
        """A dense one of zeros."""
        return Matrix(height, width, array('f', bytes(4 * height * width)))

    @staticmethod
    def createDense(data, height, width, useGpu=False):
        """From the list of all its numbers."""
        values = array('f', data)
        if len(values) != height * width:
            raise RangeError('%d numbers do not make %d rows of %d' % (len(values), height, width))
        return Matrix(height, width, values)

    @staticmethod
    def createDenseFromNumpy(data, copy=True, useGpu=False):
        """From an array with two dimensions."""
        if data.ndim != 2:
            raise UnsupportError('a matrix has two dimensions, not %d' % data.ndim)
        values = array('f')
        values.frombytes(data.astype('<f4').tobytes())
        return Matrix(data.shape[0], data.shape[1], values)

    createCpuDenseFromNumpy = createGpuDenseFromNumpy = createDenseFromNumpy

    @staticmethod
    def createSparse(height, width, nnz, isNonVal=True, trans=False, useGpu=False):
        """One whose entries `sparseCopyFrom` brings."""
        if trans:
            raise UnsupportError('sparse matrices lie by rows')
        return Matrix(height, width, None if isNonVal else array('f'), array('i', bytes(4 * (height + 1))), array('i'))

    def sparseCopyFrom(self, rows, cols, vals=()):
        """Takes offsets of rows, columns, and values unless all are 1."""
        if not self.isSparse():
            raise UnsupportError('a dense matrix has no sparse entries')
        starts, columns = array('i', rows), array('i', cols)
        if len(starts) != self.height + 1 or starts[-1] != len(columns):
            raise RangeError('%d offsets that end at %d do not describe %d rows of %d entries' % (
                len(starts), starts[-1] if starts else 0, self.height, len(columns)))
        if columns and not 0 <= min(columns) <= max(columns) < self.width:
            raise RangeError('a column is not below %d' % self.width)
        self.starts, self.columns = starts, columns
        if self.values is not None:
            self.values = array('f', vals)
            if len(self.values) != len(columns):
                raise RangeError('%d values for %d entries' % (len(self.values), len(columns)))

    def isSparse(self):
        """Whether only some entries are stored."""
        return self.columns is not None

    def getSparseValueType(self):
        """Whether entries have values."""
        return SPARSE_NON_VALUE if self.values is None else SPARSE_VALUE

    def getSparseFormat(self):
        """By rows."""
        return SPARSE_CSR

    def getSparseRowCols(self, row):
        """The columns of a row."""
        return self.columns[self._entries(row)].tolist()

    def getSparseRowColsVal(self, row):
        """The columns of a row with their values."""
        at = self._entries(row)
        return list(zip(self.columns[at].tolist(), self.values[at].tolist()))

    def _entries(self, row):
        if not self.isSparse() or not 0 <= row < self.height:
            raise RangeError('row %d of %d' % (row, self.height))
        return slice(self.starts[row], self.starts[row + 1])

    def _place(self, row, column):
        if self.isSparse():
            raise UnsupportError('entries of sparse matrices are read by row')
        if not (0 <= row < self.height and 0 <= column < self.width):
            raise RangeError('place (%d, %d) of %d rows of %d' % (row, column, self.height, self.width))
        return row * self.width + column

    def get(self, row, column):
        """One number."""
        return self.values[self._place(row, column)]

    def set(self, row, column, value):
        """Changes one number."""
        self.values[self._place(row, column)] = value

    def getHeight(self):
        """Rows."""
        return self.height

    def getWidth(self):
        """Columns."""
        return self.width

    def getData(self):
        """All numbers of a dense matrix as a list."""
        self._dense()
        return self.values.tolist()

    def _dense(self):
        if self.isSparse():
            raise UnsupportError('a sparse matrix has no dense numbers')

    def copyToNumpyMat(self):
        """A copy as an array with two dimensions."""
        return self.toNumpyMatInplace().copy()

    def toNumpyMatInplace(self):
        """An array over the same memory."""
        self._dense()
        return numpy().frombuffer(self.values, '<f4').reshape(self.height, self.width)

    def copyFromNumpyMat(self, data):
        """Takes the numbers of an array of the same shape."""
        if data.shape != (self.height, self.width):
            raise RangeError('shape %s is not %s' % (data.shape, (self.height, self.width)))
        self.values[:] = Matrix.createDenseFromNumpy(data).values

    def isGpu(self):
        """No."""
        return False
