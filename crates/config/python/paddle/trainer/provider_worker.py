"""Runs a data provider in a separate process and sends its samples to the trainer.

The first line of standard input is a JSON object that says what to load; each further line requests files. Replies
are written to what was standard output, in frames: one byte of kind, a little-endian u32 of length, the payload.

- `H`, JSON, once: the slots and the options of the provider, and its dictionaries if the first line has `describe`.
- `D`, samples of one file: u32 file, u64 index of the first sample in it, u32 samples, u8 whether the file has
  ended, u8 whether weights follow; then arrays, each a u32 count and that many 4-byte values: the weights, then for
  each slot the lengths of its nesting from outside in (u32), and its data (u32 positions or ids, f32 values).
- `E`, JSON: why the process ends without further samples.

A line that requests files is `{"pass": k, "groups": [[file, ...], ...]}`: the files of a group take turns, one block of
samples each, until all have ended; then comes the next group. The trainer knows the same order, so it needs no
addresses. What the provider prints goes to standard error. Python's and NumPy's random states belong to a file, so
the random numbers of a provider do not depend on the number of workers.
"""

import builtins
import io
import json
import os
import struct
import sys
import traceback
from array import array
from itertools import chain

BLOCK = 128
BLOCK_BYTES = 1 << 20
DENSE, BINARY, SPARSE, INDEX = range(4)
LEAST_ID = -(1 << 31)
END = object()  # follows the last sample of a file
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON2 = os.path.join(os.path.dirname(HERE), 'python2') + os.sep


class Refused(Exception):
    """A failure that the trainer reports; `what` is its JSON."""

    def __init__(self, **what):
        Exception.__init__(self, what.get('message', what.get('kind')))
        self.what = what


class Pipe(object):
    """The connection to the trainer; redirects the user's prints away from standard output."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), 'wb', buffering=1 << 16)
        os.dup2(2, 1)

    def send(self, kind, pieces):
        self.out.write(kind + struct.pack('<I', sum(map(len, pieces))))
        for piece in pieces:
            self.out.write(piece)

    def send_json(self, kind, value):
        self.send(kind, [json.dumps(value).encode('utf-8')])

    def flush(self):
        self.out.flush()


def words(values):
    """An array of unsigned 32-bit integers with its count."""
    return packed(values if isinstance(values, array) else array('I', values))


def floats(values):
    """An array of 32-bit floats with its count."""
    return packed(array('f', values))


def packed(values):
    if sys.byteorder != 'little':
        values.byteswap()
    return [struct.pack('<I', len(values)), values.tobytes()]


def encode(slot, column):
    """The arrays of one slot of a block of samples."""
    pieces = []
    for _ in range(slot.seq_type):
        pieces += words(list(map(len, column)))
        column = list(chain.from_iterable(column))
    if slot.type == INDEX:
        return pieces + ids(column)
    if slot.type == DENSE:
        return pieces + dense(slot, column)
    pieces += words(list(map(len, column)))
    column = list(chain.from_iterable(column))
    if slot.type == BINARY:
        return pieces + words(column)
    return pieces + words([pair[0] for pair in column]) + floats([pair[1] for pair in column])


def ids(column):
    """Ids as v1 stored them, in 32 bits: which of them exist is for the layer to say that uses them, and -1 is none."""
    try:
        return words(column)
    except OverflowError:
        if any(not LEAST_ID <= each < 1 << 32 for each in column):
            raise
        return words([each & 0xffffffff for each in column])


def dense(slot, rows):
    if any(len(row) != slot.dim for row in rows):
        raise ValueError('length')
    if rows and all(hasattr(row, 'dtype') for row in rows):
        data = b''.join(row.astype('<f4').tobytes() for row in rows)
        if len(data) != 4 * slot.dim * len(rows):
            raise ValueError('length')
        return [struct.pack('<I', len(data) // 4), data]
    return floats(list(chain.from_iterable(rows)))


class Wrong(Exception):
    """A value that does not fit its slot."""

    def __init__(self, expected, got, said=None, **more):
        Exception.__init__(self, expected)
        self.what = dict(more, expected=expected, got=said or shown(got))


class Absent(object):
    """Stands for a slot that a sample does not have."""

    def __init__(self, sample):
        self.keys = ', '.join(sorted(map(repr, sample)))


def shown(value):
    if isinstance(value, Absent):
        return 'nothing: the sample has %s' % (('only ' + value.keys) if value.keys else 'no keys')
    text = repr(value)
    return '%s %s' % (type(value).__name__, text if len(text) <= 80 else text[:77] + '...')


def is_integer(value):
    return hasattr(value, '__index__')


def is_number(value):
    return hasattr(value, '__float__') and not isinstance(value, (str, bytes))


def is_list(value):
    return hasattr(value, '__len__') and hasattr(value, '__iter__') and not isinstance(value, (str, bytes, dict))


def verify(slot, value, strict):
    """Raises `Wrong` for a value that does not fit; `strict` adds v1's rules of check=True."""
    verify_level(slot, value, slot.seq_type, strict)


