"""Layers on plain vectors."""

from paddle.core.errors import ConfigError
from paddle.core.inputs import Operator, Projection
from paddle.core.layer import Layer

from .activations import LinearActivation, SigmoidActivation, TanhActivation
from .attrs import ExtraLayerAttribute, ParamAttr
from .default_decorators import defaults
from .output import (DROPOUT, ERROR_CLIPPING, LayerOutput, LayerType, add_layer, attributes_for, edge, layers_of,
                     need_layer, supports)
from .projections import table_projection

__all__ = ['mixed_layer', 'data_layer', 'embedding_layer', 'fc_layer', 'selective_fc_layer', 'addto_layer',
           'concat_layer', 'tensor_layer', 'hsigmoid', 'nce_layer', 'print_layer', 'cos_sim', 'interpolation_layer',
           'power_layer', 'scaling_layer', 'slope_intercept_layer', 'sum_to_one_norm_layer', 'trans_layer',
           'conv_shift_layer', 'linear_comb_layer', 'convex_comb_layer', 'out_prod_layer', 'sampling_id_layer']


class MixedLayerType(LayerOutput):
    """A mixed layer that is still open: `with mixed_layer(...) as m: m += projection`."""

    class AddToSealedMixedLayerException(Exception):
        """Something was added after the layer was closed."""

    def __init__(self, name, size, act, bias_attr, layer_attr, parents=None):
        LayerOutput.__init__(self, name, LayerType.MIXED_LAYER, parents, size=size, activation=act)
        self.bias_attr = bias_attr
        self.layer_attr = layer_attr
        self.inputs = []
        self.finalized = False

    def __iadd__(self, term):
        if self.finalized:
            raise MixedLayerType.AddToSealedMixedLayerException(
                "mixed layer '%s' is closed: add to it inside its `with` block" % self.name)
        if not isinstance(term, (Projection, Operator)):
            raise ConfigError("mixed layer '%s': %r is neither projection nor operator" % (self.name, term))
        self.inputs.append(term)
        self.parents.extend(term.origin if isinstance(term, Operator) else [term.origin])
        return self

    def __enter__(self):
        return self

    def __exit__(self, error_type, error, trace):
        if error_type is None:
            self.close()
        return False

    def close(self):
        """Adds the layer with the terms so far."""
        layer = Layer(name=self.name, type='mixed', size=self.size, active_type=self.activation.name,
                      bias=ParamAttr.to_bias(self.bias_attr), inputs=self.inputs,
                      **ExtraLayerAttribute.to_kwargs(self.layer_attr))
        self.size = layer.config.size
        self.finalized = True


@defaults('mixed', act=LinearActivation(), bias=False)
@supports(ERROR_CLIPPING, DROPOUT)
def mixed_layer(size=0, input=None, name=None, act=None, bias_attr=False, layer_attr=None):
    """The sum of projections and operators. Without `input` the layer stays open and takes its terms in a `with`
    block: `with mixed_layer(size=8) as m: m += full_matrix_projection(x)`.

    size: width of the output; 0 takes it from the terms.
    input: a projection or an operator, or a list of them.
    """
    mixed = MixedLayerType(name, size, act, bias_attr, layer_attr)
    if input is not None:
        for term in input if isinstance(input, (list, tuple)) else [input]:
            mixed += term
        mixed.close()
    return mixed


@supports()
def data_layer(name, size, height=None, width=None, layer_attr=None):
    """One slot of every sample. A data source fills it.

    name: the name by which the data source addresses it.
    size: width of the vector; for integers their range, from 0 to `size - 1`.
    height, width: the shape, if the slot is an image.
    """
    return add_layer(name, LayerType.DATA, [], layer_attr, size=size, height=height, width=width)


@defaults('embedding', weight=True)
@supports(ERROR_CLIPPING)
def embedding_layer(input, size, name=None, param_attr=None, layer_attr=None):
    """A trained vector for each id.

    input: ids: an integer or a sequence of integers.
    size: width of the vectors.
    param_attr: the `ParamAttr` of the table; `sparse_update=True` updates only the rows that a batch uses.
    """
    with mixed_layer(name=name, size=size, act=LinearActivation(), bias_attr=False, layer_attr=layer_attr) as mixed:
        mixed += table_projection(input=input, size=size, param_attr=param_attr)
    return mixed


