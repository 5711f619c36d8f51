"""`GradientMachine`: a network with parameters, applied to batches."""

from weakref import WeakValueDictionary

from py_paddle.arguments import Arguments, Slot
from py_paddle.arrays import IVector, Matrix, Vector
from py_paddle.errors import RangeError, UnsupportError, training
from py_paddle.worker import Message, worker

PASS_TRAIN, PASS_TEST, PASS_GC, PASS_METRIC, PASS_METRIC_TRAIN = range(5)
CREATE_MODE_NORMAL, CREATE_MODE_SGD_SPARSE_CPU_TRAINING, CREATE_MODE_TESTING = 0, 3, 4
PARAMETER_VALUE, PARAMETER_GRADIENT, PARAMETER_MOMENTUM = range(3)
NUM_PARAMETER_TYPES = 19


class ParameterVector(Vector):
    """The values of a parameter. The machine computes with what is written here, as if the memory were its own."""

    def __init__(self, values, written):
        Vector.__init__(self, values)
        self.written = written

    def _take(self, values):
        Vector._take(self, values)
        self.written(self)

    def copyFromNumpyArray(self, data):
        """Takes the values of an array of the same length."""
        self.copyFrom(Vector.createVectorFromNumpy(data))

    def __setitem__(self, index, value):
        Vector.__setitem__(self, index, value)
        self.written(self)

    def toNumpyArrayInplace(self):
        """An array of NumPy's over the same memory, which may be written at any time from now on."""
        self.written(self, always=True)
        return Vector.toNumpyArrayInplace(self)


class Buffers(object):
    """The vectors that scripts have of a machine's parameters, and which of them the worker process has to get."""

    def __init__(self, machine):
        self.machine = machine
        self.vectors = WeakValueDictionary()
        self.changed = {}
        self.shared = {}

    def vector(self, name):
        """The vector of a parameter: the same one as long as somebody has it."""
        found = self.vectors.get(name)
        if found is None:
            self.vectors[name] = found = ParameterVector(self.read(name), lambda vector, always=False:
                                                         self.keep(name, vector, always))
        return found

    def keep(self, name, vector, always):
        """A vector was written; if `always`, it may be written unseen."""
        (self.shared if always else self.changed)[name] = vector

    def read(self, name):
        """The values that the worker process has."""
        reply = worker().ask(Message(call='parameter', machine=self.machine, name=name))
        return reply['arrays'][reply['values']]

    def write(self, name, values):
        """Sends values to the worker process."""
        message = Message(call='set_parameter', machine=self.machine, name=name)
        message.header['values'] = message.place(values)
        worker().ask(message)

    def send(self):
        """Sends what was written since the last time."""
        for name, vector in dict(self.changed, **self.shared).items():
            self.write(name, vector.values)
        self.changed.clear()

    def refresh(self):
        """The worker process has other values now; what was written before is replaced by them."""
        self.changed.clear()
        for name, vector in list(self.vectors.items()):
            vector.values[:] = self.read(name)


class Parameter(object):
    """One parameter of a machine."""

    def __init__(self, buffers, name, size):
        self.buffers = buffers
        self.name = name
        self.size = size

    def getName(self):
        """Its name."""
        return self.name

    def getSize(self):
        """Length in values."""
        return self.size

    def __len__(self):
        return self.size

    def getBuf(self, type):
        """The values; what is written into them is used from the next batch on."""
        if type != PARAMETER_VALUE:
            raise training('getBuf of anything but PARAMETER_VALUE')
        return self.buffers.vector(self.name)

    def setBuf(self, vector):
        """Changes the values."""
        self.getBuf(PARAMETER_VALUE).copyFrom(vector)


