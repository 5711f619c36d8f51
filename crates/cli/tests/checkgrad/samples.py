"""Random samples of any shape: a configuration names its slots, `{'x': ['dense', 4], 'label': ['ids', 3]}`.

All sequences of a sample have the same length, except `labels`, which are shorter, as alignments need them.
"""
import random

from paddle.trainer.PyDataProvider2 import *

SAMPLES = 6

TYPES = {
    'dense': dense_vector,
    'positive': dense_vector,
    'binary': sparse_binary_vector,
    'sparse': sparse_vector,
    'ids': integer_value,
    'zero_or_one': dense_vector,
    'dense_sequence': dense_vector_sequence,
    'positive_sequence': dense_vector_sequence,
    'relevance': dense_vector_sequence,
    'id_sequence': integer_value_sequence,
    'labels': integer_value_sequence,
    'nested': dense_vector_sub_sequence,
    'start': integer_value,
    'length': integer_value,
}


def describe(settings, slots, **kwargs):
    settings.shapes = slots
    settings.input_types = {name: TYPES[kind](size) for name, (kind, size) in slots.items()}


def draw(kind, size, length, random):
    def numbers():
        return [random.uniform(-1, 1) for _ in range(size)]

    def positive():
        return [random.uniform(0.3, 1) for _ in range(size)]

    def chosen():
        return sorted(random.sample(range(size), 2))

    return {
        'dense': numbers,
        'positive': positive,
        'zero_or_one': lambda: [float(random.randrange(2)) for _ in range(size)],
        'binary': chosen,
        'sparse': lambda: [(column, random.uniform(-1, 1)) for column in chosen()],
        'ids': lambda: random.randrange(size),
        'dense_sequence': lambda: [numbers() for _ in range(length)],
        'positive_sequence': lambda: [positive() for _ in range(length)],
        'relevance': lambda: [[float(random.randrange(5))] for _ in range(length)],
        'id_sequence': lambda: [random.randrange(size) for _ in range(length)],
        'labels': lambda: [1 + at % (size - 2) for at in range(length // 2)],
        'nested': lambda: [[numbers() for _ in range(1 + part)] for part in range(2)],
        'start': lambda: random.randrange(2),
        'length': lambda: length - 1 - random.randrange(2),
    }[kind]()


@provider(init_hook=describe, should_shuffle=False)
def process(settings, file_name):
    source = random.Random(7)
    for _ in range(SAMPLES):
        length = source.randrange(3, 6)
        yield {name: draw(kind, size, length, source) for name, (kind, size) in settings.shapes.items()}