@defaults(None, act=TanhActivation(), weight=True, bias=True)
@supports(ERROR_CLIPPING, DROPOUT)
def fc_layer(input, size, act=None, name=None, param_attr=None, bias_attr=None, layer_attr=None):
    """A fully connected layer: act(sum of x W over the inputs + b).

    input: one layer or a list of layers, dense or sparse.
    param_attr: the `ParamAttr` of the weight, or a list with one for each input.
    """
    inputs = layers_of(input, 'input', 'fc_layer')
    edges = [edge(each, attr) for each, attr in zip(inputs, attributes_for(inputs, param_attr, 'fc_layer'))]
    return add_layer(name, LayerType.FC_LAYER, edges, layer_attr, parents=inputs, size=size, activation=act,
                     bias=ParamAttr.to_bias(bias_attr))


@defaults(None, act=TanhActivation(), weight=True, bias=True)
@supports()
def selective_fc_layer(input, size, select=None, act=None, name=None, pass_generation=False,
                       has_selected_colums=True, mul_ratio=0.02, param_attr=None, bias_attr=None, layer_attr=None):
    """A fully connected layer of which only the outputs that `select` names are computed.

    input: one layer or a list of layers.
    select: a sparse layer of width `size`; its columns are the outputs to compute.
    pass_generation: in tests return a sparse row of the full width instead of the selected values.
    has_selected_colums: False computes all columns (v1's spelling).
    mul_ratio: has no effect here; v1 chose its method of multiplication by it.
    param_attr: the `ParamAttr` of the weight, or a list with one for each input.
    """
    inputs = layers_of(input, 'input', 'selective_fc_layer')
    need_layer(select, 'select', 'selective_fc_layer')
    if select.size is not None and select.size != size:
        raise ConfigError("selective_fc_layer '%s': select must have size %d, not %d" % (name, size, select.size))
    attributes = attributes_for(inputs, param_attr, 'selective_fc_layer')
    edges = [edge(each, attr) for each, attr in zip(inputs, attributes)]
    return add_layer(name, LayerType.SEL_FC_LAYER, edges + [edge(select)], layer_attr, parents=inputs + [select],
                     size=size, activation=act, bias=ParamAttr.to_bias(bias_attr),
                     selective_fc_pass_generation=pass_generation, has_selected_colums=has_selected_colums,
                     selective_fc_full_mul_ratio=mul_ratio)


@defaults('addto', act=LinearActivation(), bias=False)
@supports(DROPOUT)
def addto_layer(input, act=None, name=None, bias_attr=None, layer_attr=None):
    """The sum of layers of the same width: act(sum of the inputs + b).

    input: one layer or a list of layers.
    """
    inputs = layers_of(input, 'input', 'addto_layer')
    filters = [each.num_filters for each in inputs if each.num_filters is not None]
    return add_layer(name, LayerType.ADDTO_LAYER, inputs, layer_attr, activation=act,
                     channels=filters[-1] if filters else None, bias=ParamAttr.to_bias(bias_attr))


@defaults('concat', act=LinearActivation())
@supports()
def concat_layer(input, act=None, name=None, layer_attr=None, bias_attr=None):
    """The inputs one after the other in one row.

    input: a list of layers, or a list of projections.
    bias_attr: only for projections; the `ParamAttr` of a bias, or True.
    """
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if all(isinstance(each, Projection) for each in inputs):
        return add_layer(name, LayerType.CONCAT_PROJ_LAYER, inputs, layer_attr,
                         parents=[each.origin for each in inputs], activation=act, bias=ParamAttr.to_bias(bias_attr))
    inputs = layers_of(inputs, 'input', 'concat_layer')
    if bias_attr:
        raise ConfigError("concat_layer '%s': layers are joined without bias" % name)
    return add_layer(name, LayerType.CONCAT_LAYER, inputs, layer_attr, activation=act)


