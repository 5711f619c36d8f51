"""How descriptions grow: names, defaults, sharing, and what is refused."""

import os
import tempfile
import unittest

from paddle.core.errors import ConfigError
from paddle.core.message import Message
from paddle.trainer.config_parser import parse_config
from paddle.trainer_config_helpers import *
from paddle.trainer_config_helpers.default_decorators import *


def described(function, arguments=''):
    """The record of the network that `function` describes."""
    return parse_config(function, arguments).model_config


def layer(model, name):
    return [each for each in model.layers if each.name == name][0]


def parameter(model, name):
    return [each for each in model.parameters if each.name == name][0]


class NameTest(unittest.TestCase):
    def test_names_count_per_function_and_start_again(self):
        def network():
            x = data_layer('x', 4)
            fc_layer(input=x, size=2)
            embedding_layer(input=x, size=2)
            fc_layer(input=x, size=2)
            mixed_layer(input=full_matrix_projection(x), size=3)

        for _ in range(2):
            names = [each.name for each in described(network).layers]
            self.assertEqual(names, ['x', '__fc_layer_0__', '__embedding_0__', '__fc_layer_1__', '__mixed_0__'])

    def test_users_can_write_layer_functions(self):
        @wrap_name_default('twin')
        @wrap_act_default(act=ReluActivation())
        @wrap_bias_attr_default(has_bias=False)
        @wrap_param_attr_default()
        def twin_layer(input, size, name=None, act=None, bias_attr=None, param_attr=None):
            return fc_layer(input=input, size=size, name=name, act=act, bias_attr=bias_attr or False,
                            param_attr=param_attr)

        def network():
            twin_layer(data_layer('x', 4), 2)
            twin_layer(data_layer('y', 4), 2, 'given', TanhActivation(), True)

        model = described(network)
        self.assertEqual(layer(model, '__twin_0__').active_type, 'relu')
        self.assertFalse(layer(model, '__twin_0__').HasField('bias_parameter_name'))
        self.assertEqual(layer(model, 'given').active_type, 'tanh')
        self.assertEqual(layer(model, 'given').bias_parameter_name, '_given.wbias')

    def test_a_name_is_used_once(self):
        with self.assertRaisesRegex(ConfigError, "'x' is used twice"):
            described(lambda: (data_layer('x', 4), data_layer('x', 4)))

    def test_inputs_are_found_depth_first(self):
        def network():
            late, early = data_layer('late', 4), data_layer('early', 4)
            first = fc_layer(input=[early, early], size=2)
            outputs(mse_cost(input=fc_layer(input=[first, late], size=4), label=data_layer('label', 4)))

        model = described(network)
        self.assertEqual(model.input_layer_names, ['early', 'late', 'label'])
        self.assertEqual(model.output_layer_names, ['__mse_cost_0__'])

    def test_a_deep_network_has_inputs(self):
        def network():
            top = data_layer('x', 4)
            for _ in range(3000):
                top = addto_layer(input=[top, top])
            outputs(top)

        self.assertEqual(described(network).input_layer_names, ['x'])


class ParameterTest(unittest.TestCase):
    def test_initial_values(self):
        def network():
            x = data_layer('x', 16)
            fc_layer(input=x, size=2, name='smart')
            fc_layer(input=x, size=2, name='normal', param_attr=ParamAttr(initial_mean=1, initial_std=0.5))
            fc_layer(input=x, size=2, name='uniform', param_attr=ParamAttr(initial_min=-1, initial_max=3))
            fc_layer(input=x, size=2, name='still', param_attr=ParamAttr(is_static=True, learning_rate=3))

        model = described(network)
        of = lambda name: parameter(model, '_%s.w0' % name)
        start = lambda name: (of(name).initial_strategy, of(name).initial_mean, of(name).initial_std)
        self.assertEqual(start('smart'), (0, 0.0, 0.25))
        self.assertEqual(start('normal'), (0, 1.0, 0.5))
        self.assertEqual(start('uniform'), (1, 1.0, 2.0))
        self.assertEqual((of('still').is_static, of('still').HasField('learning_rate')), (True, False))
        self.assertEqual(parameter(model, '_smart.wbias').initial_std, 0.0)

    def test_sharing_needs_the_same_shape(self):
        def network(size):
            x = data_layer('x', 4)
            fc_layer(input=x, size=2, param_attr=ParamAttr(name='w'))
            fc_layer(input=x, size=size, param_attr=ParamAttr(name='w'))

        names = [each.name for each in described(lambda: network(2)).parameters]
        self.assertEqual(names, ['w', '___fc_layer_0__.wbias', '___fc_layer_1__.wbias'])
        with self.assertRaisesRegex(ConfigError, r"cannot share parameter 'w'.*\[4, 2\].*\[4, 3\]"):
            described(lambda: network(3))

    def test_settings_reach_the_parameters_that_follow(self):
        def network():
            x = data_layer('x', 4)
            fc_layer(input=x, size=2, name='before')
            settings(batch_size=8, learning_method=MomentumOptimizer(0.5), regularization=L2Regularization(0.25),
                     gradient_clipping_threshold=3)
            fc_layer(input=x, size=2, name='after')

        model = described(network)
        before, after = parameter(model, '_before.w0'), parameter(model, '_after.w0')
        self.assertFalse(before.HasField('momentum'))
        self.assertEqual((after.momentum, after.decay_rate, after.gradient_clipping_threshold), (0.5, 0.25, 3.0))

    def test_sparse_update_turns_on_the_sparse_updater(self):
        def network():
            embedding_layer(input=data_layer('x', 4), size=2, param_attr=ParamAttr(sparse_update=True))

        config = parse_config(network)
        self.assertTrue(config.opt_config.use_sparse_remote_updater)
        self.assertTrue(config.model_config.parameters[0].sparse_update)

    def test_one_edge_can_serve_two_layers(self):
        def network():
            from paddle.trainer.config_parser import Input, Layer
            data_layer('x', 4)
            edge = Input('x')
            Layer(name='a', type='fc', size=2, inputs=edge)
            Layer(name='b', type='fc', size=2, inputs=edge)

        names = [each.name for each in described(network).parameters]
        self.assertEqual(names, ['_a.w0', '_a.wbias', '_b.w0', '_b.wbias'])


