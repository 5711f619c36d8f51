"""Builds the description of a job while the user's file runs.

In reading order: `message` (records with v1's field names), `job` (everything that one configuration file has
described so far), `inputs` (edges, projections, operators), `geometry` (shapes of images), `layer` (one layer under
construction), `kinds` (what each layer type adds), `groups` (recurrent groups and memories), `evaluate` (runs a
user's file).
"""
