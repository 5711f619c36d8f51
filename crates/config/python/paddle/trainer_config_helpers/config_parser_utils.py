"""Evaluate a configuration from Python."""

from paddle.trainer.config_parser import parse_config

__all__ = ['parse_trainer_config', 'parse_network_config', 'parse_optimizer_config']


def parse_trainer_config(trainer_conf, config_arg_str=''):
    """The whole record."""
    return parse_config(trainer_conf, config_arg_str)


def parse_network_config(network_conf, config_arg_str=''):
    """The record of the network."""
    return parse_config(network_conf, config_arg_str).model_config


def parse_optimizer_config(optimizer_conf, config_arg_str=''):
    """The record of the optimization."""
    return parse_config(optimizer_conf, config_arg_str).opt_config
