"""Activation functions, by the name that the layer record carries."""


class BaseActivation(object):
    """An activation. `support_hppl`: recurrent layers can use it inside their cells."""

    name = None
    support_hppl = False

    def __init__(self, name=None, support_hppl=None):
        if name is not None:
            self.name = name
        if support_hppl is not None:
            self.support_hppl = support_hppl

    def __repr__(self):
        return self.name


def _activation(class_name, name, formula, support_hppl=False):
    class Activation(BaseActivation):
        def __init__(self):
            BaseActivation.__init__(self)
    Activation.__name__ = Activation.__qualname__ = class_name
    Activation.__doc__ = formula
    Activation.name = name
    Activation.support_hppl = support_hppl
    return Activation


TanhActivation = _activation('TanhActivation', 'tanh', 'tanh(x)', True)
SigmoidActivation = _activation('SigmoidActivation', 'sigmoid', '1 / (1 + exp(-x))', True)
SoftmaxActivation = _activation('SoftmaxActivation', 'softmax', 'exp(x) over the sum of exp over the vector')
SequenceSoftmaxActivation = _activation('SequenceSoftmaxActivation', 'sequence_softmax',
                                        'softmax over the positions of a sequence, each of size 1')
IdentityActivation = LinearActivation = _activation('IdentityActivation', '', 'x')
ReluActivation = _activation('ReluActivation', 'relu', 'max(0, x)', True)
BReluActivation = _activation('BReluActivation', 'brelu', 'min(24, max(0, x))')
SoftReluActivation = _activation('SoftReluActivation', 'softrelu', 'log(1 + exp(x)), x cut to [-40, 40]')
STanhActivation = _activation('STanhActivation', 'stanh', '1.7159 tanh(2x / 3)')
AbsActivation = _activation('AbsActivation', 'abs', '|x|')
SquareActivation = _activation('SquareActivation', 'square', 'x squared')
ExpActivation = _activation('ExpActivation', 'exponential', 'exp(x)')
LogActivation = _activation('LogActivation', 'log', 'log(x)')

__all__ = [name for name in globals() if name.endswith('Activation')]