def verify_level(slot, value, level, strict):
    if level:
        if not is_list(value):
            raise Wrong('a list%s' % (' of lists' if level > 1 else ''), value)
        for each in value:
            verify_level(slot, each, level - 1, strict)
    elif slot.type == INDEX and strict:
        verify_position(slot, value)
    elif slot.type == INDEX:
        verify_id(value)
    elif slot.type == DENSE:
        verify_dense(slot, value)
    else:
        verify_sparse(slot, value, strict)


def verify_id(value):
    if not is_integer(value):
        raise Wrong('an integer', value)
    if not LEAST_ID <= value < 1 << 32:
        raise Wrong('an integer of 32 bits', value)


def verify_position(slot, value):
    if not is_integer(value):
        raise Wrong('an integer', value)
    if not 0 <= value < slot.dim:
        raise Wrong('an integer from 0 to %d' % (slot.dim - 1), value, value=int(value), limit=slot.dim)


def verify_dense(slot, value):
    if not is_list(value):
        raise Wrong('a list of %d numbers' % slot.dim, value)
    if len(value) != slot.dim:
        raise Wrong('a list of %d numbers' % slot.dim, value, said='%d numbers' % len(value))
    for each in value:
        if not is_number(each):
            raise Wrong('a list of %d numbers' % slot.dim, each)


def verify_sparse(slot, value, strict):
    pairs = slot.type == SPARSE
    if not is_list(value):
        raise Wrong('a list of (position, number) pairs' if pairs else 'a list of positions', value)
    seen = set()
    for each in value:
        if pairs:
            if not is_list(each) or len(each) != 2 or not is_number(each[1]):
                raise Wrong('a (position, number) pair', each)
            each = each[0]
        verify_position(slot, each)
        if strict and each in seen:
            raise Wrong('positions without duplicates', each)
        seen.add(each)


def volume(settings, sample):
    """Bytes of the dense sequences of a sample; 0 for samples that are refused later anyway."""
    try:
        return sum(4 * settings.slots[at].dim * positions(sample[at], settings.slots[at].seq_type)
                   for at in settings.wide)
    except (TypeError, IndexError, KeyError):
        return 0


def positions(value, level):
    return len(value) if level == 1 else sum(map(len, value))


class Samples(object):
    """The samples of one file, block by block."""

    def __init__(self, settings, index, name):
        self.settings = settings
        self.index = index
        self.name = name
        self.sent = 0
        self.pulled = 0
        self.random = None
        self.iterator = None

    def open(self):
        found = self.settings.generator(self.settings, self.name)
        if found is None:
            raise Refused(kind='provider', file=self.name, sample=1, message=(
                '%s returned None: a data provider yields its samples, and there is no yield on its way'
                % getattr(self.settings.generator, '__name__', 'the data provider')))
        self.iterator = iter(found)

    def block(self, size):
        """Up to `size` samples, fewer if they are large, and whether the file has ended."""
        samples, filled = [], 0
        try:
            if self.iterator is None:
                self.open()
            while len(samples) < size and filled < BLOCK_BYTES:
                sample = next(self.iterator, END)
                if sample is END:
                    return samples, True
                self.pulled += 1
                sample = self.ordered(sample)
                if not self.settings.check or self.passes(sample):
                    samples.append(sample)
                    if self.settings.wide:
                        filled += volume(self.settings, sample)
        except (Refused, KeyboardInterrupt):
            raise
        except BaseException:
            raise Refused(kind='provider', file=self.name, sample=self.pulled + 1, message=user_traceback())
        return samples, False

    def ordered(self, sample):
        """A sample as a sequence in the order of the slots."""
        settings = self.settings
        if isinstance(sample, dict):
            if not settings.by_name:
                raise self.refusal(self.pulled, expected='a tuple or list, because input_types is a list', got=shown(sample))
            try:
                return [sample[name] for name in settings.own_names]
            except KeyError:
                absent = Absent(sample)
                return [sample.get(name, absent) for name in settings.own_names]
        if len(settings.slots) == 1:
            return [sample]
        return sample

    def passes(self, sample):
        """check=True: whether to keep a sample."""
        try:
            self.verify(self.pulled, sample, True)
        except Refused as wrong:
            if not self.settings.check_fail_continue:
                raise
            self.settings.logger.warning('sample %d of %s is dropped: slot %s needs %s, got %s', self.pulled, self.name,
                                         wrong.what.get('slot'), wrong.what['expected'], wrong.what['got'])
            return False
        return True

    def verify(self, number, sample, strict):
        slots = self.settings.slots
        if not is_list(sample) or len(sample) != len(slots):
            raise self.refusal(number, expected='%d values, one for each slot' % len(slots), got=shown(sample))
        for name, slot, value in zip(self.settings.slot_names, slots, sample):
            try:
                verify(slot, value, strict)
            except Wrong as wrong:
                raise self.refusal(number, slot=name, type=repr(slot), **wrong.what)

    def refusal(self, number, **what):
        return Refused(kind='type', file=self.name, sample=number, **what)

    def send(self, pipe, samples, ended):
        settings = self.settings
        weights = []
        try:
            if settings.calc_batch_size is not None:
                weights = words([settings.calc_batch_size(sample) for sample in samples])
        except BaseException:
            raise Refused(kind='provider', file=self.name, sample=self.sent + 1, message=user_traceback())
        pieces = [struct.pack('<IQIBB', self.index, self.sent, len(samples), ended, bool(weights))] + weights
        for piece in self.columns(samples):
            pieces += piece
        pipe.send(b'D', pieces)
        self.sent += len(samples)

    def columns(self, samples):
        slots = self.settings.slots
        try:
            if samples and set(map(len, samples)) != {len(slots)}:
                raise ValueError('slots')
            columns = list(zip(*samples)) if samples else [()] * len(slots)
            return [encode(slot, column) for slot, column in zip(slots, columns)]
        except Exception:
            for number, sample in enumerate(samples):
                self.verify(self.sent + number + 1, sample, False)
            raise Refused(kind='provider', file=self.name, sample=self.sent + 1, message=traceback.format_exc().rstrip())