@defaults(None, act=LinearActivation(), weight=True, bias=True)
@supports(ERROR_CLIPPING, DROPOUT)
def tensor_layer(a, b, size, act=None, name=None, param_attr=None, bias_attr=None, layer_attr=None):
    """A bilinear product: output i is a W_i b.

    a, b: the two layers.
    """
    layers_of([a, b], 'a and b', 'tensor_layer')
    return add_layer(name, LayerType.TENSOR_LAYER, [edge(a, param_attr), edge(b)], layer_attr, parents=[a, b],
                     size=size, activation=act, bias=ParamAttr.to_bias(bias_attr))


def _label(label, function):
    if need_layer(label, 'label', function).layer_type != LayerType.DATA:
        raise ConfigError('%s: label must be a data layer, not %r' % (function, label))
    return label


@defaults(None, weight=True, bias=True)
@supports()
def hsigmoid(input, label, num_classes=None, name=None, bias_attr=None, param_attr=None, layer_attr=None):
    """The cost of a label in a binary tree of classes. One sample costs the logarithm of the number of classes, so it
    suits many classes.

    input: one layer or a list of layers.
    num_classes: number of classes, more than two; by default the size of the label.
    param_attr: the `ParamAttr` of the weight, or a list with one for each input.
    """
    inputs = layers_of(input, 'input', 'hsigmoid')
    _label(label, 'hsigmoid')
    num_classes = label.size if num_classes is None else num_classes
    if num_classes is None or num_classes <= 2:
        raise ValueError('hsigmoid needs more than two classes, not %s' % num_classes)
    attributes = attributes_for(inputs, param_attr, 'hsigmoid')
    edges = [edge(each, attr) for each, attr in zip(inputs, attributes)]
    return add_layer(name, LayerType.HSIGMOID, edges + [edge(label)], layer_attr, parents=inputs + [label],
                     num_classes=num_classes, bias=ParamAttr.to_bias(bias_attr))


@defaults(None, act=SigmoidActivation(), bias=True)
@supports()
def nce_layer(input, label, num_classes, act=None, weight=None, num_neg_samples=10, neg_distribution=None, name=None,
              bias_attr=None, layer_attr=None):
    """Noise-contrastive estimation: the cost of telling the label from a few classes that are drawn at random. It
    suits many classes.

    input: one layer or a list of layers.
    num_classes: number of classes.
    weight: a data layer with the weight of each sample.
    num_neg_samples: classes drawn per sample.
    neg_distribution: the probability of each class to be drawn, a list of `num_classes` numbers; None draws them
        uniformly.
    """
    inputs = layers_of(input, 'input', 'nce_layer') + [_label(label, 'nce_layer')]
    if weight is not None:
        inputs.append(_label(weight, 'nce_layer'))
    return add_layer(name, LayerType.NCE_LAYER, inputs, layer_attr, activation=act, num_classes=num_classes,
                     num_neg_samples=num_neg_samples, neg_sampling_dist=neg_distribution,
                     bias=ParamAttr.to_bias(bias_attr))


@defaults('print')
def print_layer(input, name=None):
    """Writes the values of layers to the log. It returns nothing.

    input: one layer or a list of layers.
    """
    add_layer(name, LayerType.PRINT_LAYER, layers_of(input, 'input', 'print_layer'))


@defaults(None)
@supports()
def cos_sim(a, b, scale=1, size=1, name=None, layer_attr=None):
    """`scale` times the cosine of a and b. Releases of v1 before 0.10 had a scale of 5: give `scale=5` for their
    results.

    a, b: two layers of the same width; with `size`, b holds that many vectors of the width of a.
    scale: factor on the cosine.
    size: number of vectors in b, and of results.
    """
    layers_of([a, b], 'a and b', 'cos_sim')
    if size == 1:
        return add_layer(name, LayerType.COSINE_SIM, [a, b], layer_attr, cos_scale=scale)
    return add_layer(name, LayerType.COSINE_SIM_VEC, [a, b], layer_attr, size=size,
                     output_type=LayerType.COSINE_SIM, cos_scale=scale)


