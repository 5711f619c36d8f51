"""Two towers: ids, a title and categories on one side, a person on the other, compared by their angle."""

from paddle.trainer_config_helpers import *

settings(batch_size=1600, learning_rate=1e-3, learning_method=RMSPropOptimizer())


def tower(name, ids, others):
    parts = [fc_layer(input=embedding_layer(input=data_layer('%s_id' % name, ids), size=32), size=32)]
    for each, (size, kind) in sorted(others.iteritems()):
        source = data_layer(each, size)
        if kind == 'text':
            parts.append(text_conv_pool(input=embedding_layer(input=source, size=32), context_len=5, hidden_size=32))
        elif kind == 'dense':
            parts.append(fc_layer(input=fc_layer(input=source, size=32), size=32))
        else:
            parts.append(fc_layer(input=embedding_layer(input=source, size=32), size=32))
    return fc_layer(name='%s_fusion' % name, input=parts, size=32)


movie = tower('movie', 50, {'title': (40, 'text'), 'genres': (18, 'dense')})
user = tower('user', 60, {'gender': (2, 'id'), 'age': (7, 'id')})
similarity = cos_sim(a=movie, b=user, scale=5)
outputs(regression_cost(input=similarity, label=data_layer('rating', size=1)))

define_py_data_sources2('data/train.list', 'data/test.list', module='dataprovider', obj='process', args={'n': 1})
