"""A recurrent layer, or the same as a recurrent group: kind=gru or lstm, form=layer or group."""

from paddle.trainer_config_helpers import *

kind = get_config_arg('kind', str, 'gru')
form = get_config_arg('form', str, 'layer')
size = get_config_arg('size', int, 256)

settings(batch_size=50, learning_rate=0)

sequence = data_layer(name='dense', size=size)
sums = fc_layer(input=sequence, size=size * (3 if kind == 'gru' else 4), act=LinearActivation(), bias_attr=False)
cell = {('gru', 'layer'): grumemory, ('gru', 'group'): gru_group,
        ('lstm', 'layer'): lstmemory, ('lstm', 'group'): lstmemory_group}[kind, form]
states = cell(input=sums, size=size)
outputs(sum_cost(input=last_seq(input=states)))
