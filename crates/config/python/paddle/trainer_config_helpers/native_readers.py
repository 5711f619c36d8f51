"""Where samples come from: files that Canoe reads itself, without Python.

One call declares the format and what becomes of its parts::

    define_native_data_sources('data/train.list', 'data/test.list', format='bow', dictionary='data/dict.txt')

The slots go to the data layers by name, or in order where names are not given. Samples are shuffled in training,
read in order in testing, and kept in memory after the first pass.
"""

import json

from paddle.core.data import Data, TestData, TrainData
from paddle.core.errors import check
from paddle.core.message import whole
from paddle.python2.text import outward

from .data_sources import _files

__all__ = ['define_native_data_sources', 'native_bag', 'native_ids', 'native_label', 'native_dense',
           'native_integer', 'native_features']

FORMATS = ('bow', 'libsvm', 'csv')


def native_bag(layer=None):
    """Format bow: the words of a line as a sparse binary vector, as wide as the dictionary has words.

    layer: the data layer that gets it; by default slots go to the data layers in order.
    """
    return {'part': 'bag', 'layer': layer}


def native_ids(layer=None):
    """Format bow: the words of a line as a sequence of ids.

    layer: the data layer that gets it; by default slots go to the data layers in order.
    """
    return {'part': 'ids', 'layer': layer}


def native_label(classes, layer=None):
    """Formats bow and libsvm: the label of a line, an integer.

    classes: number of classes; labels are 0 to `classes - 1`. With two classes, libsvm also reads -1 as 0.
    layer: the data layer that gets it; by default slots go to the data layers in order.
    """
    return {'part': 'label', 'classes': classes, 'layer': layer}


def native_features(dimension, layer=None, first=1, binary=False):
    """Format libsvm: the `index:value` pairs of a line as a sparse vector.

    dimension: width of the vector.
    layer: the data layer that gets it; by default slots go to the data layers in order.
    first: the index of the first feature in the file, 1 in most files.
    binary: read only which features are not zero.
    """
    return {'part': 'features', 'dimension': dimension, 'first': first, 'binary': binary, 'layer': layer}


def _column(column):
    """A name of the header, or a number from 0."""
    if isinstance(column, str):
        return column
    number = whole(column, 'a column that is not a name of the header')
    check(number >= 0, 'a column is a name of the header or a number from 0, not %d', number)
    return number


def native_dense(columns, layer=None):
    """Format csv: columns as one dense vector.

    columns: a list of names of the header, or of numbers from 0.
    layer: the data layer that gets it; by default slots go to the data layers in order.
    """
    return {'part': 'dense', 'columns': [_column(each) for each in columns], 'layer': layer}


def native_integer(column, limit, layer=None):
    """Format csv: one column as an integer.

    column: a name of the header, or a number from 0.
    limit: values are 0 to `limit - 1`.
    layer: the data layer that gets it; by default slots go to the data layers in order.
    """
    return {'part': 'integer', 'column': _column(column), 'limit': limit, 'layer': layer}


def define_native_data_sources(train_list, test_list, format, slots=None, dictionary=None, unknown=0, classes=2,
                               separator=',', header=False, shuffle=None, cache=True, pool_size=-1):
    """Declares training and test data that Canoe reads itself, without Python.

    train_list, test_list: a file with the name of one data file per line, or a list of data files; None: no such data.
    format: `bow`, `libsvm` or `csv`.
    slots: a list of `native_…` calls, which say how the parts of a line are used. bow has a default: a bag of words,
        then a label.
    dictionary: bow: a file with a word at the start of each line; text after a tab is ignored. The number of the
        line, from 0, is the id of the word.
    unknown: bow: the id of words that are not in the dictionary.
    classes: bow: number of classes of the default label.
    separator: csv: the character between fields.
    header: csv: the first line of each file has the names of the columns.
    shuffle: whether samples are shuffled; None shuffles training data only.
    cache: keep the samples in memory after the first pass.
    pool_size: draw samples at random from a pool of so many; -1 takes the whole pass.
    """
    check(format in FORMATS, 'format of native data must be one of %s, not %r', ', '.join(FORMATS), format)
    check(train_list is not None or test_list is not None, 'data sources need train_list or test_list')
    if format == 'bow':
        check(dictionary is not None, 'format bow needs dictionary=')
        slots = slots or [native_bag(), native_label(classes)]
    check(slots, 'format %s needs slots=[...]', format)
    args = outward(json.dumps(
        {'slots': slots, 'dictionary': dictionary, 'unknown': unknown, 'separator': separator, 'header': header,
         'shuffle': shuffle, 'cache': cache, 'pool_size': pool_size}, sort_keys=True, ensure_ascii=False))
    for files, take, name in ((train_list, TrainData, 'train.list'), (test_list, TestData, 'test.list')):
        if files is not None:
            data = Data('native', files=_files(files, name))
            data.load_data_module = format
            data.load_data_args = args
            take(data)
