import os
import subprocess
import sys

import canoe
import numpy
import pytest


def test_a_run_streams_its_events(trained):
    job, events = trained
    kinds = {event['kind'] for event in events}
    assert {'run', 'start', 'pass_started', 'batch', 'pass_finished'} <= kinds, kinds
    assert {event['process'] for event in events} >= {'runner', 'node_0/train', 'node_1/train', 'node_0/server'}
    assert sum(event['kind'] == 'pass_finished' for event in events) == 4


def test_a_record_has_events_and_curves_as_arrays(trained):
    job = canoe.read_job(trained[0])
    cost = job.curve('cost')
    assert len(cost) > 0 and isinstance(cost.values, numpy.ndarray)
    assert cost.samples.shape == cost.time.shape == cost.values.shape
    assert (numpy.diff(cost.samples) >= 0).all() and numpy.isfinite(cost.values).all()
    assert set(node for _, _, node in job.curves) == {0, 1}
    assert 'cost' in job.metrics and len(job.curve('cost', test=True)) == 2
    recorded = [(event['t'], event['kind']) for event in job.events]
    assert recorded == sorted(recorded, key=lambda one: one[0])
    assert len(job.events) >= len(trained[1])
    with pytest.raises(KeyError, match='cost'):
        job.curve('nothing')


def test_a_trainer_streams_its_events_and_can_be_stopped(job, tmp_path):
    with canoe.train('quick_start/trainer_config.lr.py', save_dir=tmp_path / 'saved', passes=1000000, directory=job) as process:
        for event in process:
            if event['kind'] == 'saved':
                break
        assert process.running
    assert not process.running
    assert canoe.load(tmp_path / 'saved', job=job).predict(['great'])


def test_a_failure_is_raised_with_what_the_program_said(tmp_path):
    with pytest.raises(canoe.Error, match='config'):
        canoe.train('nothing.py', save_dir=tmp_path / 'saved', directory=tmp_path).wait()
    with pytest.raises(canoe.Error, match='nothing'):
        list(canoe.run(tmp_path / 'nothing'))
    with pytest.raises(canoe.Error, match='no record'):
        canoe.read_job(tmp_path)


def test_the_command_line_is_there(tmp_path):
    version = subprocess.run([canoe.program(), '--version'], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert version.split() == ['canoe', canoe.__version__]
    by_module = subprocess.run([sys.executable, '-m', 'canoe', '--version'], stdout=subprocess.PIPE, check=True, text=True)
    assert by_module.stdout == version
    assert os.path.dirname(canoe.program()) == os.path.dirname(sys.executable)


def test_v1s_packages_compute_without_a_search_path(trained):
    script = '''
import numpy
from paddle.trainer.config_parser import parse_config
from paddle.trainer.PyDataProvider2 import integer_value_sequence
from py_paddle import swig_paddle, DataProviderConverter
swig_paddle.initPaddle('--use_gpu=0')
config = parse_config('quick_start/trainer_config.emb.py', 'is_predict=1')
machine = swig_paddle.GradientMachine.createFromConfigProto(config.model_config)
machine.loadParameters(%r)
converter = DataProviderConverter([integer_value_sequence(sum(1 for _ in open('data/dict.txt')))])
value = machine.forwardTest(converter([[[4, 9, 7]]]))[-1]['value']
assert value.shape == (1, 2) and abs(value.sum() - 1) < 1e-5, value
'''
    directory = canoe.load(trained[0]).directory
    environment = {name: value for name, value in os.environ.items() if name not in ('CANOE', 'PYTHONPATH')}
    subprocess.run([sys.executable, '-c', script % directory], check=True, cwd=trained[0],
                   env=dict(environment, PATH='/usr/bin:/bin'))
