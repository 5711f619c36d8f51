"""A job that the installed package itself made and trained."""

import subprocess

import canoe
import pytest


@pytest.fixture(scope='session')
def job(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('job') / 'job')
    subprocess.run([canoe.program(), 'demo', 'quick_start', folder, '--train-samples=200', '--test-samples=40'], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope='session')
def trained(job):
    """The job after two passes on two nodes, and its events."""
    events = list(canoe.run(job, nodes=2, passes=2, config='trainer_config.emb.py'))
    return job, events


@pytest.fixture(scope='session')
def model(trained):
    return canoe.load(trained[0], labels=trained[0] + '/data/labels.list')
