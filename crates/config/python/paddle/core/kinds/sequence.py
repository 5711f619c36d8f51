"""Layers that change sequences: pooling, picking, expanding, joining; decoders and their costs."""

from paddle.core.errors import check
from paddle.core.layer import kind


def _as_input(layer, bias):
    for size in layer.input_sizes():
        layer.set_size(size)
    layer.bias(bias, layer.size)


@kind('max', active_type='linear')
def maximum(layer, trans_type='non-seq', bias=False, output_max_index=None):
    layer.need_inputs(1)
    layer.config.trans_type = trans_type
    if output_max_index is not None:
        layer.config.output_max_index = output_max_index
    _as_input(layer, bias)


@kind('average', active_type='linear')
def average(layer, average_strategy='average', trans_type='non-seq', bias=False):
    layer.need_inputs(1)
    layer.config.average_strategy = average_strategy
    layer.config.trans_type = trans_type
    _as_input(layer, bias)


@kind('seqlastins', active_type='linear')
def last_instance(layer, trans_type='non-seq', bias=False, stride=-1):
    layer.need_inputs(1)
    check(trans_type != 'seq' or stride == -1, "layer '%s': stride works on single sequences only",
          layer.config.name)
    layer.config.trans_type = trans_type
    layer.config.seq_pool_stride = stride
    _as_input(layer, bias)


@kind('seqfirstins', active_type='linear')
def first_instance(layer, **arguments):
    layer.config.type = 'seqlastins'
    last_instance(layer, **arguments)
    layer.config.select_first = True


@kind('expand')
def expand(layer, trans_type='non-seq', bias=False):
    layer.need_inputs(2)
    layer.config.trans_type = trans_type
    layer.set_size(layer.input(0).size)
    layer.bias(bias, layer.size)


@kind('seqconcat', active_type='linear')
def join(layer, bias=False):
    layer.need_inputs(2)
    _as_input(layer, bias)


@kind('seqreshape', active_type='linear')
def reshape(layer, bias=False):
    layer.need_inputs(1)
    layer.bias(bias, layer.size)


@kind('subseq', active_type='linear')
def subsequence(layer, bias=False):
    layer.need_inputs(3)
    layer.set_size(layer.input(0).size)
    layer.bias(bias, layer.size)


@kind('maxid')
def largest_id(layer, beam_size=None):
    layer.need_inputs(1)
    layer.set_size(layer.input(0).size)
    if beam_size is None and layer.job.current.HasField('generator'):
        beam_size = layer.job.current.generator.beam_size
    if beam_size is not None:
        layer.config.beam_size = beam_size


@kind('sampling_id')
def sampled_id(layer):
    layer.need_inputs(1)
    layer.set_size(layer.input(0).size)


@kind('eos_id')
def end_of_sequence(layer, eos_id):
    layer.need_inputs(1)
    layer.set_size(2)
    layer.config.eos_id = eos_id


@kind('crf', coeff=1.0)
def conditional_random_field(layer):
    layer.need_inputs(2, 3)
    layer.weight(0, [layer.size + 2, layer.size])


@kind('crf_decoding')
def crf_decoding(layer):
    layer.need_inputs(1, 2)
    layer.weight(0, [layer.size + 2, layer.size])


@kind('ctc')
def connectionist_temporal_classification(layer, norm_by_times=False):
    layer.need_inputs(2)
    layer.config.norm_by_times = norm_by_times


@kind('warp_ctc')
def warp_ctc(layer, blank=0, norm_by_times=False):
    layer.need_inputs(2)
    layer.config.blank = blank
    layer.config.norm_by_times = norm_by_times
    check(layer.input(0).active_type in ('', 'linear'),
          "warp_ctc layer '%s': its input must have a linear activation", layer.config.name)
