"""The worker that runs data providers: what it takes for the end of a file, and what for an error."""

import os
import shutil
import sys
import tempfile
import unittest

from paddle import python2
from paddle.trainer import provider_worker


class SamplesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.before = os.getcwd(), list(sys.path)
        os.chdir(self.folder)
        sys.path.insert(0, self.folder)
        python2.install()

    def tearDown(self):
        os.chdir(self.before[0])
        sys.path[:] = self.before[1]
        sys.modules.pop('provided', None)

    def loaded(self, text):
        """The settings of the provider `process` in a file of this text."""
        with open('provided.py', 'w') as out:
            out.write(text)
        return provider_worker.load({'module': 'provided', 'object': 'process', 'args': '', 'is_train': True,
                                     'input_order': ['x'], 'files': ['lines']})

    def read(self, text):
        """The samples of the file `lines`."""
        samples = provider_worker.Samples(self.loaded(text), 0, 'lines')
        return samples.block(1000)

    PAIRS = """
from paddle.trainer.PyDataProvider2 import *

def pairs(name):
    f = open(name)
    while True:
        yield %s, %s

@provider(input_types=[dense_vector(1)])
def process(settings, name):
    for first, second in pairs(name):
        yield [float(first)]
    for number in range(100):
        yield [float(number)]
"""

    def test_samples_after_a_generator_that_ends_by_stop_iteration_are_there(self):
        with open('lines', 'w') as out:
            out.write('1\n' * 300)
        block, ended = self.read(self.PAIRS % (('f.next()',) * 2))
        self.assertEqual((len(block), ended), (250, True))

    def test_stop_iteration_in_a_generator_of_python_3_is_an_error(self):
        with open('lines', 'w') as out:
            out.write('1\n' * 300)
        with self.assertRaises(provider_worker.Refused) as refused:
            self.read('# python: 3' + self.PAIRS % (('next(f)',) * 2))
        self.assertEqual((refused.exception.what['kind'], refused.exception.what['sample']), ('provider', 151))
        self.assertIn('generator raised StopIteration', refused.exception.what['message'])

    def test_a_function_without_the_decorator_is_named(self):
        with self.assertRaises(provider_worker.Refused) as refused:
            self.loaded('def process(settings, name):\n    yield [1]\n')
        self.assertIn('process is a function without @provider', refused.exception.what['message'])

    def test_a_function_that_makes_settings_itself_is_a_provider(self):
        text = self.PAIRS % ('1', '1') + 'made = process\ndef process(**options):\n    return made(**options)\n'
        self.assertEqual(len(self.loaded(text).slots), 1)

    def test_a_provider_that_yields_nothing_is_named(self):
        text = self.PAIRS % ('1', '1') + '@provider(input_types=[dense_vector(1)])\ndef process(settings, name):\n    [1]\n'
        with self.assertRaises(provider_worker.Refused) as refused:
            self.read(text)
        self.assertIn('process returned None: a data provider yields', refused.exception.what['message'])


if __name__ == '__main__':
    unittest.main()
