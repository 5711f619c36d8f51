"""Data sources: the records that `TrainData` and `TestData` accept."""

from paddle.core.errors import ConfigError, check
from paddle.core.job import job
from paddle.core.message import Message
from paddle.core.places import here


def create_data_config_proto(async_load_data=False, constant_slots=None, data_ratio=1, is_main_data=True,
                             usage_ratio=None):
    """The part that all sources have in common."""
    ratio = job().defaults.usage_ratio if usage_ratio is None else usage_ratio
    check(0 <= ratio <= 1, 'usage_ratio must be between 0 and 1, not %s', ratio)
    return Message('DataConfig', async_load_data=async_load_data, constant_slots=constant_slots or [],
                   data_ratio=data_ratio, is_main_data=is_main_data, usage_ratio=ratio)


def _fill(data, **values):
    for field, value in values.items():
        if value is not None:
            setattr(data, field, value)
    return data


def _file_group(data, queue_capacity, load_file_count, load_thread_num):
    if (queue_capacity, load_file_count, load_thread_num) != (None, None, None):
        _fill(data.file_group_conf, queue_capacity=queue_capacity, load_file_count=load_file_count,
              load_thread_num=load_thread_num)
    return data


def SimpleData(files=None, feat_dim=None, context_len=None, buffer_capacity=None, **common):
    """Text files with a fixed number of features."""
    return _fill(create_data_config_proto(**common), type='simple', files=files, feat_dim=feat_dim,
                 context_len=context_len, buffer_capacity=buffer_capacity or None)


def PyData(files=None, type=None, file_group_queue_capacity=None, load_data_module=None, load_data_object=None,
           load_data_args='', load_file_count=None, constant_slots=None, load_thread_num=None, **common):
    """A Python data provider of the first generation."""
    if load_data_module is None or load_data_object is None:
        raise ConfigError('PyData needs load_data_module and load_data_object')
    data = _fill(create_data_config_proto(constant_slots=constant_slots, **common), type='py', files=files or '',
                 load_data_module=load_data_module, load_data_object=load_data_object, load_data_args=load_data_args)
    return _file_group(data, file_group_queue_capacity, load_file_count, load_thread_num)


def PyData2(files, load_data_module, load_data_object, load_data_args, **_):
    """A Python data provider of the second generation (`paddle.trainer.PyDataProvider2`)."""
    return _fill(create_data_config_proto(), type='py2', files=files, load_data_module=load_data_module,
                 load_data_object=load_data_object, load_data_args=load_data_args)


def ProtoData(files=None, type=None, file_group_queue_capacity=None, load_file_count=None, constant_slots=None,
              load_thread_num=None, **common):
    """Files of serialized samples."""
    data = _fill(create_data_config_proto(constant_slots=constant_slots, **common), type=type or 'proto', files=files)
    return _file_group(data, file_group_queue_capacity, load_file_count, load_thread_num)


def MultiData(sub_data=()):
    """Several sources mixed."""
    return Message('DataConfig', type='multi', sub_data_configs=list(sub_data))


def Data(type, files=None, feat_dim=None, slot_dims=None, context_len=None, buffer_capacity=None, **common):
    """A source of any type."""
    return _fill(create_data_config_proto(**common), type=type, files=files, feat_dim=feat_dim,
                 slot_dims=slot_dims or [], context_len=context_len, buffer_capacity=buffer_capacity)


def _take(field, data, for_test, async_load_data):
    config = job().config
    check(not config.HasField(field), 'only one %s is allowed', 'TestData' if for_test else 'TrainData')
    data = data.copy()
    data.for_test = for_test
    if async_load_data is not None:
        data.async_load_data = async_load_data
    setattr(config, field, data)
    job().places[field] = here()


def TrainData(data_config, async_load_data=None):
    """Sets the source of training samples."""
    _take('data_config', data_config, False, async_load_data)


def TestData(data_config, async_load_data=None):
    """Sets the source of test samples."""
    _take('test_data_config', data_config, True, async_load_data)
