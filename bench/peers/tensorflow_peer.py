"""TensorFlow, one process, one thread, compiled graph, on W1 and W2. One JSON line.

Adam touches only the rows of a batch where the gradient is by row (the kinder reading for TensorFlow).
"""
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')

import tensorflow as tf

import samples
import window


def uniform(rows, columns, limit):
    return tf.Variable(tf.random.uniform([rows, columns], -limit, limit, seed=1))


def layer(inputs, outputs=256):
    return uniform(inputs, outputs, (6 / (inputs + outputs)) ** 0.5), tf.Variable(tf.zeros([outputs]))


def tanh(values, parameters):
    return tf.tanh(tf.matmul(values, parameters[0]) + parameters[1])


def bag_of_words():
    words, bias = uniform(30_000, 2, 0.01), tf.Variable(tf.zeros([2]))

    def cost(ids, label):
        scores = tf.reduce_sum(tf.gather(words, ids), 1) + bias
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=scores))

    return cost, [words, bias]


def recommendation():
    tables = [uniform(size, 256, 0.05) for size in (6_041, 2, 7, 21, 3_953, 5_000)]
    layers = [layer(256) for _ in range(5)] + [layer(18), layer(1280), layer(1024), layer(768)]

    def cost(user, gender, age, occupation, movie, genres, title, mask, rating):
        features = [tanh(tf.gather(tables[i], ids), layers[i])
                    for i, ids in enumerate((user, gender, age, occupation, movie))]
        person = tanh(tf.concat(features[:4], 1), layers[7])
        words = tf.pad(tf.gather(tables[5], title) * mask[:, :, None], [[0, 0], [2, 2], [0, 0]])
        places = tf.reshape(tf.concat([words[:, i:i + 15] for i in range(5)], 2), [-1, 1280])
        places = tf.reshape(tanh(places, layers[6]), [-1, 15, 256])
        strongest = tf.reduce_max(places * mask[:, :, None] + (mask[:, :, None] - 1) * 4, 1)
        film = tanh(tf.concat([features[4], tanh(genres, layers[5]), strongest], 1), layers[8])
        likeness = tf.reduce_sum(tf.nn.l2_normalize(person, 1) * tf.nn.l2_normalize(film, 1), 1)
        return tf.reduce_mean(tf.square(5 * likeness - rating))

    return cost, tables + [variable for pair in layers for variable in pair]


def adam(variables, rate):
    """An update function; rows that a batch does not name cost nothing."""
    state = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in variables]
    time = tf.Variable(0.0)

    def rows(gradient, variable, mean, square, factor):
        ids, place = tf.unique(gradient.indices)
        total = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(ids))
        new_mean = 0.9 * tf.gather(mean, ids) + 0.1 * total
        new_square = 0.999 * tf.gather(square, ids) + 0.001 * total * total
        mean.scatter_update(tf.IndexedSlices(new_mean, ids))
        square.scatter_update(tf.IndexedSlices(new_square, ids))
        variable.scatter_sub(tf.IndexedSlices(factor * new_mean / (tf.sqrt(new_square) + 1e-8), ids))

    def update(gradients):
        time.assign_add(1.0)
        factor = rate * tf.sqrt(1 - tf.pow(0.999, time)) / (1 - tf.pow(0.9, time))
        for gradient, variable, (mean, square) in zip(gradients, variables, state):
            if isinstance(gradient, tf.IndexedSlices):
                rows(gradient, variable, mean, square, factor)
            else:
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle, m=mean.handle, v=square.handle, beta1_power=tf.pow(0.9, time),
                    beta2_power=tf.pow(0.999, time), lr=rate, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=gradient)

    return update


def main():
    options = window.arguments(['w1', 'w2'])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    bags = options.workload == 'w1'
    batches = samples.w1(options.folder) if bags else samples.w2(options.folder)
    cost, variables = bag_of_words() if bags else recommendation()
    update = adam(variables, 2e-3 if bags else 1e-4)

    @tf.function
    def step(*batch):
        with tf.GradientTape() as tape:
            value = cost(*batch)
        update(tape.gradient(value, variables))
        return value

    batches = [tuple(tf.constant(array) for array in batch) for batch in batches]
    result = window.measure(lambda batch: step(*batch), batches, 128 if bags else 1600, options.cpu_seconds)
    window.report(f'TensorFlow {tf.__version__}', result)


main()