def user_traceback():
    """The current exception without frames of this package: the outer ones, and those that give Python 2's meaning."""
    kind, error, frames = sys.exc_info()
    while frames is not None and os.path.dirname(os.path.abspath(frames.tb_frame.f_code.co_filename)) == HERE:
        frames = frames.tb_next
    whole = shown_error = traceback.TracebackException(kind, error, frames)
    while shown_error is not None:
        theirs = [frame for frame in shown_error.stack if not os.path.abspath(frame.filename).startswith(PYTHON2)]
        shown_error.stack = traceback.StackSummary.from_list(theirs)
        shown_error = shown_error.__cause__ or shown_error.__context__
    return ''.join(whole.format()).rstrip()


class Random(object):
    """Sets a separate random state for every file."""

    def __init__(self, seed):
        self.seed = seed

    def enter(self, samples, number):
        python, numpy = sys.modules.get('random'), sys.modules.get('numpy')
        if samples.random is None:
            text = '%s/%s/%s' % (self.seed, number, samples.index)
            if python:
                python.seed(text)
            if numpy:
                numpy.random.seed(list(text.encode()))
            return
        if python and samples.random[0]:
            python.setstate(samples.random[0])
        if numpy and samples.random[1]:
            numpy.random.set_state(samples.random[1])

    def leave(self, samples):
        python, numpy = sys.modules.get('random'), sys.modules.get('numpy')
        samples.random = (python and python.getstate(), numpy and numpy.random.get_state())


def prepare_python(config_directory):
    """The search path of v1: this package, the job's directory, that of the configuration file, then the rest."""
    package = os.path.dirname(os.path.dirname(HERE))
    first = [package, os.getcwd()] + ([config_directory] if config_directory else [])
    rest = [each for each in sys.path if each and each not in first]
    sys.path[:] = first + rest
    from paddle import python2
    from paddle.core import third_party
    third_party.install()
    python2.install()
    builtins.open = io.open = tolerant(io.open)


def tolerant(original):
    """`open` of Python 3 files whose text may hold any bytes."""

    def open(file, mode='r', buffering=-1, encoding=None, errors=None, *more, **others):
        if 'b' not in mode and encoding is None and errors is None:
            encoding, errors = 'utf-8', 'surrogateescape'
        return original(file, mode, buffering, encoding, errors, *more, **others)

    return open


