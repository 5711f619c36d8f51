import json
import subprocess
import threading

import canoe
import numpy
import pytest

TEXTS = ['the sound is great , i love it', 'broken after a day', 'it is good']
OUTPUT = '__fc_layer_0__'


def by_program(job, *arguments):
    """What `canoe predict` says of the texts."""
    out = subprocess.run([canoe.program(), 'predict', job, '--format', 'jsonl', *arguments], input='\n'.join(TEXTS),
                         stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def test_results_are_those_of_the_program_bit_for_bit(model, trained):
    found = model.predict(TEXTS)
    assert found[OUTPUT].dtype == numpy.float32 and found[OUTPUT].shape == (3, 2)
    scores = [each[OUTPUT]['scores'] for each in by_program(trained[0])]
    assert found[OUTPUT].tobytes() == numpy.array(scores, numpy.float32).tobytes()


def test_labels_have_names(model, trained):
    labelled = by_program(trained[0], '--labels', trained[0] + '/data/labels.list')
    assert model.predict(TEXTS).labels() == [each[OUTPUT]['label'] for each in labelled]


def test_every_form_of_the_same_samples_gives_the_same(model):
    ids = [[4, 9, 7], [1], [2, 2]]
    want = model.predict(ids)[OUTPUT]
    forms = [
        [numpy.array(each) for each in ids],
        [numpy.array(each, numpy.uint16) for each in ids],
        [{'word': each} for each in ids],
        {'word': ids},
        {'word': [numpy.array(each, numpy.int32) for each in ids]},
        [['#4', 9, '#7'], (1,), '#2 #2'],
    ]
    for form in forms:
        assert model.predict(form)[OUTPUT].tobytes() == want.tobytes(), form
    assert model.predict(numpy.array([[4, 9, 7]]))[OUTPUT].tobytes() == want[:1].tobytes()
    many = ids * 100
    one, all_ = (model.predict(many, batch_size=size, threads=count)[OUTPUT] for size, count in ((1, 1), (7, 4)))
    assert one.tobytes() == all_.tobytes() and one[:3].tobytes() == want.tobytes()


def test_no_samples_are_no_rows(model):
    assert len(model.predict([])[OUTPUT]) == 0


@pytest.mark.parametrize('samples, reason', [
    ([{'text': 'a'}], "sample 0: field 'word' is missing"),
    ([{'word': [1]}, [2]], 'sample 1 is no dict'),
    ([[1], [10 ** 9]], "sample 1, field 'word': id 1000000000 is out of range"),
    ([numpy.array([1, -1])], 'out of range'),
    ([[10 ** 30]], 'out of range'),
    ([numpy.array([1.5])], 'not an id'),
    ([[float('nan')]], 'finite'),
    ([[True]], 'not an id'),
    ([[[[[[[[[[[1]]]]]]]]]]], 'nested too deeply'),
])
def test_what_cannot_be_used_is_refused_by_sample_and_field(model, samples, reason):
    with pytest.raises(ValueError, match=reason.replace('[', r'\[')):
        model.predict(samples)


def test_other_types_are_refused(model):
    with pytest.raises(TypeError, match='predict'):
        model.predict('text')
    with pytest.raises(TypeError, match='object'):
        model.predict([object()])


def test_parameters_have_their_names_and_shapes(model, trained):
    parameters = model.parameters
    assert len(parameters) == len(list(parameters)) >= 3
    name = 'embedding_0.weight'
    table = parameters[name]
    assert table.shape == parameters.shapes[name] and table.ndim == 2 and table.dtype == numpy.float32
    assert parameters.v1_name(name) == '___embedding_0__.w0'
    assert parameters['___embedding_0__.w0'].tobytes() == table.tobytes()
    with open(model.directory + '/___embedding_0__.w0', 'rb') as file:
        assert file.read()[16:] == table.tobytes()
    words = parameters.words(name)
    assert len(words) == len(table) and 'great' in words
    assert parameters['fc_layer_0.bias'].shape == (2,)
    with pytest.raises(KeyError):
        parameters['nothing']


def test_inputs_and_outputs_are_described(model):
    assert [(each.name, each.kind, each.level, each.words) for each in model.inputs] == [('word', 'ids', 1, True)]
    assert [(each.name, each.width, each.classes, each.labels) for each in model.outputs] == [
        (OUTPUT, 2, True, ['neg', 'pos'])]
    assert OUTPUT in repr(model)


def test_dense_arrays_and_several_inputs(tmp_path):
    (tmp_path / 'config.py').write_text('''
from paddle.trainer_config_helpers import *
settings(batch_size=4, learning_rate=0.1)
pixels = data_layer('pixels', size=3)
kind = data_layer('kind', size=5)
both = fc_layer([pixels, embedding_layer(kind, size=2)], size=2, act=TanhActivation(), name='both')
outputs(classification_cost(fc_layer(both, size=2, act=SoftmaxActivation(), name='out'), data_layer('label', size=2)))
define_py_data_sources2('list', None, module='own', obj='process')
''')
    (tmp_path / 'own.py').write_text('''
from paddle.trainer.PyDataProvider2 import *
@provider(input_types={'pixels': dense_vector(3), 'kind': integer_value(5), 'label': integer_value(2)})
def process(settings, name):
    for i in range(8):
        yield {'pixels': [i / 8., 1., 0.], 'kind': i % 5, 'label': i % 2}
''')
    (tmp_path / 'list').write_text('one\n')
    canoe.train('config.py', save_dir=tmp_path / 'saved', passes=1, directory=tmp_path).wait()
    model = canoe.load(tmp_path / 'saved', job=tmp_path, outputs=['both', 'out'])
    pixels = numpy.arange(12.).reshape(4, 3)
    found = model.predict({'pixels': pixels, 'kind': numpy.array([0, 1, 4, 2])})
    assert list(found) == ['both', 'out'] and found['both'].shape == (4, 2)
    listed = model.predict([{'pixels': row.tolist(), 'kind': kind} for row, kind in zip(pixels, [0, 1, 4, 2])])
    assert listed['both'].tobytes() == found['both'].tobytes()
    with pytest.raises(ValueError, match='several outputs'):
        found.labels()
    for wrong, reason in [
        ({'pixels': pixels[:, :2], 'kind': [0] * 4}, 'pixels'),
        ({'pixels': pixels + float('inf'), 'kind': [0] * 4}, 'finite'),
        ({'pixels': pixels, 'kind': [0]}, 'different numbers of samples'),
    ]:
        with pytest.raises(ValueError, match=reason):
            model.predict(wrong)


def test_threads_use_one_model_and_the_lock_is_free_meanwhile(model):
    want = model.predict(TEXTS * 50)[OUTPUT].tobytes()
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.predict(TEXTS * 50)[OUTPUT].tobytes()))
               for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [want] * 4


def test_what_is_no_model_is_refused_with_the_reason(tmp_path, trained):
    with pytest.raises(canoe.Error, match='has no model'):
        canoe.load(tmp_path)
    (tmp_path / 'pass-00000').mkdir()
    with pytest.raises(canoe.Error, match='done'):
        canoe.load(tmp_path / 'pass-00000')
    with pytest.raises(canoe.Error, match='nothing'):
        canoe.load(trained[0], outputs=['nothing'])
    with pytest.raises(ValueError, match='unknown'):
        canoe.load(trained[0], unknown='what')
