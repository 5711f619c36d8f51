"""Evaluators: what is counted beside the cost."""

from paddle.core.errors import ConfigError
from paddle.trainer.config_parser import Evaluator

from .default_decorators import wrap_name_default

__all__ = ['evaluator_base', 'classification_error_evaluator', 'auc_evaluator', 'pnpair_evaluator',
           'precision_recall_evaluator', 'ctc_error_evaluator', 'chunk_evaluator', 'sum_evaluator',
           'column_sum_evaluator', 'value_printer_evaluator', 'gradient_printer_evaluator', 'maxid_printer_evaluator',
           'maxframe_printer_evaluator', 'seqtext_printer_evaluator', 'classification_error_printer_evaluator']


class EvaluatorAttribute(object):
    """What an evaluator is for."""

    FOR_CLASSIFICATION = 'for_classification'
    FOR_REGRESSION = 'for_regression'
    FOR_RANK = 'for_rank'
    FOR_PRINT = 'for_print'
    FOR_UTILS = 'for_utils'


def evaluator(*purposes):
    """Marks a function as an evaluator."""
    def decorate(function):
        for purpose in purposes:
            setattr(function, purpose, True)
        function.is_evaluator = True
        return function
    return decorate


def evaluator_base(input, type, label=None, weight=None, name=None, chunk_scheme=None, num_chunk_types=None,
                   classification_threshold=None, positive_label=None, dict_file=None, result_file=None,
                   num_results=None, delimited=None, top_k=None, excluded_chunk_types=None, info=None):
    """Adds an evaluator of any type over input, label, info and weight."""
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    inputs += [each for each in (label, info, weight) if each is not None]
    for value, wanted, argument in ((classification_threshold, (float, int), 'classification_threshold'),
                                    (positive_label, int, 'positive_label'), (num_results, int, 'num_results'),
                                    (top_k, int, 'top_k')):
        if value is not None and not isinstance(value, wanted):
            raise ConfigError("evaluator '%s': %s cannot be %r" % (name, argument, value))
    Evaluator(name=name, type=type, inputs=[each.name for each in inputs], chunk_scheme=chunk_scheme,
              num_chunk_types=num_chunk_types, classification_threshold=classification_threshold,
              positive_label=positive_label, dict_file=dict_file, result_file=result_file, delimited=delimited,
              num_results=num_results, top_k=top_k, excluded_chunk_types=excluded_chunk_types)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def classification_error_evaluator(input, label, name=None, weight=None, top_k=None, threshold=None):
    """Share of samples whose label is not among the `top_k` largest outputs."""
    evaluator_base(input, 'classification_error', label, weight, name, top_k=top_k,
                   classification_threshold=threshold)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def auc_evaluator(input, label, name=None, weight=None):
    """Area under the ROC curve of the last output."""
    evaluator_base(input, 'last-column-auc', label, weight, name)


@evaluator(EvaluatorAttribute.FOR_RANK)
@wrap_name_default()
def pnpair_evaluator(input, label, info, name=None, weight=None):
    """Ratio of rightly to wrongly ordered pairs; `info` says which samples belong together."""
    evaluator_base(input, 'pnpair', label, weight, name, info=info)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def precision_recall_evaluator(input, label, positive_label=None, weight=None, name=None):
    """Precision, recall and F1, of one class or over all."""
    evaluator_base(input, 'precision_recall', label, weight, name, positive_label=positive_label)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def ctc_error_evaluator(input, label, name=None):
    """Edit distance of decoded sequences."""
    evaluator_base(input, 'ctc_edit_distance', label, name=name)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def chunk_evaluator(input, label=None, chunk_scheme=None, num_chunk_types=None, name=None,
                    excluded_chunk_types=None):
    """F1 of labelled chunks; `chunk_scheme` is IOB, IOE, IOBES or plain. Old files give [output, label] as input."""
    if chunk_scheme is None:
        raise ConfigError("chunk_evaluator '%s' needs chunk_scheme and num_chunk_types" % name)
    evaluator_base(input, 'chunk', label, name=name, chunk_scheme=chunk_scheme, num_chunk_types=num_chunk_types,
                   excluded_chunk_types=excluded_chunk_types)


@evaluator(EvaluatorAttribute.FOR_UTILS)
@wrap_name_default()
def sum_evaluator(input, name=None, weight=None):
    """Sum of the input."""
    evaluator_base(input, 'sum', weight=weight, name=name)


@evaluator(EvaluatorAttribute.FOR_UTILS)
@wrap_name_default()
def column_sum_evaluator(input, name=None, weight=None):
    """Sum of the last column of the input."""
    evaluator_base(input, 'last-column-sum', weight=weight, name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def value_printer_evaluator(input, name=None):
    """Prints values."""
    evaluator_base(input, 'value_printer', name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def gradient_printer_evaluator(input, name=None):
    """Prints gradients."""
    evaluator_base(input, 'gradient_printer', name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def maxid_printer_evaluator(input, num_results=None, name=None):
    """Prints the ids of the largest values."""
    evaluator_base(input, 'max_id_printer', name=name, num_results=num_results)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def maxframe_printer_evaluator(input, num_results=None, name=None):
    """Prints the positions of the largest values of sequences of width 1."""
    evaluator_base(input, 'max_frame_printer', name=name, num_results=num_results)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def seqtext_printer_evaluator(input, result_file, id_input=None, dict_file=None, delimited=None, name=None):
    """Writes generated sequences as text to `result_file`."""
    inputs = [input]
    if id_input is not None:
        inputs = [id_input, input]
        input.parents.append(id_input)
    evaluator_base(inputs, 'seq_text_printer', name=name, dict_file=dict_file, result_file=result_file,
                   delimited=delimited)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def classification_error_printer_evaluator(input, label, threshold=0.5, name=None):
    """Prints the error of every sample."""
    evaluator_base(input, 'classification_error_printer', label, name=name, classification_threshold=threshold)
