"""The native half of the package. Use `canoe`."""

from os import PathLike
from typing import Optional, Union

__version__: str

_Path = Union[str, 'PathLike[str]']
_Array = tuple[bool, bytearray, int, Optional[bytearray], Optional[bytearray]]

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
    def inputs(self) -> list[tuple[str, str, str, int, int, bool]]: ...
    @property
    def outputs(self) -> list[tuple[str, int, bool, Optional[list[str]]]]: ...
    def predict(self, columns: list[tuple[object, ...]], batch_size: int, threads: int) -> list[_Array]: ...
    def parameters(self) -> list[tuple[str, list[int], str, bool]]: ...
    def parameter(self, at: int) -> bytearray: ...
    def rows(self, at: int) -> Optional[list[str]]: ...

def curves(path: _Path) -> tuple[PathLike[str], list[tuple[int, str, bool, bytearray, bytearray, bytearray]]]: ...
