"""The configuration language of PaddlePaddle v1, as Canoe understands it.

A user's `trainer_config.py` imports this package, describes a network, and the description leaves as JSON.
Nothing here computes: see `paddle.core` for how a description grows, `paddle.trainer_config_helpers` for the
functions that users call, `paddle.trainer.config_parser` for the older raw vocabulary.
"""
