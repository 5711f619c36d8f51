"""bench/groups/translation.py in PyTorch, forward and backward, in two forms of which the faster counts: every step on
the whole padded batch, or only on the sentences that still run (sorted by length). Words that are only padding never
reach the output layer. `beam=N` generates instead, with states, scores and words of all paths in matrices; `products`
measures the product with all words alone, as crates/nn/examples/products.rs does.

    translation_peer.py train|beam=N|products [--words 30000] [--size 512] [--batch 50] [--length 30]
"""
import argparse
import time

import torch
import window
from torch import nn
from torch.nn.utils import rnn


def lengths(batch, factor):
    """The lengths that crates/nn/examples/groups.rs uses, too."""
    return [10 + (sample * factor) % 41 for sample in range(batch)]


def sentences(sizes, words):
    return [torch.tensor([2 + (sample * 131 + at * 7919) % (words - 2) for at in range(size)])
            for sample, size in enumerate(sizes)]


class Translation(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.source, self.target = nn.Embedding(words, size), nn.Embedding(words, size)
        self.encoder = nn.GRU(size, size, bidirectional=True, batch_first=True)
        self.project, self.boot = nn.Linear(2 * size, size, bias=False), nn.Linear(size, size, bias=False)
        self.state, self.score = nn.Linear(size, size, bias=False), nn.Linear(size, 1, bias=False)
        self.cell, self.out = nn.GRUCell(3 * size, size), nn.Linear(size, words)

    def encode(self, source, sizes):
        packed = rnn.pack_padded_sequence(self.source(source), sizes, batch_first=True, enforce_sorted=False)
        encoded, _ = rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mask = torch.arange(encoded.shape[1])[None, :] >= sizes[:, None]
        return encoded, self.project(encoded), mask, torch.tanh(self.boot(encoded[:, 0, encoded.shape[2] // 2:]))

    def step(self, encoded, projected, mask, state, word):
        scores = self.score(torch.tanh(projected + self.state(state)[:, None, :]))[:, :, 0]
        weights = scores.masked_fill(mask, float('-inf')).softmax(1)
        context = torch.bmm(weights[:, None, :], encoded)[:, 0]
        return self.cell(torch.cat([context, word], 1), state)

    def decode_padded(self, source, sizes, target, running):
        encoded, projected, mask, state = self.encode(source, sizes)
        words, states = self.target(target), []
        for at in range(target.shape[1]):
            state = self.step(encoded, projected, mask, state, words[:, at])
            states.append(state)
        valid = torch.arange(target.shape[1])[None, :] < running[:, None]
        return torch.stack(states, 1)[valid], valid

    def decode_shrinking(self, source, sizes, target, running):
        """Sentences are sorted by the length of their translation, the longest first."""
        encoded, projected, mask, state = self.encode(source, sizes)
        words, states = self.target(target), []
        for at in range(target.shape[1]):
            count = int((running > at).sum())
            state = self.step(encoded[:count], projected[:count], mask[:count], state[:count], words[:count, at])
            states.append(state)
        valid = torch.arange(target.shape[1])[:, None] < running[None, :]
        return torch.cat(states), valid


def train(options):
    network = Translation(options.words, options.size)
    order = sorted(range(options.batch), key=lambda sample: -lengths(options.batch, 11)[sample])
    source_sizes = [lengths(options.batch, 7)[sample] for sample in order]
    target_sizes = [lengths(options.batch, 11)[sample] for sample in order]
    source = rnn.pad_sequence(sentences(source_sizes, options.words), batch_first=True)
    target = rnn.pad_sequence(sentences(target_sizes, options.words), batch_first=True)
    sizes, running = torch.tensor(source_sizes), torch.tensor(target_sizes)
    following = target.roll(-1, 1)
    cost = nn.CrossEntropyLoss(reduction='sum')

    def stepper(decode, transposed):
        def step(_):
            network.zero_grad(set_to_none=True)
            states, valid = decode(source, sizes, target, running)
            labels = (following.t() if transposed else following)[valid]
            loss = cost(network.out(states), labels)
            loss.backward()
            return loss.detach()
        return step

    forms = (stepper(network.decode_padded, False), stepper(network.decode_shrinking, True))
    return max((window.measure(form, [None], options.batch, options.cpu_seconds, 1) for form in forms),
               key=lambda result: result['samples'] / result['cpu_s'])


def generate(options, beam):
    network = Translation(options.words, options.size)
    source_sizes = lengths(options.batch, 7)
    source = rnn.pad_sequence(sentences(source_sizes, options.words), batch_first=True)
    sizes, batch = torch.tensor(source_sizes), options.batch

    def search(_):
        with torch.inference_mode():
            encoded, projected, mask, state = (part.repeat_interleave(beam, 0) for part in network.encode(source, sizes))
            scores = torch.full((batch, beam), float('-inf'))
            scores[:, 0] = 0
            last, history = torch.zeros(batch * beam, dtype=torch.long), []
            first = torch.arange(batch)[:, None] * beam
            for _ in range(options.length):
                state = network.step(encoded, projected, mask, state, network.target(last))
                gains = network.out(state).log_softmax(1).view(batch, beam, -1)
                best, gain_places = gains.topk(beam, 2)
                best = (best + scores[:, :, None]).view(batch, -1)
                scores, chosen = best.topk(beam, 1)
                parents = chosen // beam
                last = gain_places.view(batch, -1).gather(1, chosen).view(-1)
                rows = (first + parents).view(-1)
                state = state[rows]
                history.append((rows, last))
            return scores.sum()

    return window.measure(search, [None], batch, options.cpu_seconds, 1)


def products(options):
    weight = torch.rand(options.words, options.size) - 0.5
    for rows in (30, 100, 500):
        x, y = torch.rand(rows, options.size) - 0.5, torch.empty(rows, options.words)
        to_x, to_weight = torch.empty_like(x), torch.empty_like(weight)
        for what, product in (('value', lambda: torch.mm(x, weight.t(), out=y)),
                              ('gradient of the rows', lambda: torch.mm(y, weight, out=to_x)),
                              ('gradient of the weight', lambda: torch.mm(y.t(), x, out=to_weight))):
            times = []
            for _ in range(6):
                start = time.process_time()
                product()
                times.append(time.process_time() - start)
            best, operations = min(times[1:]), 2 * rows * options.words * options.size
            print(f'{rows:4} rows, {what:22}: {best * 1e3:6.1f} ms, {operations / best / 1e9:5.1f} GFLOPS')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('workload')
    parser.add_argument('folder', nargs='?')
    parser.add_argument('--words', type=int, default=30000)
    parser.add_argument('--size', type=int, default=512)
    parser.add_argument('--batch', type=int, default=50)
    parser.add_argument('--length', type=int, default=30)
    parser.add_argument('--cpu-seconds', type=float, default=4.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.workload == 'products':
        return products(options)
    beam = options.workload.startswith('beam=') and int(options.workload[5:])
    window.report(f'PyTorch {torch.__version__}', generate(options, beam) if beam else train(options))


main()