@defaults(None)
@supports()
def interpolation_layer(input, weight, name=None, layer_attr=None):
    """A mixture of two layers: w x + (1 - w) y.

    input: a list of the two layers x and y.
    weight: a layer of size 1 with w.
    """
    first, second = layers_of(input, 'input', 'interpolation_layer')
    return add_layer(name, LayerType.INTERPOLATION_LAYER, [need_layer(weight, 'weight', 'interpolation_layer'),
                                                           first, second], layer_attr)


@defaults(None)
@supports()
def power_layer(input, weight, name=None, layer_attr=None):
    """x to the power of w, for positive x.

    weight: a layer of size 1 with w.
    """
    return add_layer(name, LayerType.POWER_LAYER, layers_of([weight, input], 'input', 'power_layer'), layer_attr,
                     parents=[input, weight])


@defaults(None)
@supports()
def scaling_layer(input, weight, name=None, layer_attr=None):
    """x times w.

    weight: a layer of size 1 with w.
    """
    return add_layer(name, LayerType.SCALING_LAYER, layers_of([weight, input], 'input', 'scaling_layer'), layer_attr)


@defaults(None)
@supports()
def slope_intercept_layer(input, name=None, slope=1.0, intercept=0.0, layer_attr=None):
    """slope x + intercept, with fixed numbers.

    slope, intercept: the two numbers.
    """
    return add_layer(name, LayerType.SLOPE_INTERCEPT_LAYER, [need_layer(input, 'input', 'slope_intercept_layer')],
                     layer_attr, slope=slope, intercept=intercept)


@defaults(None)
@supports()
def sum_to_one_norm_layer(input, name=None, layer_attr=None):
    """x divided by the sum of its values."""
    return add_layer(name, LayerType.SUM_TO_ONE_NORM_LAYER, [input], layer_attr)


@defaults(None)
@supports()
def trans_layer(input, name=None, layer_attr=None):
    """The batch as a matrix, with rows and columns exchanged."""
    return add_layer(name, LayerType.TRANS_LAYER, [input], layer_attr)


@defaults(None)
@supports()
def conv_shift_layer(a, b, name=None, layer_attr=None):
    """The circular convolution of a with the short vector b.

    a: the long vector.
    b: the short vector; its size is odd.
    """
    layers_of([a, b], 'a and b', 'conv_shift_layer')
    if b.size is not None and b.size % 2 != 1:
        raise ConfigError("conv_shift_layer '%s': b must have an odd size, not %d" % (name, b.size))
    return add_layer(name, LayerType.CONV_SHIFT_LAYER, [a, b], layer_attr)


@defaults(None)
@supports()
def linear_comb_layer(weights, vectors, size=None, name=None, layer_attr=None):
    """The sum of the vectors in `vectors`, each multiplied by its weight. `convex_comb_layer` is another name for it.

    weights: a layer with one weight per vector.
    vectors: a layer that holds the vectors one after the other.
    size: width of one vector; by default the size of `vectors` divided by that of `weights`.
    """
    layers_of([weights, vectors], 'weights and vectors', 'linear_comb_layer')
    size = vectors.size // weights.size if size is None else size
    return add_layer(name, LayerType.LINEAR_COMBINATION_LAYER, [weights, vectors], layer_attr, size=size)


convex_comb_layer = linear_comb_layer


@defaults(None)
def out_prod_layer(input1, input2, name=None, layer_attr=None):
    """Every value of one input multiplied by every value of the other.

    input1, input2: the two layers.
    """
    return add_layer(name, LayerType.OUT_PROD_LAYER, layers_of([input1, input2], 'input', 'out_prod_layer'),
                     layer_attr)


@defaults(None)
@supports()
def sampling_id_layer(input, name=None, layer_attr=None):
    """An id drawn with the probabilities that the input gives."""
    return add_layer(name, LayerType.SAMPLING_ID_LAYER, [input], layer_attr)
