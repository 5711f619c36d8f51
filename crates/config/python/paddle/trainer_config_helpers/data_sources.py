"""Where samples come from: Python data providers."""

import os

from paddle.core.data import PyData, PyData2, TestData, TrainData
from paddle.core.errors import check
from paddle.python2.text import outward

__all__ = ['define_py_data_sources2']


def _pair(value):
    """Separate values for training and testing, if a list or tuple of two is given."""
    return tuple(value) if isinstance(value, (list, tuple)) and len(value) == 2 else (value, value)


def _list_file(files, name):
    """The name of a list file; a list of files is written to `name` first."""
    if not isinstance(files, list):
        return files
    if os.environ.get('CANOE_DIVIDED_LISTS') and os.path.exists(name):
        return name  # the part of the files that this node reads
    draft = '%s.%d' % (name, os.getpid())  # another process may be reading the list
    with open(draft, 'w', encoding='utf-8') as out:
        for each in files:
            out.write(outward(each if each.endswith('\n') else each + '\n'))
    os.replace(draft, name)
    return name


def _pickled(args):
    """Arguments travel as text: protocol 0, one character a byte."""
    if args is None or isinstance(args, str):
        return args or ''
    try:
        from _pickle import dumps  # lighter than pickle, which wraps it
    except ImportError:
        from pickle import dumps
    return dumps(args, 0).decode('latin-1')


def _pickled_pair(args):
    train, test = _pair(args)
    text = _pickled(train)
    return text, text if test is train else _pickled(test)


def define_py_data_sources(train_list, test_list, module, obj, args=None, train_async=False, data_cls=PyData):
    """Data providers of the first generation."""
    check(train_list is not None or test_list is not None, 'data sources need train_list or test_list')
    check(module is not None and obj is not None, 'data sources need module and obj')
    halves = zip((train_list, test_list), _pair(module), _pair(obj), _pickled_pair(args),
                 ((TrainData, 'train.list', train_async), (TestData, 'test.list', False)))
    for files, its_module, its_object, its_args, (take, list_name, asynchronous) in halves:
        if files is not None:
            take(data_cls(files=_list_file(files, list_name), load_data_module=its_module,
                          load_data_object=its_object, load_data_args=its_args,
                          async_load_data=asynchronous))


def define_py_data_sources2(train_list, test_list, module, obj, args=None):
    """Declares training and test data that a data provider in Python yields.

    train_list, test_list: a file with the name of one data file per line, or a list of data files; None: no such data.
    module: name of the Python module with the provider; it lies beside the configuration. A pair: one for training,
        one for testing.
    obj: name of the function that `@provider` decorates, or such a pair.
    args: a dictionary that the provider's `init_hook` gets as named arguments, or such a pair.
    """
    define_py_data_sources(train_list, test_list, module, obj, args, data_cls=PyData2)