def load(setup):
    """Imports the provider and creates its settings."""
    name, wanted = setup['module'], setup['object']
    try:
        module = __import__(name, fromlist=['*'])
    except ImportError as error:
        if getattr(error, 'name', None) == name.split('.')[0] or getattr(error, 'name', None) == name:
            places = [os.getcwd(), os.path.abspath(setup.get('config_directory') or '.')]
            raise Refused(kind='module', message='searched %s' % ' and '.join(dict.fromkeys(places)))
        raise Refused(kind='import', message=user_traceback())
    except BaseException:
        raise Refused(kind='import', message=user_traceback())
    if not hasattr(module, wanted):
        names = sorted(name for name, value in vars(module).items() if hasattr(value, '__wrapped__'))
        raise Refused(kind='object', message='%s has %s' % (module.__file__, ', '.join(names) or 'no provider'))
    if is_undecorated(getattr(module, wanted)):
        raise Refused(kind='init', message='%s is a function without @provider: write @provider(input_types=...) above '
                                           'its definition in %s' % (wanted, module.__file__))
    from paddle.trainer.PyDataProvider2 import deserialize_args
    try:
        args = deserialize_args(setup['args']) if setup['args'] else {}
        args = dict(args, is_train=setup['is_train'], input_order=setup['input_order'])
        settings = getattr(module, wanted)(file_list=setup['files'], **args)
        arrange(settings)
        if setup.get('describe'):
            from paddle.trainer import provider_dictionaries
            settings.dictionaries = provider_dictionaries.found(settings, args, module)
        return settings
    except Refused:
        raise
    except BaseException as error:
        if isinstance(error, TypeError) and "unexpected keyword argument 'file_list'" in str(error):
            raise Refused(kind='slots', message='it is a plain function; write @provider(input_types=...) above it')
        raise Refused(kind='init', message=user_traceback())


def is_undecorated(value):
    """Whether a value is a function of the samples of a file, not what `@provider` makes of it."""
    if not isinstance(value, type(is_undecorated)):
        return False
    code = value.__code__
    takes_options = bool(code.co_flags & 0x08)  # **others
    return not takes_options and 'file_list' not in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def arrange(settings):
    """Sorts the slots by data layer."""
    settings.by_name = isinstance(settings.slots, dict)
    if settings.by_name:
        from paddle.python2.text import outward
        # In a Python 2 file a name has one character per byte.
        own = {outward(name): name for name in settings.slots}
        missing = [name for name in settings.input_order if name not in own]
        if missing:
            raise Refused(kind='slots', message='input_types has no %s; it has %s' % (
                ', '.join(map(repr, missing)), ', '.join(map(repr, sorted(own)))))
        settings.own_names = [own[name] for name in settings.input_order]
        settings.slots = [settings.slots[name] for name in settings.own_names]
        settings.slot_names = list(settings.input_order)
    else:
        settings.slots = list(settings.slots)
        names = list(settings.input_order) + ['#%d' % i for i in range(len(settings.slots))]
        settings.slot_names = names[:len(settings.slots)]
    settings.wide = [at for at, slot in enumerate(settings.slots) if slot.type == DENSE and slot.seq_type]
    if not callable(settings.calc_batch_size):
        settings.calc_batch_size = None


def hello(settings):
    def size(value):
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1

    return {'slots': [{'name': name, 'kind': slot.type, 'level': slot.seq_type, 'dim': slot.dim}
                      for name, slot in zip(settings.slot_names, settings.slots)],
            'should_shuffle': settings.should_shuffle if isinstance(settings.should_shuffle, bool) else None,
            'pool_size': size(settings.pool_size), 'min_pool_size': size(settings.min_pool_size),
            'can_over_batch_size': bool(settings.can_over_batch_size),
            'calc_batch_size': settings.calc_batch_size is not None, 'cache': int(settings.cache),
            'dictionaries': getattr(settings, 'dictionaries', [])}


def block_size(slots):
    """Samples of a block: fewer if dense slots are wide. A function of the types alone, like all of the order."""
    wide = sum(slot.dim for slot in slots if slot.type == DENSE)
    return max(1, min(BLOCK, BLOCK_BYTES // (4 * wide + 1)))


def read(settings, pipe, setup, request):
    """Sends the files of one request."""
    random, size = Random(setup['seed']), block_size(settings.slots)
    for group in request['groups']:
        active = [Samples(settings, index, setup['files'][index]) for index in group]
        while active:
            for samples in list(active):
                random.enter(samples, request['pass'])
                block, ended = samples.block(size)
                samples.send(pipe, block, ended)
                random.leave(samples)
                if ended:
                    active.remove(samples)
            if len(active) <= 1:
                pipe.flush()
    pipe.flush()


def main():
    pipe = Pipe()
    commands = os.fdopen(os.dup(0), 'r', encoding='utf-8')
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        setup = json.loads(commands.readline())
        prepare_python(setup.get('config_directory'))
        settings = load(setup)
        pipe.send_json(b'H', hello(settings))
        pipe.flush()
        for line in commands:
            read(settings, pipe, setup, json.loads(line))
    except Refused as refused:
        pipe.send_json(b'E', refused.what)
        pipe.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
    except BaseException:
        pipe.send_json(b'E', {'kind': 'worker', 'message': traceback.format_exc().rstrip()})
        pipe.flush()


if __name__ == '__main__':
    main()
