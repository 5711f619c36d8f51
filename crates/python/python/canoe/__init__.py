"""Canoe from Python: trained models in use, records of jobs as arrays, and training.

    >>> import canoe
    >>> model = canoe.load('demo')
    >>> model.predict(['the sound is great , i love it']).labels()
    ['pos']

- `load` opens a model; `Model.predict` computes samples, `Model.parameters` has its values.
- `read_job` reads the record of a job: events, and curves as arrays.
- `run` trains a job folder, `train` runs one trainer; both return the events while it runs.
- `program` is the path of the command line, which is part of this package.
"""

from canoe._core import Error, __version__
from canoe._job import Curve, Job, read_job
from canoe._model import Input, Model, Output, Parameters, Predictions, load
from canoe._process import Process, program, run, train

__all__ = [
    'Curve', 'Error', 'Input', 'Job', 'Model', 'Output', 'Parameters', 'Predictions', 'Process', '__version__', 'load',
    'program', 'read_job', 'run', 'train',
]