class GradientMachine(object):
    """A network in the worker process."""

    def __init__(self, model_config):
        reply = worker().ask(Message(call='create', config=as_json(model_config)))
        self.machine = reply['machine']
        self.inputs, self.outputs = reply['inputs'], reply['outputs']
        self.buffers = Buffers(self.machine)
        self.parameters = [Parameter(self.buffers, each['name'], each['size']) for each in reply['parameters']]

    @staticmethod
    def createFromConfigProto(protoObj, createMode=CREATE_MODE_NORMAL, paramTypes=()):
        """From the `model_config` of what `parse_config` returned."""
        return GradientMachine(protoObj)

    @staticmethod
    def createByModelConfig(protoObj, createMode=CREATE_MODE_NORMAL, paramTypes=()):
        """The same under another name."""
        return GradientMachine(protoObj)

    @staticmethod
    def createByConfigProtoStr(protoStr, createMode=CREATE_MODE_NORMAL, paramTypes=()):
        """v1 read protobuf here, which this package does not have."""
        raise UnsupportError('createByConfigProtoStr reads protobuf; give createFromConfigProto the model_config that '
                             'parse_config returns')

    @staticmethod
    def loadFromConfigFile(config_filename, model_dir=None):
        """A machine from a configuration file, with the parameters next to it or in `model_dir`."""
        import os
        from paddle.trainer.config_parser import parse_config
        machine = GradientMachine(parse_config(config_filename, '').model_config)
        machine.loadParameters(os.path.dirname(config_filename) if model_dir is None else model_dir)
        return machine

    def loadParameters(self, path):
        """Reads a pass directory."""
        import os
        worker().ask(Message(call='load', machine=self.machine, directory=os.path.abspath(path)))
        self.buffers.refresh()

    def randParameters(self):
        """Draws initial values."""
        worker().ask(Message(call='randomize', machine=self.machine))
        self.buffers.refresh()

    def start(self):
        """Nothing has to be started."""

    finish = start

    def forward(self, inArgs, outArgs, passType):
        """Computes a batch; `outArgs` gets the output layers."""
        if inArgs.getSlotNum() != len(self.inputs):
            raise RangeError('the network has %d inputs (%s), the arguments have %d slots' % (
                len(self.inputs), ', '.join(self.inputs), inArgs.getSlotNum()))
        self.buffers.send()
        message = Message(call='forward', machine=self.machine, train=passType == PASS_TRAIN)
        message.header['slots'] = [described(slot, message, name) for slot, name in zip(inArgs.slots, self.inputs)]
        reply = worker().ask(message)
        outArgs.slots[:] = [slot_of(each, reply['arrays']) for each in reply['outputs']]

    def forwardTest(self, inArgs):
        """The outputs of a batch as a list of dictionaries with `value`, `id` and `prob`."""
        found = Arguments.createArguments(0)
        self.forward(inArgs, found, PASS_TEST)
        return [as_numpy(slot) for slot in found.slots]

    def getLayerOutput(self, layerName):
        """What a layer gave in the last batch."""
        reply = worker().ask(Message(call='layers', machine=self.machine, names=[layerName]))
        return Arguments([slot_of(each, reply['arrays']) for each in reply['outputs']])

    def getLayerOutputs(self, layerNames):
        """What layers gave in the last batch, by name."""
        names = [layerNames] if isinstance(layerNames, str) else list(layerNames)
        return {name: as_numpy(self.getLayerOutput(name).slot(0)) for name in names}

    def getParameterSize(self):
        """How many parameters there are."""
        return len(self.parameters)

    def getParameter(self, i):
        """One of them."""
        if not 0 <= i < len(self.parameters):
            raise RangeError('parameter %d of %d' % (i, len(self.parameters)))
        return self.parameters[i]

    def getParameters(self):
        """All of them."""
        return iter(self.parameters)

    def backward(self, *_, **__):
        """Not here."""
        raise training('backward')

    forwardBackward = makeEvaluator = eval = backward

    def asSequenceGenerator(self, *_, **__):
        """Not here."""
        raise UnsupportError('asSequenceGenerator: py_paddle does not generate. Describe the generation with beam_search and '
                             'seqtext_printer_evaluator, and run `canoe train --config=... --job=test '
                             '--init_model_path=...`, which writes the sequences to result_file')


def as_json(model_config):
    """A record as values that JSON has."""
    import json
    if not hasattr(model_config, 'to_json'):
        raise TypeError('a model configuration is the model_config of what parse_config returns, not %s'
                        % type(model_config).__name__)
    return json.loads(model_config.to_json())


def described(slot, message, name):
    """A slot for `forward`; its arrays are added to the message."""
    if slot.ids is not None:
        found = {'kind': 'ids', 'ids': message.place(slot.ids.values)}
    elif slot.value is None:
        raise UnsupportError('the slot of input %s has neither a value nor ids' % name)
    elif slot.value.isSparse():
        found = {'kind': 'sparse', 'dim': slot.value.width, 'starts': message.place(slot.value.starts),
                 'columns': message.place(slot.value.columns), 'values': message.place(slot.value.values)}
    else:
        found = {'kind': 'dense', 'dim': slot.value.width, 'values': message.place(slot.value.values)}
    for field in ('sequences', 'subsequences'):
        starts = getattr(slot, field)
        found[field] = message.place(starts and starts.values)
    return {key: value for key, value in found.items() if value is not None}


def slot_of(output, arrays):
    """An output of the worker as a slot."""
    slot = Slot()
    if output.get('value') is not None:
        values = arrays[output['value']]
        width = output['dim']
        slot.value = Matrix(len(values) // width if width else 0, width, values)
    for field in ('ids', 'sequences', 'subsequences'):
        if output.get(field) is not None:
            setattr(slot, field, IVector(arrays[output[field]]))
    return slot


def as_numpy(slot):
    """v1's dictionary of a slot."""
    return {'value': None if slot.value is None else slot.value.copyToNumpyMat(),
            'id': None if slot.ids is None else slot.ids.copyToNumpyArray(),
            'prob': None if slot.inner is None else slot.inner.copyToNumpyMat()}
