"""Python 2 files keep their meaning: one test per construct."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

from paddle import python2
from paddle.python2.judge import THREE, TWO, UNMARKED
from paddle.python2.arithmetic import UndecidedDivision
from paddle.python2.text import default

try:
    import numpy
except ImportError:
    numpy = None

HEAD = '# python: 2\n'


class Folder(unittest.TestCase):
    """Runs files in a directory of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.before = os.getcwd(), list(sys.path), set(sys.modules)
        os.chdir(self.folder)
        sys.path.insert(0, self.folder)
        python2.install()

    def tearDown(self):
        default['encoding'] = 'ascii'
        os.chdir(self.before[0])
        sys.path[:] = self.before[1]
        for name in set(sys.modules) - self.before[2]:
            if getattr(sys.modules[name], '__file__', None) and self.folder in str(sys.modules[name].__file__):
                del sys.modules[name]

    def write(self, name, text):
        with open(name, 'wb') as out:
            out.write(text if isinstance(text, bytes) else text.encode('utf-8'))

    def run_text(self, text, name='user.py'):
        """The names that a file leaves."""
        self.write(name, text)
        names = {'__name__': 'user'}
        python2.run_path(os.path.join(self.folder, name), names)
        return names

    def printed(self, text):
        """What a file prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.run_text(text)
        return out.getvalue()

    def value(self, expression, before=''):
        """The value of a Python 2 expression."""
        return self.run_text('%s%s\nfound = (%s)\n' % (HEAD, before, expression))['found']

    def language(self, text):
        self.run_text(text)
        return python2.verdicts[os.path.join(self.folder, 'user.py')].language


class LanguageTest(Folder):
    def test_a_comment_decides(self):
        self.assertEqual(self.language('# python: 3\nx = 1\n'), THREE)
        self.assertEqual(self.language('#!/bin/sh\n# python: 2\nx = 1\n'), TWO)
        self.assertEqual(self.language('#!/usr/bin/env python3\nx = 1\n'), THREE)
        self.assertEqual(self.language('#!/usr/bin/python2.7\nx = 1\n'), TWO)

    def test_what_python_3_cannot_parse_is_python_2(self):
        self.assertEqual(self.language("if 0: print 'x'\n"), TWO)

    def test_what_only_python_3_has(self):
        for text in ("x = f'{1}'", "print('a', end='')", 'def f(a, *, b): pass', 'def f(a: int): pass', 'a, *b = 1, 2',
                     'import queue', 'from urllib.request import urlopen', "open('user.py', encoding='utf-8').close()",
                     'class A(metaclass=type): pass', 'def f():\n    yield from ()'):
            self.assertEqual(self.language(text + '\n'), THREE, text)

    def test_what_only_python_2_has(self):
        for text in ('xrange(3)', 'import cPickle', '{}.iteritems()', '{}.has_key(1)', 'import sys; sys.maxint',
                     'print', 'print >>None, 1', 'print (1), 2', "print ('%d') % 1", 'map(str, [1])[0]', '{1: 2}.keys()[0]', 'iter([1]).next()'):
            self.assertEqual(self.language(text + '\n'), TWO, text)

    def test_files_for_both_are_unmarked(self):
        for text in ('x = 1', 'try:\n    import cPickle as pickle\nexcept ImportError:\n    import pickle',
                     'try:\n    unicode\nexcept NameError:\n    unicode = str', 'file = 3\nx = file'):
            self.assertEqual(self.language(text + '\n'), UNMARKED, text)

    def test_imported_neighbours_are_judged_each_by_itself(self):
        self.write('old.py', 'half = 7 / 2\nxrange\n')
        self.write('new.py', '# python: 3\nhalf = 7 / 2\n')
        self.assertEqual(self.run_text('import old, new\nfound = old.half, new.half\n')['found'], (3, 3.5))

    def test_libraries_keep_their_own_builtins(self):
        self.run_text(HEAD + 'import json\n')
        self.assertNotIsInstance(map(str, [1]), list)
        self.assertFalse(hasattr(__builtins__ if not isinstance(__builtins__, dict) else object, 'xrange'))

    def test_nothing_is_left_beside_the_files(self):
        self.write('old.py', 'xrange\n')
        self.run_text('import old\n')
        self.assertEqual(sorted(os.listdir('.')), ['old.py', 'user.py'])


class StopIterationTest(Folder):
    """Python 2 ends a generator in which StopIteration is raised; PEP 479 makes it an error."""

    def test_a_generator_ends_at_the_end_of_what_it_reads(self):
        self.write('lines', '1\n2\n3\n4\n5\n')
        text = ('def pairs(name):\n    """Two lines at a time."""\n    f = open(name)\n    while True:\n'
                '        yield f.next(), f.next()\n'
                'found = list(pairs("lines"))\ndoc = pairs.__doc__\n')
        names = self.run_text(text)
        self.assertEqual(names['found'], [('1\n', '2\n'), ('3\n', '4\n')])
        self.assertEqual(names['doc'], 'Two lines at a time.')

    def test_a_generator_that_ends_so_inside_another_ends_only_itself(self):
        before = ('def inner():\n    yield 1\n    raise StopIteration\n'
                  'def outer():\n    for x in inner(): yield x\n    yield 2\n')
        self.assertEqual(self.value('list(outer())', before), [1, 2])

    def test_unmarked_files_too(self):
        self.assertEqual(self.run_text('def f():\n    yield 1\n    raise StopIteration()\nx = list(f())\n')['x'], [1])

    def test_generator_expressions(self):
        self.assertEqual(self.value('list(a.next() for _ in xrange(5))', 'a = iter([1, 2])'), [1, 2])
        self.assertEqual(self.value('list(x for x in xrange(5) for _ in [a.next()])', 'a = iter([1, 2])'), [0, 1])

    def test_an_error_of_a_library_in_a_generator_expression_stays_one(self):
        self.write('new.py', '# python: 3\ndef broken():\n    yield 1\n    raise StopIteration\n')
        with self.assertRaisesRegex(RuntimeError, 'generator raised StopIteration'):
            self.value('list(next(a) for _ in xrange(5))', 'import new\na = new.broken()')

    def test_map_and_filter_do_not_swallow_it(self):
        for name in ('map', 'filter'):
            with self.assertRaises(StopIteration):
                self.value('%s(lambda _: a.next(), range(5))' % name, 'a = iter([1, 2])')

    def test_through_a_context_manager(self):
        before = ('import contextlib\n@contextlib.contextmanager\ndef around():\n    yield\n'
                  'def f():\n    with around():\n        yield 1\n        raise StopIteration\n    yield 2\n')
        self.assertEqual(self.value('list(f())', before), [1])

    def test_what_a_generator_returns_sends_and_catches(self):
        before = ('def f():\n    try:\n        while True:\n            got = yield 1\n            if got: return\n'
                  '    finally:\n        told.append(got)\n'
                  'told = []\ng = f()\ng.next()\ntry:\n    g.send(3)\nexcept StopIteration:\n    told.append("end")\n')
        self.assertEqual(self.value('told', before), [3, 'end'])


class HashTest(Folder):
    """The values are those of Python 2.7.18 on a machine of 64 bits."""

    def test_text(self):
        self.assertEqual(self.value(r"map(hash, ['', 'a', 'hello', '\xff\x80', '\xe9', u'\xe9', u'\u4e2d\u6587', u'\U0001F600'])"),
                         [0, 12416037344, 840651671246116861, 32640195839293887, 29824089448, 29824089448,
                          2561679356228037570, 16449585346049])

    def test_numbers(self):
        self.assertEqual(self.value('map(hash, [-1, 0, 10L, True, 2**63, -2**63, 2**64 - 1, 2**70, -2**70, 12345678901234567890123])'),
                         [-2, 0, 10, 1, -1 << 63, -1 << 63, -2, 64, -64, 4807115922877859688])
        self.assertEqual(self.value("map(hash, [1.5, -2.75, 0.1, 3.0, 1e300, float('inf'), float('nan')])"),
                         [1610645504, -1476329472, 2576882278, 3, 8474648701417850880, 314159, 0])

    def test_tuples(self):
        self.assertEqual(self.value("map(hash, [(), (1, 'a'), ('x', ('y', 2.5))])"),
                         [3527539, 3703129313087942906, 5831751622358380627])

    def test_what_has_its_own(self):
        before = 'class A(str):\n    def __hash__(self): return 7\n'
        self.assertEqual(self.value("(hash(A('a')), hash(frozenset()) == hash(frozenset()))", before), (7, True))

    def test_unmarked_files_too(self):
        self.assertEqual(self.run_text("found = hash('a')\n")['found'], 12416037344)


class ChecksumTest(Folder):
    def test_they_have_a_sign(self):
        self.assertEqual(self.value("(zlib.crc32('hello'), zlib.crc32('b', zlib.crc32('a')), binascii.crc32('abc'))", 'import zlib, binascii'),
                         (907060870, -1635563411, 891568578))
        self.assertEqual(self.value("(zlib.adler32('hello' * 1000), zlib.crc32('', -5), zlib.adler32('a', -7))", 'import zlib'),
                         (-1499324775, -5, 7798889))


class SilentTest(Folder):
    """What Python 3 continues with another value; the expected ones were printed by Python 2.7.18."""

    def test_compiled_text_is_python_2(self):
        self.assertEqual(self.value("eval(compile('7/2', 'x', 'eval'))"), 3)
        with self.assertRaises(UndecidedDivision):
            self.run_text("eval(compile('7/2', 'x', 'eval'))\n")

    def test_ends_of_lines_and_blanks_are_those_of_bytes(self):
        self.assertEqual(self.value(r"'a\x0bb\x0cc\x1cd\x1de\x1ef\ng\rh\r\ni'.splitlines()"),
                         ['a\x0bb\x0cc\x1cd\x1de\x1ef', 'g', 'h', 'i'])
        self.assertEqual(self.value(r"('a\x1cb\x1fc d'.split(), '\x1c a\x1f'.strip(), '\x1c'.isspace(), ' \x0b'.isspace())"),
                         (['a\x1cb\x1fc', 'd'], '\x1c a\x1f', False, True))

    def test_empty_matches(self):
        before = 'import re\nx = re.compile("x*")\n'
        self.assertEqual(self.value(r"(re.split('x*', 'axbc'), x.split('axbc'), re.split('\s*', 'ab  c d', 1))", before),
                         (['a', 'bc'], ['a', 'bc'], ['ab', 'c d']))
        self.assertEqual(self.value(r"(re.sub('x*', '-', 'axbxxc'), x.sub('-', 'axbxxc'), re.compile(r'\b').sub('|', 'ab cd'))", before),
                         ('-a-b-c-', '-a-b-c-', '|ab| |cd|'))
        self.assertEqual(self.value(r"(re.subn('(x)*', '<.>', 'yx'), re.sub('x*', lambda m: '[%s]' % m.group(), 'xay', 2))", before),
                         (('<.>y<.>', 2), '[x]a[]y'))

    def test_a_plain_literal_has_no_characters_by_number(self):
        self.assertEqual(self.value(r"(len('\u4e2d'), len('\N{DASH}'), len('\U0001F600'), '\\u', u'\u4e2d', '\x41')"),
                         (6, 8, 10, '\\u', '\u4e2d', 'A'))
        self.assertEqual(self.value(r"""json.loads('{"a": "\u00e9"}')""", 'import json'), {'a': 'é'})

    def test_round_looks_at_all_digits(self):
        self.assertEqual(self.value('(round(2.675, 2), round(0.285, 2), round(0.5), round(-2.5), round(1234.5, -2), round(1e22, 2), round(1e308, 400))'),
                         (2.67, 0.28, 1.0, -3.0, 1200.0, 1e22, 1e308))

    def test_objects_say_what_their_characters_are(self):
        before = 'class A(object):\n    def __unicode__(self): return u"uni"\n    def __str__(self): return "str"\n'
        self.assertEqual(self.value('unicode(A())', before), 'uni')

    def test_slices(self):
        before = ('class A(list):\n    def __getslice__(self, i, j): return (i, j)\n    def __setslice__(self, i, j, v): told.append((i, j, v))\n'
                  'told = []\na = A([1, 2, 3])\na[1:] = "x"\n')
        self.assertEqual(self.value('(a[1:2], a[:-1], a[:][0], a[0], a[::2], told)', before),
                         ((1, 2), (0, 2), 0, 1, [1, 3], [(1, sys.maxsize, 'x')]))


class NamesOfBeforeTest(Folder):
    """Legal Python 2 that ended in an error."""

    def test_a_list_comprehension_in_a_class_sees_the_class(self):
        before = 'class A(object):\n    y = [1, 2]\n    x = [j for j in (1, 3) if j in y]\n    z = [i for y in y for i in (y, 7)]\n'
        self.assertEqual(self.value('(A.x, A.z)', before), ([1], [1, 7, 2, 7]))

    def test_a_caught_exception_has_positions(self):
        before = 'try: raise ValueError("a", 3)\nexcept ValueError, e: x = e[0], e[1]\n'
        self.assertEqual(self.value('x', before), ('a', 3))

    def test_what_is_being_handled(self):
        before = 'import sys\ntry: raise KeyError("x")\nexcept KeyError: x = sys.exc_type, sys.exc_value.args\n'
        self.assertEqual(self.value('x', before), (KeyError, ('x',)))

    def test_bytes_that_can_be_changed_and_parts_of_them(self):
        self.assertEqual(self.value("(bytearray('ab')[0], str(bytearray('ab')), isinstance(bytearray(2), bytearray), str(buffer('abc', 1)))"),
                         (97, 'ab', True, 'bc'))

    def test_temporary_files(self):
        before = 'import tempfile\nf = tempfile.NamedTemporaryFile()\nf.write("ab\\xff\\nc")\nprint >>f, 1\nf.flush()\nf.seek(0)\n'
        self.assertEqual(self.value('[line for line in f] + [f.close()]', before), ['ab\xff\n', 'c1\n', None])

    def test_flags_of_patterns(self):
        self.assertEqual(self.value(r"(re.findall('(?u)\w', 'ab'), re.findall('\w', 'ab', re.L), re.compile('b', re.L | re.I).findall('aB'))", 'import re'),
                         (['a', 'b'], ['a', 'b'], ['B']))

    def test_a_method_of_a_class_and_shifted_letters(self):
        before = 'class A(object):\n    def f(self): return 3\n'
        self.assertEqual(self.value("(A.f.im_func(1), A.f.im_self, 'x'.encode('rot13'), 'k'.decode('rot13'))", before),
                         (3, None, 'k', 'x'))


class DivisionTest(Folder):
    def test_integers_are_rounded_down(self):
        self.assertEqual(self.value('(7 / 2, -7 / 2, True / 2, 7 / 2.0, 7.0 / 2)'), (3, -4, 0, 3.5, 3.5))

    def test_in_place(self):
        before = 'class A: pass\na = A(); a.x = 7; a.x /= 2\nlist = [7]; list[0] /= 2\nf = 7; f /= 2.0'
        self.assertEqual(self.value('(a.x, list[0], f)', before), (3, 3, 3.5))

    def test_future_division(self):
        self.assertEqual(self.run_text('from __future__ import division\nxrange\nx = 7 / 2\n')['x'], 3.5)

    def test_an_unmarked_file_says_so_instead_of_choosing(self):
        with self.assertRaisesRegex(UndecidedDivision, '7 / 2 is rounded down.*# python: 2'):
            self.run_text('x = 7 / 2\n')
        with self.assertRaises(UndecidedDivision):
            self.run_text('x = 7\nx /= 2\n')

    def test_an_unmarked_file_may_divide_where_both_agree(self):
        names = self.run_text('x = 8 / 2, 7 / 2.0, int(7 / 2)\n')
        self.assertEqual(names['x'], (4, 3.5, 3))
        self.assertIsInstance(names['x'][0], int)

    def test_python_3_keeps_its_own(self):
        self.assertEqual(self.run_text('# python: 3\nx = 7 / 2\n')['x'], 3.5)

    @unittest.skipIf(numpy is None, 'numpy is not installed')
    def test_arrays_of_integers(self):
        before = ('import numpy as np\na = np.array([7, 8])\nb = a / 2\nc = a.copy(); d = c; c /= 2\n'
                  'e = a / 2.0\nf = np.array([1.0, 2.0]); g = f; f /= 2\nh = np.int64(7); h /= 2')
        names = self.run_text(HEAD + before + '\n')
        self.assertEqual([names[each].tolist() for each in 'bdeg'], [[3, 4], [3, 4], [3.5, 4.0], [0.5, 1.0]])
        self.assertEqual(names['h'], 3)
        with self.assertRaises(UndecidedDivision):
            self.run_text('import numpy as np\nx = np.array([7, 8]) / 2\n')

    def test_floor_and_ceil_are_floats(self):
        self.assertEqual(self.value('(math.floor(5.5) / 2, math.ceil(4.5) / 2, floor(3) / 2)',
                                    'import math\nfrom math import floor'), (2.5, 2.5, 1.5))
        self.assertEqual(self.run_text('import math\nfound = [7, 8][math.floor(1.5)]\n')['found'], 8)

    def test_old_division_methods(self):
        before = 'class A(object):\n    def __div__(self, other): return "div"\n    def __rdiv__(self, other): return "rdiv"'
        self.assertEqual(self.value('(A() / 2, 2 / A())', before), ('div', 'rdiv'))


class SyntaxTest(Folder):
    def test_print(self):
        text = ("import sys\nprint 'a', 1, (2, 3)\nprint\nprint 'x',\nprint 'y'\nprint ('a', 'b')\nprint ('%d') % 3, 4\n"
                "print >>sys.stdout, 'to'\nif 1: print 'one'; print 'two'\nprint 'long', \\\n    'line'\n")
        self.assertEqual(self.printed(text), "a 1 (2, 3)\n\nx y\n('a', 'b')\n3 4\nto\none\ntwo\nlong line\n")

    def test_print_to_a_file(self):
        self.run_text("f = open('out', 'w')\nprint >>f, 'a', 1\nprint >>f, 'b',\nf.close()\n")
        with open('out') as found:
            self.assertEqual(found.read(), 'a 1\nb')

    def test_print_function(self):
        self.assertEqual(self.printed("from __future__ import print_function\nxrange\nprint('a', 'b')\n"), 'a b\n')

    def test_except_and_raise(self):
        text = ("try:\n    raise ValueError, 'bad'\nexcept (ValueError, TypeError), e:\n    found = str(e), e.message\n"
                "try:\n    raise KeyError, ('a', 'b')\nexcept KeyError, e:\n    more = e.args\n")
        names = self.run_text(text)
        self.assertEqual((names['found'], names['more']), (('bad', 'bad'), ('a', 'b')))

    def test_except_with_several_names(self):
        text = ("try:\n    open('no/such/file')\nexcept (IOError, OSError), (number, (why)):\n    found = number, why\n"
                "try:\n    raise ValueError, (1, 2)\nexcept ValueError, (a, b): more = a + b\n")
        names = self.run_text(text)
        self.assertEqual((names['found'], names['more']), ((2, 'No such file or directory'), 3))

    def test_old_names_of_parts_of_functions(self):
        before = ('def f(a, b=2): "doc"\nclass A(object):\n    func_name = "own"\n    def m(self): pass')
        self.assertEqual(self.value('(f.func_name, f.func_defaults, f.func_doc, f.func_code.co_argcount, A.func_name, '
                                    'A().m.im_func.func_name, A().m.im_self.__class__ is A)', before),
                         ('f', (2,), 'doc', 2, 'own', 'm', True))

    def test_literals(self):
        self.assertEqual(self.value("(`1 + 1`, 0777, 10L, 0xFFL, 1 <> 2, ur'\\d', b'x', 00)"),
                         ('2', 511, 10, 255, True, '\\d', 'x', 0))

    def test_exec(self):
        names = self.run_text("exec 'a = 7 / 2'\nscope = {}\nexec 'b = 9 / 2' in scope\nc = eval('5 / 2')\n")
        self.assertEqual((names['a'], names['scope']['b'], names['c']), (3, 4, 2))

    def test_execfile(self):
        self.write('part.py', "print 'part'\npart = 7 / 2\n")
        self.assertEqual(self.run_text("xrange\nexecfile('part.py')\n")['part'], 3)

    def test_tuple_parameters(self):
        text = ('def f(a, (b, (c, d)), e=1):\n    "doc"\n    if a: return a + b * c - d\n'
                'found = f(1, (2, (3, 4))), (lambda (x, y), z: x * y + z)((2, 3), 4), f.__doc__\n')
        self.assertEqual(self.run_text(text)['found'], (3, 10, 'doc'))

    def test_tabs_are_eight_columns(self):
        self.assertEqual(self.run_text('xrange\nif 1:\n\tx = 1\n        y = 2\n')['y'], 2)

    def test_metaclass_and_special_methods(self):
        before = ('class Meta(type): pass\nclass A(object):\n    __metaclass__ = Meta\n'
                  '    def __nonzero__(self): return False\n    def __iter__(self): return self\n'
                  '    def next(self): raise StopIteration\n    def __cmp__(self, other): return -1\n'
                  '    def __eq__(self, other): return True')
        found = self.value('(type(A).__name__, bool(A()), list(A()), A() < A(), hash(A()) != 0)', before)
        self.assertEqual(found, ('Meta', False, [], True, True))

    def test_implicit_relative_imports(self):
        os.mkdir('package')
        self.write('package/__init__.py', 'from inner import value\n')
        self.write('package/inner.py', 'value = 5\n')
        self.assertEqual(self.run_text(HEAD + 'import package\nx = package.value\n')['x'], 5)

    def test_lines_keep_their_numbers(self):
        line, trace = 0, None
        try:
            self.run_text("print '''a\nb'''\ndef f((a,\n    b)):\n    return a\n\n1 / 0\n")
        except ZeroDivisionError as error:
            trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename.endswith('user.py'):
                line = trace.tb_lineno
            trace = trace.tb_next
        self.assertEqual(line, 7)

    def test_what_no_python_can_read_is_shown_as_it_stands(self):
        with self.assertRaises(SyntaxError) as caught:
            self.run_text("print 'a'\nx = = 1\n")
        self.assertEqual((caught.exception.lineno, caught.exception.text.strip()), (2, 'x = = 1'))


class ListTest(Folder):
    def test_functions_give_lists(self):
        self.assertEqual(self.value("(map(int, '12'), filter(None, [0, 1]), zip([1], [2]), range(2), filter(None, 'ab'))"),
                         ([1, 2], [1], [(1, 2)], [0, 1], 'ab'))
        self.assertEqual(self.value('map(None, [1, 2], [3])'), [(1, 3), (2, None)])

    def test_dictionaries(self):
        before = "d = {'a': 1}"
        self.assertEqual(self.value("(d.keys(), d.values(), d.items(), d.has_key('a'))", before),
                         (['a'], [1], [('a', 1)], True))
        self.assertEqual(self.value('(list(d.iteritems()), list(d.iterkeys()), list(d.itervalues()))', before),
                         ([('a', 1)], ['a'], [1]))

    def test_own_methods_of_these_names_are_left_alone(self):
        before = ('class A(object):\n    def keys(self, n, more=0): return n + more\n    def read(self, a, b=0): return a + b\n'
                  '    def write(self, a, b): return a * b\n    def decode(self, ids, beam=1): return ids * beam\n'
                  '    def next(self, n): return n\n    def sort(self, a): return a')
        self.assertEqual(self.value('(A().keys(1, more=2), A().read(1, b=2), A().write(3, 4), A().decode(5, beam=2), '
                                    'A().next(3), A().sort(4))', before), (3, 3, 12, 10, 3, 4))

    def test_sorting_by_comparison(self):
        before = 'a = [1, 3, 2]\na.sort(lambda x, y: cmp(y, x))'
        self.assertEqual(self.value('(a, sorted([1, 2], cmp=lambda x, y: y - x), sorted([2, 1]))', before),
                         ([3, 2, 1], [2, 1], [1, 2]))

    def test_iterators_have_next(self):
        self.assertEqual(self.value('(iter([5]).next(), (x for x in [6]).next())'), (5, 6))

    def test_names(self):
        self.assertEqual(self.value("(reduce(lambda a, b: a + b, xrange(4)), unicode(1), isinstance('', basestring), "
                                    "long(2), cmp(1, 2), unichr(97), round(2.5), round(-2.5), apply(max, (1, 2)))"),
                         (6, '1', True, 2, -1, 'a', 3.0, -3.0, 2))

    def test_library_names(self):
        before = 'import sys, string, itertools'
        self.assertEqual(self.value("(sys.maxint, string.letters[:2], string.join(['a', 'b']), "
                                    "list(itertools.izip([1], [2])))", before),
                         (sys.maxsize, 'ab', 'a b', [(1, 2)]))


    def test_the_version_is_that_of_the_language(self):
        self.assertEqual(self.value('(sys.version_info[0], sys.version_info >= (3,), sys.version_info.major, sys.version[:2])',
                                    'import sys'), (2, False, 2, '2.'))
        self.assertEqual(self.run_text('import sys\nfound = sys.version_info[0]\n')['found'], 3, 'nothing shows Python 2')

    def test_lost_functions_of_libraries(self):
        before = ('import base64, threading, os, array\nt = threading.Thread(target=max, args=(1, 2))\n'
                  'seen = []\nos.mkdir("d")\nos.path.walk("d", lambda to, where, names: to.append(where), seen)')
        self.assertEqual(self.value("(base64.decodestring(base64.encodestring('\\xff')), t.isAlive(), oct(8), seen, "
                                    "array.array('B', '\\x01\\xff').tolist())", before), ('\xff', False, '010', ['d'], [1, 255]))

    def test_tables_of_characters(self):
        before = "import string\ntable = string.maketrans('el', 'ip')"
        self.assertEqual(self.value("('hello'.translate(table), 'hello'.translate(None, 'l'), len(table), "
                                    "'hello'.translate(table, 'o'), string.translate('el', table), u'ab'.translate({97: u'x'}))",
                                    before), ('hippo', 'heo', 256, 'hipp', 'ip', 'xb'))


class TextTest(Folder):
    def test_the_kind_of_text_is_guessed_from_its_characters(self):
        self.assertEqual(self.value("(isinstance('à', unicode), isinstance(u'à', unicode), isinstance('a', unicode), "
                                    "isinstance(u'中', unicode), isinstance('à', str), isinstance('à', basestring))"),
                         (False, True, True, True, True, True))

    def test_encoding_bytes_again_is_refused(self):
        for call in ("'à'.encode('utf-8')", "unicode('à')"):
            with self.assertRaises(UnicodeDecodeError):
                self.value(call)
        before = "import sys\nreload(sys)\nsys.setdefaultencoding('utf-8')"
        self.assertEqual(self.value("('à'.encode('utf-8') == 'à', unicode('à') == u'à')", before), (True, True))

    def test_what_commands_print_is_bytes(self):
        self.write('data', 'à\n')
        before = 'import os, subprocess, commands'
        self.assertEqual(self.value("(os.popen('cat data').read() == 'à\\n', [l for l in os.popen('cat data')] == ['à\\n'], "
                                    "subprocess.check_output(['cat', 'data']) == 'à\\n', "
                                    "commands.getoutput('cat data') == 'à', commands.getstatusoutput('exit 3')[0] >> 8, "
                                    "os.popen('exit 2').close() >> 8)", before), (True, True, True, True, 3, 2))

    def test_bytes_in_json_and_addresses_are_read_as_utf_8(self):
        self.assertEqual(self.value("(json.dumps({'à': ['à', u'à', 1]}), urllib.quote('\\xe9'), urllib.unquote('%E9'))",
                                    'import json, urllib'), ('{"\\u00e0": ["\\u00e0", "\\u00e0", 1]}', '%E9', '\xe9'))

    def test_a_string_is_bytes(self):
        self.assertEqual(self.value("(len('à'), len(u'à'), 'à'.decode('utf-8') == u'à', u'à'.encode('utf-8') == 'à', "
                                    "ord('\\xff'))"), (2, 1, True, True, 255))

    def test_unicode_literals(self):
        self.assertEqual(self.run_text("from __future__ import unicode_literals\nxrange\nx = len('à'), len(b'à')\n")['x'],
                         (1, 2))

    def test_methods_look_at_ascii_only(self):
        # The second byte of this letter is a blank to Python 3's text, and its first one an upper-case letter.
        self.assertEqual(self.value("('à b'.split(), 'À'.lower() == 'À', ' à'.strip() == 'à')"),
                         (['Ã\xa0', 'b'], True, True))

    def test_files_give_the_same_text_however_they_are_opened(self):
        self.write('data', 'à\tb\n')
        text = ("import gzip\nout = gzip.open('data.gz', 'wb')\nout.write(open('data').read())\nout.close()\n"
                "a = [line.split('\\t') for line in open('data')]\nb = [line.split('\\t') for line in open('data', 'rb')]\n"
                "c = [line.split('\\t') for line in gzip.open('data.gz', 'rb')]\nd = file('data').next().split('\\t')\n"
                "same = a == b == c == [d] and d[0] == 'à'\n")
        self.assertTrue(self.run_text(HEAD + text)['same'])

    def test_binary_data(self):
        text = ("import struct, zlib, hashlib\nout = open('data', 'wb')\nout.write(struct.pack('<I', 0xfffefdfc))\nout.close()\n"
                "data = open('data', 'rb').read()\nfound = struct.unpack('<I', data)[0], ord(data[0]), len(data)\n"
                "more = zlib.decompress(zlib.compress(data)) == data, hashlib.md5('a').hexdigest()[:4]\n")
        names = self.run_text(HEAD + text)
        self.assertEqual((names['found'], names['more']), ((0xfffefdfc, 0xfc, 4), (True, '0cc1')))

    def test_files_in_memory(self):
        self.assertEqual(self.value("io.BytesIO('\\xff').read(), array.array('i', [1]).tostring()", 'import io, array'),
                         ('\xff', '\x01\0\0\0'))
        text = ("from cStringIO import StringIO\nimport StringIO as other\na = StringIO('x\\ny')\nb = a.readline(), a.read()\n"
                "c = other.StringIO()\nc.write('\\xff')\nprint >>c, 'z'\nfound = b, c.getvalue()\n")
        self.assertEqual(self.run_text(text)['found'], (('x\n', 'y'), '\xffz\n'))

    def test_libraries_write_text_to_files(self):
        self.run_text(HEAD + "import json\nout = open('data', 'w')\njson.dump([1], out)\nout.close()\n")
        with open('data') as found:
            self.assertEqual(found.read(), '[1]')

    def test_pickles(self):
        text = ("import cPickle\nwith open('data', 'wb') as out:\n    cPickle.dump({'a': 1}, out, cPickle.HIGHEST_PROTOCOL)\n"
                "found = cPickle.load(open('data', 'rb')), cPickle.loads(cPickle.dumps([1])), "
                "cPickle.loads(\"S'caf\\\\xe9'\\np1\\n.\")\n")
        self.assertEqual(self.run_text(text)['found'], ({'a': 1}, [1], 'caf\xe9'))

    def test_regular_expressions_look_at_ascii_only(self):
        self.assertEqual(self.value("re.findall(r'\\w+', 'à b')", 'import re'), ['b'])

    def test_modules_that_star_imports_bring(self):
        text = HEAD + ("from paddle.trainer.PyDataProvider2 import *\nout = open('data', 'wb')\ncPickle.dump('x', out)\n"
                       "out.close()\nfound = cPickle.load(open('data')), list(itertools.izip(open('data'), [1]))[0][1]\n")
        self.assertEqual(self.run_text(text)['found'], ('x', 1))

    def test_csv_and_configuration(self):
        self.write('data', 'a,b\n')
        self.write('ini', '[s]\nk = v\n')
        text = ("import csv, ConfigParser\nrows = list(csv.reader(open('data', 'rb')))\nini = ConfigParser.ConfigParser()\n"
                "ini.readfp(open('ini'))\nfound = rows, ini.get('s', 'k')\n")
        self.assertEqual(self.run_text(text)['found'], ([['a', 'b']], 'v'))

    def test_parts_of_modules(self):
        self.assertEqual(self.value("json.loads('[1]'), os.path.join('a', 'b')", 'import json.decoder, os.path'),
                         ([1], 'a/b'))

    def test_renamed_modules(self):
        text = 'import Queue, urlparse, urllib2, urllib, __builtin__\nq = Queue.Queue()\nfound = urlparse.urlparse("http://a/b").path\n'
        self.assertEqual(self.run_text(text + "found = found, urllib.quote('a b'), __builtin__.xrange\n")['found'],
                         ('/b', 'a%20b', range))

    def test_an_unmarked_file_that_reads_more_than_ascii_is_told(self):
        self.write('data', 'à\n')
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            names = self.run_text("words = [line.strip() for line in open('data')] + [open('data').read()]\n")
        self.assertEqual(names['words'][0], 'Ã\xa0')
        self.assertEqual(said.getvalue().count('warning'), 1)
        self.assertIn('# python: 3', said.getvalue())

    def test_python_3_files_read_characters(self):
        self.write('data', 'à\n')
        self.assertEqual(self.run_text("# python: 3\nword = open('data', encoding='utf-8').read()\n")['word'], 'à\n')


if __name__ == '__main__':
    unittest.main()
