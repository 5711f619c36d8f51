"""v1's Python interface to trained models: what its demos' predict scripts import.

- `dataprovider_converter`: samples of a data provider's types become `Arguments`.
- `arrays`, `arguments`: the values of inputs and outputs.
- `machine`: `GradientMachine`, a network with parameters. It computes through `worker`, a process of `canoe`; that
  is the one module to replace where the network runs inside Python.
- `swig_paddle`: all names under which v1 had them. `util`: reading of parameter files.

Training through this interface (`Trainer`, `ParameterUpdater`, `backward`) is not here: `canoe train` trains.
"""

from py_paddle import swig_paddle, util  # noqa: F401
from py_paddle.dataprovider_converter import DataProviderConverter
from py_paddle.util import loadParameterFile

__all__ = ['swig_paddle', 'DataProviderConverter', 'loadParameterFile']
