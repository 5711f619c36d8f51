"""How a description grows.

In reading order: `message` (records with v1's field names), `job` (what one configuration file has said so far),
`inputs` (edges, projections, operators), `geometry` (shapes of images), `layer` (one layer under construction),
`kinds` (what each layer type adds), `groups` (recurrent groups and memories), `evaluate` (runs a user's file).
"""