class RefusalTest(unittest.TestCase):
    def refused(self, pattern, function):
        with self.assertRaisesRegex(Exception, pattern):
            described(function)

    def test_mistakes_are_named(self):
        x = lambda size=4: data_layer('x', size)
        self.refused('must be a layer, not 7', lambda: fc_layer(input=7, size=2))
        self.refused('whole number, not 2.5.*`//`', lambda: fc_layer(input=x(), size=5 / 2))
        self.refused('SoftmaxActivation', lambda: classification_cost(input=fc_layer(input=x(), size=2),
                                                                      label=data_layer('y', 2)))
        self.refused('multiple of 4', lambda: lstmemory(input=x(6)))
        self.refused('how many channels', lambda: img_conv_layer(input=x(), filter_size=1, num_filters=1))
        self.refused('is not an image of 7 pixels', lambda: img_conv_layer(input=x(7), filter_size=1, num_filters=1,
                                                                         num_channels=1))
        self.refused('cannot have drop_rate', lambda: pooling_layer(input=x(), layer_attr=ExtraAttr(drop_rate=0.5)))
        self.refused('would have size 4 by one input and 5', lambda: addto_layer([x(), data_layer('y', 5)]))
        self.refused('outside a recurrent group', lambda: memory(name='x', size=3))
        self.refused('differ in size', lambda: x() + data_layer('y', 5))
        self.refused('needs a sequence', lambda: recurrent_group(step=lambda s: s, input=[StaticInput(x())]))
        self.refused('exactly one GeneratedInput', lambda: beam_search(step=None, input=[StaticInput(x())], bos_id=0,
                                                                       eos_id=1, beam_size=2))
        self.refused('needs a size', lambda: mixed_layer(input=full_matrix_projection(x())))
        self.refused("unknown setting 'speed'", lambda: __import__('paddle.trainer.config_parser', fromlist=['a'])
                     .Settings(speed=3))
        self.refused('initial_min 3 must be less', lambda: ParamAttr(initial_min=3, initial_max=1))
        self.refused('must be an optimizer', lambda: settings(batch_size=3, learning_method='adam'))

    def test_memory_must_remember_a_layer_of_its_size(self):
        def network(size, name):
            def step(x):
                memory(name=name, size=size)
                return fc_layer(input=x, size=4, name='h')
            recurrent_group(step=step, input=data_layer('x', 4))

        self.refused("has size 3, but layer 'h@__recurrent_group_0__' has size 4", lambda: network(3, 'h'))
        self.refused("which the group does not have", lambda: network(4, 'other'))

    def test_a_mixed_layer_is_closed_after_its_block(self):
        def network():
            with mixed_layer(size=2) as mixed:
                mixed += full_matrix_projection(data_layer('x', 4))
            mixed += full_matrix_projection(data_layer('y', 4))

        self.refused('is closed', network)

    def test_an_error_inside_a_mixed_block_is_the_one_reported(self):
        def network():
            with mixed_layer(size=2):
                raise KeyError('mine')

        self.refused('mine', network)


