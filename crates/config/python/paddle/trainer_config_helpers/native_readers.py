"""Where samples come from: files that Canoe reads itself, without Python.

One call declares the format and what becomes of its parts::

    define_native_data_sources('data/train.list', 'data/test.list', format='bow', dictionary='data/dict.txt')

The slots go to the data layers by name, or in order where names are not given. Samples are shuffled in training,
read in order in testing, and kept in memory after the first pass.
"""

import json

from paddle.core.data import Data, TestData, TrainData
from paddle.core.errors import check

from .data_sources import _list_file

__all__ = ['define_native_data_sources', 'native_bag', 'native_ids', 'native_label', 'native_dense',
           'native_integer', 'native_features']

FORMATS = ('bow', 'libsvm', 'csv')


def native_bag(layer=None):
    """Format bow: the words of a line as a sparse binary vector of the dictionary's size."""
    return {'part': 'bag', 'layer': layer}


def native_ids(layer=None):
    """Format bow: the words of a line as a sequence of ids."""
    return {'part': 'ids', 'layer': layer}


def native_label(classes, layer=None):
    """The label of a line, an integer from 0 to `classes - 1` (format libsvm also reads -1 as 0)."""
    return {'part': 'label', 'classes': classes, 'layer': layer}


def native_features(dimension, layer=None, first=1, binary=False):
    """Format libsvm: `index:value` pairs as a sparse vector; `first` is the number of the first feature."""
    return {'part': 'features', 'dimension': dimension, 'first': first, 'binary': binary, 'layer': layer}


def native_dense(columns, layer=None):
    """Format csv: columns (names of the header, or numbers from 0) as one dense vector."""
    return {'part': 'dense', 'columns': list(columns), 'layer': layer}


def native_integer(column, limit, layer=None):
    """Format csv: one column as an integer from 0 to `limit - 1`."""
    return {'part': 'integer', 'column': column, 'limit': limit, 'layer': layer}


def define_native_data_sources(train_list, test_list, format, slots=None, dictionary=None, unknown=0, classes=2,
                               separator=',', header=False, shuffle=None, cache=True, pool_size=-1):
    """Declares the training and test data of a format that needs no Python.

    bow: lines `label<TAB>words separated by blanks`; `dictionary` has a word at the start of each line (what follows a
    tab is ignored), its line number is its id, words that it lacks get the id `unknown`. Default slots: a bag of words,
    then a label of `classes` classes. libsvm: lines `label index:value ...`. csv: lines of `separator`-separated
    fields, the first with names if `header`. `shuffle` None means in training only; `pool_size` as in `@provider`.
    """
    check(format in FORMATS, 'format of native data must be one of %s, not %r', ', '.join(FORMATS), format)
    check(train_list is not None or test_list is not None, 'data sources need train_list or test_list')
    if format == 'bow':
        check(dictionary is not None, 'format bow needs dictionary=')
        slots = slots or [native_bag(), native_label(classes)]
    check(slots, 'format %s needs slots=[...]', format)
    args = json.dumps({'slots': slots, 'dictionary': dictionary, 'unknown': unknown, 'separator': separator,
                       'header': header, 'shuffle': shuffle, 'cache': cache, 'pool_size': pool_size}, sort_keys=True)
    for files, take, name in ((train_list, TrainData, 'train.list'), (test_list, TestData, 'test.list')):
        if files is not None:
            data = Data('native', files=_list_file(files, name))
            data.load_data_module = format
            data.load_data_args = args
            take(data)
