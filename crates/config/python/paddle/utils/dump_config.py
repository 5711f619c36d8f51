"""Prints what a configuration describes: `python -m paddle.utils.dump_config CONFIG [ARGUMENTS] [--whole]`."""

import sys

from paddle.trainer.config_parser import parse_config


def main(arguments):
    """The command."""
    if not 1 <= len(arguments) <= 3:
        sys.exit('usage: python -m paddle.utils.dump_config CONFIG [ARGUMENTS] [--whole]')
    config = parse_config(arguments[0], arguments[1] if len(arguments) > 1 else '')
    print(config if arguments[2:] == ['--whole'] else config.model_config)


if __name__ == '__main__':
    main(sys.argv[1:])