class OldFilesTest(unittest.TestCase):
    def test_arguments_of_release_0_9(self):
        def network():
            settings(batch_size=3, average_window=0.5, max_average_window=100)
            wide = data_layer('wide', 64 * 36)
            pool = img_pool_layer(input=wide, num_channels=1, pool_size=2, stride=2, img_width=64)
            spp_layer(input=pool, num_channels=1, pyramid_height=1, img_width=32)
            chunk_evaluator(input=[wide, pool], chunk_scheme='IOB', num_chunk_types=2)

        config = parse_config(network)
        self.assertEqual((config.opt_config.average_window, config.opt_config.max_average_window), (0.5, 100))
        pool = config.model_config.layers[1]
        self.assertEqual((pool.height, pool.width, pool.size), (18, 32, 576))

    def test_raw_classes_take_arguments_by_position(self):
        def network():
            from paddle.trainer.config_parser import AddToLayer, DataLayer, FCLayer, HierarchicalSigmoidLayer
            DataLayer('x', 4)
            FCLayer('f', 3, ['x'], bias=False)
            AddToLayer('a', ['f', 'f'])
            HierarchicalSigmoidLayer('h', 5, ['a', 'x'])

        model = described(network)
        self.assertEqual([each.size for each in model.layers], [4, 3, 3, 1])
        self.assertEqual(model.layers[3].num_classes, 5)

    def test_modules_of_release_0_9(self):
        from paddle.trainer_config_helpers import math
        from paddle.trainer_config_helpers.config_parser import Settings  # noqa: F401

        model = described(lambda: math.exp(data_layer('x', 3)))
        self.assertEqual(model.layers[1].active_type, 'exponential')

    def test_regression_cost_is_the_squared_error(self):
        model = described(lambda: regression_cost(input=data_layer('x', 3), label=data_layer('y', 3)))
        self.assertEqual((model.layers[2].type, model.layers[2].name), ('square_error', '__mse_cost_0__'))


class ArgumentTest(unittest.TestCase):
    def test_config_arguments(self):
        seen = {}

        def network():
            seen['n'] = get_config_arg('n', int, 3)
            seen['yes'] = get_config_arg('yes', bool, False)
            seen['no'] = get_config_arg('no', bool, True)
            seen['absent'] = get_config_arg('absent', bool, True)
            seen['text'] = get_config_arg('text', str, '')

        parse_config(network, 'n=7,yes=true,no=0,text=a=b')
        self.assertEqual(seen, {'n': 7, 'yes': True, 'no': False, 'absent': True, 'text': 'a=b'})
        with self.assertRaisesRegex(ConfigError, 'not true or false'):
            parse_config(network, 'yes=maybe')

    def test_a_file_can_import_another(self):
        with tempfile.TemporaryDirectory() as place:
            with open(os.path.join(place, 'main.py'), 'w') as out:
                out.write("size = 3\nImport('part.py', {'size': 4})\nInputs('x')\n")
            with open(os.path.join(place, 'part.py'), 'w') as out:
                out.write("Layer(name='x', type='data', size=size)\n")
            config = parse_config(os.path.join(place, 'main.py'))
            self.assertEqual(config.model_config.layers[0].size, 4)
            self.assertEqual(config.config_files, [place + '/part.py'])


class EvaluatorTest(unittest.TestCase):
    def test_pair_evaluator_takes_its_groups(self):
        def network():
            x = data_layer('x', 1)
            pnpair_evaluator(input=x, label=data_layer('y', 1), info=data_layer('q', 1), weight=data_layer('w', 1))

        self.assertEqual(described(network).evaluators[0].input_layers, ['x', 'y', 'q', 'w'])

    def test_several_evaluators_of_one_cost(self):
        def network():
            out = fc_layer(input=data_layer('x', 4), size=2, act=SoftmaxActivation())
            classification_cost(input=out, label=data_layer('y', 2),
                                evaluator=[classification_error_evaluator, auc_evaluator])

        names = [(each.name, each.type) for each in described(network).evaluators]
        self.assertEqual(names, [('classification_error_evaluator', 'classification_error'),
                                 ('auc_evaluator', 'last-column-auc')])


class MessageTest(unittest.TestCase):
    def test_presence_and_defaults(self):
        conf = Message('PoolConfig')
        self.assertEqual((conf.stride, conf.HasField('stride')), (1, False))
        layer = Message('LayerConfig', name='x')
        layer.add('inputs', input_layer_name='y').pool_conf.channels = 3.0
        self.assertEqual(layer.to_json(), '{"name":"x","inputs":[{"input_layer_name":"y","pool_conf":{"channels":3}}]}')

    def test_wrong_values_are_refused(self):
        layer = Message('LayerConfig')
        for field, value in (('size', 'big'), ('size', None), ('coeff', 'x'), ('coeff', float('nan')), ('name', 3)):
            with self.assertRaisesRegex(ConfigError, 'LayerConfig.' + field):
                setattr(layer, field, value)
        with self.assertRaises(AttributeError):
            layer.nothing = 1

    def test_text_is_escaped(self):
        self.assertEqual(Message('LayerConfig', name='a"\n\u20ac').to_json(), '{"name":"a\\"\\n\\u20ac"}')

    def test_a_copy_is_independent(self):
        one = Message('LayerConfig', name='x')
        one.add('inputs', input_layer_name='y')
        two = one.copy()
        two.inputs[0].input_layer_name = 'z'
        self.assertEqual(one.inputs[0].input_layer_name, 'y')


if __name__ == '__main__':
    unittest.main()
