"""Reads ratings and joins them with what is known of the movie and of the user."""
import pickle

from paddle.trainer.PyDataProvider2 import *


def input_type(field):
    """The type of the data layer for a field of meta.bin."""
    if field['type'] == 'id':
        return integer_value(field['max'])
    if field['type'] == 'one_hot_dense':
        return dense_vector(len(field['dict']))
    if field['seq'] == 'sequence':
        return integer_value_sequence(len(field['dict']))
    return integer_value(len(field['dict']))


def load(settings, meta_file):
    with open(meta_file, 'rb') as stored:
        settings.meta = pickle.load(stored)
    settings.names = {}
    settings.input_types = {}
    for kind in ('movie', 'user'):
        fields = settings.meta[kind]['__meta__']['raw_meta']
        settings.names[kind] = [field.get('name', kind + '_id') for field in fields]
        for name, field in zip(settings.names[kind], fields):
            settings.input_types[name] = input_type(field)


def on_init(settings, meta_file, **kwargs):
    load(settings, meta_file)
    settings.input_types['rating'] = dense_vector(1)


def on_init_predict(settings, meta_file, **kwargs):
    load(settings, meta_file)


def sample(settings, movie, user):
    """The features of both; ids are counted from 0 in the network and from 1 in the files."""
    values = {}
    for kind, number in (('movie', movie), ('user', user)):
        values.update(zip(settings.names[kind], [number - 1] + settings.meta[kind][number]))
    return values


@provider(init_hook=on_init, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    """Each line is user::movie::stars::time."""
    with open(file_name, encoding='latin-1') as lines:
        for line in lines:
            user, movie, stars = map(int, line.split('::')[:3])
            values = sample(settings, movie, user)
            values['rating'] = [stars * 2 - 5.0]
            yield values


@provider(init_hook=on_init_predict, should_shuffle=False)
def process_predict(settings, file_name):
    """Each line is user::movie."""
    with open(file_name, encoding='latin-1') as lines:
        for line in lines:
            user, movie = map(int, line.split('::')[:2])
            yield sample(settings, movie, user)
