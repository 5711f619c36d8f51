"""Models: samples in, arrays out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy

from canoe import _core

Path = Union[str, 'os.PathLike[str]']
#: What an output holds: an array with a row per sample, or one array per sample if samples are sequences.
Array = Union[numpy.ndarray, 'list[Any]']


@dataclass(frozen=True)
class Input:
    """An input of a model: a data layer."""

    name: str
    #: What a sample has to give, in words.
    expects: str
    #: `ids`, `dense`, `binary` or `sparse`.
    kind: str
    #: 0, 1 for sequences, 2 for sequences of sequences.
    level: int
    #: Number of different ids, or length of a vector.
    size: int
    #: Whether words may be given in place of ids.
    words: bool


@dataclass(frozen=True)
class Output:
    """An output of a model."""

    name: str
    width: int
    #: Whether a row is a distribution over classes.
    classes: bool
    #: Names of the classes, if there are any.
    labels: Optional[list[str]]


def load(
    path: Path,
    *,
    outputs: Sequence[str] = (),
    labels: Union[Path, Mapping[str, Path], None] = None,
    types: Optional[Mapping[str, str]] = None,
    dictionaries: Optional[Mapping[str, Path]] = None,
    unknown: Union[str, int, None] = None,
    job: Optional[Path] = None,
    config: Optional[Path] = None,
    config_args: str = '',
    python: Optional[Path] = None,
    seed: int = 1,
) -> Model:
    """Opens a model: a pass directory, an output folder or job folder (its best or last pass), or a merged model.

    outputs: the output layers, instead of those of the configuration.
    labels: a file with the names of classes, or one per output layer.
    types: types of data layers (`{'word': 'integer_value_sequence'}`), for configurations without a data source.
    dictionaries: files with the words of data layers, instead of those of the data provider.
    unknown: what becomes of unknown words: an id, 'drop' or 'refuse'.
    job, config, config_args: job folder and configuration, if they are not found by themselves; values for
        `get_config_arg`.
    python: the interpreter that evaluates the configuration; by default this one.
    seed: the job's seed; it matters only for rows of sparse tables that no batch has touched.
    """
    if labels is None:
        named = []
    elif isinstance(labels, Mapping):
        named = [(name, os.fspath(file)) for name, file in labels.items()]
    else:
        named = [('', os.fspath(labels))]
    core = _core.Model(
        path,
        python=python or sys.executable,
        job=job,
        config=config,
        config_args=config_args,
        outputs=list(outputs),
        types=list((types or {}).items()),
        dictionaries=[(name, os.fspath(file)) for name, file in (dictionaries or {}).items()],
        unknown=None if unknown is None else str(unknown),
        labels=named,
        seed=seed,
    )
    return Model(core)


class Model:
    """A trained model. `load` makes one; it may be used by several threads at once."""

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self.inputs = [Input(**each) for each in core.inputs]
        self.outputs = [Output(**each) for each in core.outputs]
        self._parameters: Optional[Parameters] = None

    @property
    def directory(self) -> str:
        """The pass directory."""
        return os.fspath(self._core.directory)

    @property
    def parameters(self) -> Parameters:
        """All parameters of the network, with their true shapes."""
        if self._parameters is None:
            self._parameters = Parameters(self._core)
        return self._parameters

    def predict(self, samples: Any, *, batch_size: int = 128, threads: Optional[int] = None) -> Predictions:
        """Computes samples; the results do not depend on `batch_size` and `threads` (by default, one per core).

        samples: a list of samples, or all of them by input: `{'word': [...], 'pixels': array}`. A sample is a dict with
        a value per input, or just the value if there is one input. A value is text, numbers, lists or a NumPy array,
        as in the JSON of `canoe predict`. What cannot be used raises ValueError with the sample and its field.
        """
        given = self._by_input(samples)
        columns = [_column(field, given[field.name]) for field in self.inputs]
        cores = threads or os.cpu_count() or 1
        arrays = [_array(*each) for each in self._core.predict(columns, batch_size, cores)]
        return Predictions(dict(zip((output.name for output in self.outputs), arrays)), self.outputs)

    def _by_input(self, samples: Any) -> Mapping[str, Any]:
        names = [field.name for field in self.inputs]
        if isinstance(samples, Mapping):
            _check(samples, names, 'the samples')
            return samples
        if isinstance(samples, (str, bytes)):
            raise TypeError('samples are a list: predict([text])')
        listed = isinstance(samples, numpy.ndarray) or not any(isinstance(each, Mapping) for each in samples)
        if listed and len(names) == 1:
            return {names[0]: samples}
        for number, each in enumerate(samples):
            if not isinstance(each, Mapping):
                raise ValueError('sample %d is no dict with the inputs %s' % (number, ', '.join(names)))
            _check(each, names, 'sample %d' % number)
        return {name: [each[name] for each in samples] for name in names}

    def __repr__(self) -> str:
        inputs, outputs = ([each.name for each in part] for part in (self.inputs, self.outputs))
        return '<canoe.Model %s: %s to %s>' % (self.directory, ', '.join(inputs), ', '.join(outputs))


def _check(given: Mapping[str, Any], names: list[str], what: str) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError("%s: field '%s' is missing; the inputs are %s" % (what, missing[0], ', '.join(names)))


def _column(field: Input, values: Any) -> tuple[Any, ...]:
    """The values of an input for the native half: as bytes if all are arrays, else as they are."""
    kind, dtype = ('numbers', numpy.float32) if field.kind == 'dense' else ('ids', numpy.int64)
    if isinstance(values, numpy.ndarray) and values.ndim > 0 and _fits(values, kind) and (
            field.kind != 'sparse' and field.level < 2):
        count = len(values)
        flat = numpy.ascontiguousarray(values, dtype)
        each = flat.size // count if count else 0
        return kind, flat.tobytes(), numpy.full(count, each, numpy.int64).tobytes()
    values = list(values)
    flat_kinds = field.kind == 'dense' or (field.kind == 'ids' and field.level == 1) or (
        field.kind == 'binary' and field.level == 0)
    if values and flat_kinds and field.level < 2 and all(
            isinstance(each, numpy.ndarray) and each.ndim > 0 and _fits(each, kind) for each in values):
        flat = numpy.concatenate([each.reshape(-1) for each in values]).astype(dtype)
        return kind, flat.tobytes(), numpy.array([each.size for each in values], numpy.int64).tobytes()
    return 'values', values


def _fits(array: numpy.ndarray, kind: str) -> bool:
    return array.dtype.kind in ('iuf' if kind == 'numbers' else 'iu')


def _array(ids: bool, data: bytearray, width: int, sequences: Optional[bytearray],
           subsequences: Optional[bytearray]) -> Array:
    rows: numpy.ndarray = numpy.frombuffer(data, numpy.uint32)
    if not ids:
        rows = numpy.frombuffer(data, numpy.float32).reshape(-1, max(width, 1))
    if sequences is None:
        return rows
    starts = numpy.frombuffer(sequences, numpy.uint32).tolist()
    if subsequences is None:
        return [rows[begin:end] for begin, end in zip(starts, starts[1:])]
    inner = numpy.frombuffer(subsequences, numpy.uint32).tolist()
    nested = []
    for begin, end in zip(starts, starts[1:]):
        own = [at for at in inner if begin <= at <= end]
        nested.append([rows[a:b] for a, b in zip(own, own[1:])])
    return nested


class Predictions(Mapping):
    """The outputs of samples by output layer: arrays with a row per sample, or an array per sample for sequences."""

    def __init__(self, arrays: dict[str, Array], outputs: list[Output]) -> None:
        self._arrays = arrays
        self._outputs = {output.name: output for output in outputs}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def labels(self, output: Optional[str] = None) -> list[Any]:
        """The most likely class of each sample, by name if it has one; of each position for sequences.

        output: the output layer; not needed if the model has one.
        """
        if output is None:
            if len(self._arrays) != 1:
                raise ValueError('the model has several outputs: choose one of ' + ', '.join(self._arrays))
            output = next(iter(self._arrays))
        names = self._outputs[output].labels or []

        def label(number: int) -> Union[str, int]:
            return names[number] if number < len(names) and names[number] else number

        def of(part: Any) -> Any:
            if isinstance(part, list):
                return [of(each) for each in part]
            best = part if part.ndim == 1 else part.argmax(1)
            return [label(int(each)) for each in best]

        return of(self._arrays[output])

    def __repr__(self) -> str:
        def shape(array: Array) -> str:
            return '%d sequences' % len(array) if isinstance(array, list) else str(array.shape)

        return '<canoe.Predictions %s>' % ', '.join('%s: %s' % (k, shape(v)) for k, v in self._arrays.items())


class Parameters(Mapping):
    """Parameters by readable name (`fc_layer_0.weight`) or v1's (`___fc_layer_0__.w0`); read when they are asked for."""

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self._at: dict[str, int] = {}
        self._listed = core.parameters()
        for at, listed in enumerate(self._listed):
            self._at[listed['name']] = self._at[listed['readable']] = at

    def __getitem__(self, name: str) -> numpy.ndarray:
        at = self._at[name]
        return numpy.frombuffer(self._core.parameter(at), numpy.float32).reshape(self._listed[at]['shape'])

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return (listed['readable'] for listed in self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by readable name, without reading values."""
        return {listed['readable']: tuple(listed['shape']) for listed in self._listed}

    def v1_name(self, name: str) -> str:
        """v1's name of a parameter, which is that of its file."""
        return self._listed[self._at[name]]['name']

    def words(self, name: str) -> Optional[list[str]]:
        """The words of a table's rows, if its data layer has a dictionary."""
        return self._core.rows(self._at[name])

    def __repr__(self) -> str:
        return '<canoe.Parameters %s>' % ', '.join('%s: %s' % pair for pair in self.shapes.items())
