"""The second edition of the API, which this program does not have; the import says what there is instead."""

raise ImportError('paddle.v2 is not part of Canoe, which runs configurations of the first edition: describe the network '
                  'in a configuration file and train it with `canoe train --config=FILE`')
