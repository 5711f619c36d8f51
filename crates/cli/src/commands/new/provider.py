"""Reads the data of this job: one sample per line, `label x y`."""
from paddle.trainer.PyDataProvider2 import *


@provider(input_types={'point': dense_vector(2), 'label': integer_value(2)}, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    with open(file_name) as lines:
        for line in lines:
            label, x, y = line.split()
            yield {'point': [float(x), float(y)], 'label': int(label)}
