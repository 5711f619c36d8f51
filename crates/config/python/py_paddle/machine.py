"""`GradientMachine`: a network with parameters, applied to batches."""

from py_paddle.arguments import Arguments, Slot
from py_paddle.arrays import IVector, Matrix, Vector
from py_paddle.errors import RangeError, UnsupportError, training
from py_paddle.worker import Message, worker

PASS_TRAIN, PASS_TEST, PASS_GC, PASS_METRIC, PASS_METRIC_TRAIN = range(5)
CREATE_MODE_NORMAL, CREATE_MODE_SGD_SPARSE_CPU_TRAINING, CREATE_MODE_TESTING = 0, 3, 4
PARAMETER_VALUE, PARAMETER_GRADIENT, PARAMETER_MOMENTUM = range(3)
NUM_PARAMETER_TYPES = 19


class Parameter(object):
    """One parameter of a machine."""

    def __init__(self, machine, name, size):
        self.machine = machine
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
        """A copy of the values; `setBuf` gives values back."""
        if type != PARAMETER_VALUE:
            raise training('getBuf of anything but PARAMETER_VALUE')
        reply = worker().ask(Message(call='parameter', machine=self.machine, name=self.name))
        return Vector(reply['arrays'][reply['values']])

    def setBuf(self, vector):
        """Changes the values."""
        message = Message(call='set_parameter', machine=self.machine, name=self.name)
        message.header['values'] = message.place(vector.values)
        worker().ask(message)


class GradientMachine(object):
    """A network in the worker process."""

    def __init__(self, model_config):
        reply = worker().ask(Message(call='create', config=as_json(model_config)))
        self.machine = reply['machine']
        self.inputs, self.outputs = reply['inputs'], reply['outputs']
        self.parameters = [Parameter(self.machine, each['name'], each['size']) for each in reply['parameters']]

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

    def randParameters(self):
        """Draws initial values."""
        worker().ask(Message(call='randomize', machine=self.machine))

    def start(self):
        """Nothing has to be started."""

    finish = start

    def forward(self, inArgs, outArgs, passType):
        """Computes a batch; `outArgs` gets the output layers."""
        if inArgs.getSlotNum() != len(self.inputs):
            raise RangeError('the network has %d inputs (%s), the arguments have %d slots' % (
                len(self.inputs), ', '.join(self.inputs), inArgs.getSlotNum()))
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

    forwardBackward = makeEvaluator = eval = asSequenceGenerator = backward


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
