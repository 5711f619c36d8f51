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
    """Adds an evaluator by the name of its type; the functions of this page call it.

    type: name of the type, such as `classification_error`.
    info: the layer with the query of each sample (`pnpair`).
    chunk_*, num_*, excluded_*, classification_*, positive_*, dict_file, result_file, delimited, top_k: as in the
        other functions.
    """
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
    """The share of samples whose label is not among the largest outputs.

    top_k: how many largest outputs count; by default 1.
    threshold: for a label that is a set of classes: an output above it means "yes".
    """
    evaluator_base(input, 'classification_error', label, weight, name, top_k=top_k,
                   classification_threshold=threshold)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def auc_evaluator(input, label, name=None, weight=None):
    """The area under the ROC curve of the last output."""
    evaluator_base(input, 'last-column-auc', label, weight, name)


@evaluator(EvaluatorAttribute.FOR_RANK)
@wrap_name_default()
def pnpair_evaluator(input, label, info, name=None, weight=None):
    """The number of correctly ordered pairs divided by that of wrongly ordered ones. Pairs are formed within a query.

    info: the layer with the query of each sample.
    """
    evaluator_base(input, 'pnpair', label, weight, name, info=info)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def precision_recall_evaluator(input, label, positive_label=None, weight=None, name=None):
    """Precision, recall and F1.

    positive_label: the class to measure; by default averages over all classes.
    """
    evaluator_base(input, 'precision_recall', label, weight, name, positive_label=positive_label)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def ctc_error_evaluator(input, label, name=None):
    """The edit distance between decoded and true sequences. The blank is the last class."""
    evaluator_base(input, 'ctc_edit_distance', label, name=name)


@evaluator(EvaluatorAttribute.FOR_CLASSIFICATION)
@wrap_name_default()
def chunk_evaluator(input, label=None, chunk_scheme=None, num_chunk_types=None, name=None,
                    excluded_chunk_types=None):
    """F1 of chunks in labelled sequences, such as names of people in a text.

    input: the predicted labels; old files give [output, label] here.
    chunk_scheme: `IOB`, `IOE`, `IOBES` or `plain`.
    num_chunk_types: number of types of chunks.
    excluded_chunk_types: types that do not count.
    """
    if chunk_scheme is None:
        raise ConfigError("chunk_evaluator '%s' needs chunk_scheme and num_chunk_types" % name)
    evaluator_base(input, 'chunk', label, name=name, chunk_scheme=chunk_scheme, num_chunk_types=num_chunk_types,
                   excluded_chunk_types=excluded_chunk_types)


@evaluator(EvaluatorAttribute.FOR_UTILS)
@wrap_name_default()
def sum_evaluator(input, name=None, weight=None):
    """The sum of the input's row, mean over samples."""
    evaluator_base(input, 'sum', weight=weight, name=name)


@evaluator(EvaluatorAttribute.FOR_UTILS)
@wrap_name_default()
def column_sum_evaluator(input, name=None, weight=None):
    """The last column of the input, mean over samples."""
    evaluator_base(input, 'last-column-sum', weight=weight, name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def value_printer_evaluator(input, name=None):
    """Prints the values of a layer."""
    evaluator_base(input, 'value_printer', name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def gradient_printer_evaluator(input, name=None):
    """Prints the gradients of a layer."""
    evaluator_base(input, 'gradient_printer', name=name)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def maxid_printer_evaluator(input, num_results=None, name=None):
    """Prints the ids of the largest values.

    num_results: how many per sample; by default 1.
    """
    evaluator_base(input, 'max_id_printer', name=name, num_results=num_results)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def maxframe_printer_evaluator(input, num_results=None, name=None):
    """Prints the positions of the largest values in sequences of width 1.

    num_results: how many per sequence; by default 1.
    """
    evaluator_base(input, 'max_frame_printer', name=name, num_results=num_results)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def seqtext_printer_evaluator(input, result_file, id_input=None, dict_file=None, delimited=None, name=None):
    """Writes sequences of ids to a file, as text if there is a dictionary.

    result_file: the file to write.
    id_input: a layer with the number of each sample, which is written in front of it.
    dict_file: a file with one word per line.
    delimited: whether words are separated by blanks; by default yes.
    """
    inputs = [input]
    if id_input is not None:
        inputs = [id_input, input]
        input.parents.append(id_input)
    evaluator_base(inputs, 'seq_text_printer', name=name, dict_file=dict_file, result_file=result_file,
                   delimited=delimited)


@evaluator(EvaluatorAttribute.FOR_PRINT)
@wrap_name_default()
def classification_error_printer_evaluator(input, label, threshold=0.5, name=None):
    """Prints the error of every sample.

    threshold: for an output of size 1: above it means class 1.
    """
    evaluator_base(input, 'classification_error_printer', label, name=name, classification_threshold=threshold)
