"""What Python 2 files find."""

import unittest

from paddle.core import evaluate, python2


class Python2Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        evaluate.prepare('.')

    def test_dictionaries(self):
        sizes = {'a': 1}
        self.assertEqual(list(sizes.iteritems()), [('a', 1)])
        self.assertEqual(list(sizes.itervalues()), [1])
        self.assertTrue(sizes.has_key('a'))

    def test_builtins(self):
        names = {}
        exec("found = reduce(lambda a, b: a + b, xrange(3)), unicode(1), isinstance('', basestring), long(2), "
             "cmp(1, 2)", names)
        self.assertEqual(names['found'], (3, '1', True, 2, -1))

    def test_renamed_modules(self):
        import cPickle
        import cStringIO
        self.assertEqual(cPickle.loads(cPickle.dumps({'a': 1}, 0)), {'a': 1})
        self.assertEqual(cStringIO.StringIO('x').read(), 'x')

    def test_pickles_that_python_2_wrote(self):
        import cPickle
        self.assertEqual(cPickle.loads(b"S'caf\\xe9'\np1\n."), 'caf\xe9')
        self.assertEqual(cPickle.loads("S'text'\np1\n."), 'text')

    def test_installing_twice_changes_nothing(self):
        python2.install()
        self.assertEqual(list({'a': 1}.iterkeys()), ['a'])


if __name__ == '__main__':
    unittest.main()
