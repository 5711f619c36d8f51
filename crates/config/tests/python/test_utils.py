"""v1's tools. Those for images need NumPy and Pillow, and are tested where these are."""

import os
import pickle
import tempfile
import unittest

from paddle.utils import dump_config, make_model_diagram, needed, plotcurve, preprocess_util

try:
    import numpy as np
    from PIL import Image
except ImportError:
    np = None

CONFIG = '''
from paddle.trainer_config_helpers import *
settings(batch_size=4, learning_rate=0.1)
word = data_layer(name='word', size=6)
def step(x):
    state = memory(name='state', size=3)
    return fc_layer(input=[x, state], size=3, name='state', bias_attr=False)
group = recurrent_group(step=step, input=word, name='group')
outputs(last_seq(input=group))
'''


def config_file():
    path = os.path.join(tempfile.mkdtemp(), 'config.py')
    with open(path, 'w') as out:
        out.write(CONFIG)
    return path


class ToolTest(unittest.TestCase):
    def test_a_diagram_is_written(self):
        path = config_file()
        make_model_diagram.make_diagram(path, path + '.dot', '')
        with open(path + '.dot') as found:
            text = found.read()
        self.assertTrue(text.startswith('digraph graphname {\n') and text.endswith('}\n'), text)
        self.assertIn('subgraph cluster_0 {', text)
        self.assertIn('[style=dashed];', text)
        self.assertIn('[label="_state@group.w0"];', text)

    def test_a_configuration_as_text(self):
        import contextlib
        import io
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            dump_config.main([config_file()])
        self.assertTrue(out.getvalue().startswith('type: "recurrent_nn"\nlayers {\n  name: "word"\n  type: "data"\n'
                                                  '  size: 6\n'), out.getvalue())
        with contextlib.redirect_stdout(out):
            dump_config.main([config_file(), '', '--whole'])
        self.assertIn('opt_config {\n  batch_size: 4\n', out.getvalue())

    def test_curves_of_a_log(self):
        log = ['I1 Trainer.cpp:1]  Pass=0 Batch=7 AvgCost=0.62 Eval: error=0.26\n', 'noise\n',
               'I1 Tester.cpp:1]  Test samples=5 AvgCost=0.7 Eval: error=1e-05\n']
        self.assertEqual(plotcurve.curves(['AvgCost', 'error'], log), ([[0, 0.62, 0.26]], [[5, 0.7, 1e-05]]))

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(ImportError, 'pip install pillow'):
            needed.needed('no_such_module', 'pillow')


class BatchTest(unittest.TestCase):
    def dataset(self, labels):
        samples = [(preprocess_util.Label(number, 'x'), preprocess_util.Label(label, 'y'))
                   for number, label in enumerate(labels)]
        return preprocess_util.Dataset(samples, ['images', 'labels'])

    def test_every_batch_has_its_share_of_labels(self):
        data = self.dataset([0] * 8 + [1] * 4)
        data.permute(1, 6)
        labels = [sample[1].label for sample in data.data]
        self.assertEqual((labels[:6], sorted(sample[0].label for sample in data.data)), ([0, 0, 0, 1, 1, 1], list(range(12))))
        with self.assertRaisesRegex(ValueError, 'too small'):
            data.permute(1, 2)

    def test_batches_and_lists(self):
        folder = tempfile.mkdtemp()
        batcher = preprocess_util.DataBatcher(self.dataset([0, 1, 1]), self.dataset([1]), {'a': 0, 'b': 1})
        batcher.num_per_batch = 2
        batcher.create_batches_and_list(folder, 'train.list', 'test.list', 'labels.pkl')
        with open(os.path.join(folder, 'train.list')) as found:
            names = found.read().split('\n')
        self.assertEqual([os.path.basename(each) for each in names], ['train_batch_000', 'train_batch_001'])
        with open(names[0], 'rb') as found:
            self.assertEqual(pickle.load(found), {'images': [0, 1], 'labels': [0, 1]})


@unittest.skipIf(np is None, 'numpy or pillow is not installed')
class ImageTest(unittest.TestCase):
    def test_crops(self):
        from paddle.utils import image_util
        image = np.arange(3 * 6 * 5).reshape(3, 6, 5)
        self.assertEqual(image_util.crop_img(image, 4).tolist(), image[:, 1:5, 0:4].tolist())
        padded = image_util.crop_img(image, 8)
        self.assertEqual((padded.shape, padded[:, 1:7, 1:6].tolist()), ((3, 8, 8), image.tolist()))
        self.assertEqual(image_util.flip(image)[0, 0].tolist(), [4, 3, 2, 1, 0])
        many = image_util.oversample(np.arange(5 * 6 * 3).reshape(1, 5, 6, 3), (3, 4))
        self.assertEqual((many.shape, many[4].tolist()), ((10, 3, 4, 3), many[9][:, ::-1].tolist()))

    def test_batches_of_a_folder(self):
        from paddle.utils import image_util
        from paddle.utils.preprocess_img import ImageClassificationDatasetCreater
        folder = tempfile.mkdtemp()
        for part in ('train', 'test'):
            for name in ('cat', 'dog'):
                os.makedirs(os.path.join(folder, part, name))
                Image.new('RGB', (40, 32), (10, 20, 30)).save(os.path.join(folder, part, name, '1.png'))
        ImageClassificationDatasetCreater(folder, 32).create_batches()
        with open(os.path.join(folder, 'batches', 'train_batch_000'), 'rb') as found:
            batch = pickle.load(found)
        self.assertEqual(sorted(batch['labels']), [0, 1])
        self.assertEqual(image_util.decode_jpeg(batch['images'][0]).shape, (3, 32, 40))
        mean = image_util.load_meta(os.path.join(folder, 'batches', 'batches.meta'), 32, 28)
        self.assertEqual(mean.shape, (3, 28, 28))
        self.assertTrue(abs(mean[2] - 30).max() < 4)


if __name__ == '__main__':
    unittest.main()
