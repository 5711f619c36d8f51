"""Reads gauge readings: one sample per line."""
from paddle.trainer.PyDataProvider2 import *


def on_init(settings, gauges, readings, **kwargs):
    settings.input_types = {
        'gauge': integer_value(gauges),
        'readings': dense_vector(readings),
        'label': integer_value(3),
    }


@provider(init_hook=on_init, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    with open(file_name) as lines:
        for line in lines:
            label, gauge, readings = line.rstrip('\n').split('\t')
            yield {
                'gauge': int(gauge),
                'readings': [float(each) for each in readings.split()],
                'label': int(label),
            }
