"""The native half of the package. Use `canoe`."""

from os import PathLike
from typing import Optional, TypedDict, Union

__version__: str

_Path = Union[str, 'PathLike[str]']
_Array = tuple[bool, bytearray, int, Optional[bytearray], Optional[bytearray]]

class _Input(TypedDict):
    name: str
    expects: str
    kind: str
    level: int
    size: int
    words: bool

class _Output(TypedDict):
    name: str
    width: int
    classes: bool
    labels: Optional[list[str]]

class _Parameter(TypedDict):
    name: str
    shape: list[int]
    readable: str

class _Curve(TypedDict):
    node: int
    metric: str
    test: bool
    samples: bytearray
    time: bytearray
    values: bytearray

class _Curves(TypedDict):
    output: PathLike[str]
    curves: list[_Curve]

class Error(Exception):
    """A model, a job or a program of canoe failed; the text says why."""

class Model:
    def __new__(
        cls,
        path: _Path,
        *,
        python: _Path,
        job: Optional[_Path] = None,
        config: Optional[_Path] = None,
        config_args: str = '',
        outputs: list[str] = [],
        types: list[tuple[str, str]] = [],
        dictionaries: list[tuple[str, str]] = [],
        unknown: Optional[str] = None,
        labels: list[tuple[str, str]] = [],
        seed: int = 1,
    ) -> Model: ...
    @property
    def directory(self) -> PathLike[str]: ...
    @property
    def inputs(self) -> list[_Input]: ...
    @property
    def outputs(self) -> list[_Output]: ...
    def predict(self, columns: list[tuple[object, ...]], batch_size: int, threads: int) -> list[_Array]: ...
    def parameters(self) -> list[_Parameter]: ...
    def parameter(self, at: int) -> bytearray: ...
    def rows(self, at: int) -> Optional[list[str]]: ...

def curves(path: _Path) -> _Curves: ...
