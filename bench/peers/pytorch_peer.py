"""PyTorch, one process, one thread, on W1, W2 and the CNN and LSTM of quick_start. One JSON line.

Embedding gradients are taken dense (Adam as the configuration says) and sparse (SparseAdam on touched rows, no decay);
the faster of the two counts. The LSTM runs on packed sequences, the CNN on a padded batch, as PyTorch users write them.
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

import samples
import window


class BagOfWords(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.words = nn.EmbeddingBag(30_000, 2, mode='sum', sparse=sparse)
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, words):
        return self.words(words) + self.bias


class Recommendation(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        sizes = (6_041, 2, 7, 21, 3_953)
        self.tables = nn.ModuleList(nn.Embedding(size, 256, sparse=sparse) for size in sizes)
        self.embedded = nn.ModuleList(nn.Linear(256, 256) for _ in sizes)
        self.words = nn.Embedding(5_000, 256, sparse=sparse)
        self.genres, self.window = nn.Linear(18, 256), nn.Linear(5 * 256, 256)
        self.user, self.movie = nn.Linear(4 * 256, 256), nn.Linear(3 * 256, 256)

    def forward(self, user, gender, age, occupation, movie, genres, title, mask):
        features = [torch.tanh(layer(table(ids))) for layer, table, ids in
                    zip(self.embedded, self.tables, (user, gender, age, occupation, movie))]
        person = torch.tanh(self.user(torch.cat(features[:4], 1)))
        words = functional.pad(self.words(title) * mask[:, :, None], (0, 0, 2, 2))
        places = torch.cat([words[:, i:i + title.shape[1]] for i in range(5)], 2)
        strongest = torch.tanh(self.window(places)).masked_fill(mask[:, :, None] == 0, -2).amax(1)
        film = torch.tanh(self.movie(torch.cat([features[4], torch.tanh(self.genres(genres)), strongest], 1)))
        return 5 * functional.cosine_similarity(person, film)


class Convolution(nn.Module):
    def __init__(self, vocabulary, sparse):
        super().__init__()
        self.words = nn.Embedding(vocabulary, 128, sparse=sparse)
        self.window, self.out = nn.Conv1d(128, 512, 3, padding=1), nn.Linear(512, 2)

    def forward(self, words, lengths):
        mask = torch.arange(words.shape[1])[None] < lengths[:, None]
        places = (self.words(words) * mask[:, :, None]).transpose(1, 2)
        strongest = self.window(places).masked_fill(~mask[:, None, :], -1e30).amax(2)
        return self.out(strongest)


class Lstm(nn.Module):
    def __init__(self, vocabulary, sparse):
        super().__init__()
        self.words, self.lstm = nn.Embedding(vocabulary, 128, sparse=sparse), nn.LSTM(128, 128, batch_first=True)
        self.drop, self.out = nn.Dropout(0.25), nn.Linear(128, 2)

    def forward(self, words, lengths):
        packed = rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        states, _ = rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, padding_value=-2)
        return self.out(self.drop(states).amax(1))


def padded(words, labels):
    lengths = torch.tensor([len(ids) for ids in words])
    return (rnn.pad_sequence([torch.from_numpy(ids) for ids in words], batch_first=True), lengths,
            torch.from_numpy(labels))


def optimizers(network, sparse, rate, decay):
    tables = [m.weight for m in network.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    if not sparse:
        return [torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay, fused=True)]
    known = {id(table) for table in tables}
    rest = [p for p in network.parameters() if id(p) not in known]
    return [torch.optim.SparseAdam(tables, lr=rate), torch.optim.Adam(rest, lr=rate, weight_decay=decay, fused=True)]


def stepper(network, sparse, cost, rate, decay, clip):
    methods = optimizers(network, sparse, rate, decay)
    dense = [p for p in network.parameters()]

    def step(batch):
        *inputs, target = batch
        for method in methods:
            method.zero_grad(set_to_none=True)
        value = cost(network(*inputs), target)
        value.backward()
        if clip and not sparse:
            nn.utils.clip_grad_value_(dense, clip)
        for method in methods:
            method.step()
        return value.detach()

    return step


def workload(name, folder):
    """(batches, batch size, network maker, cost, learning rate, decay, clipping)"""
    if name == 'w1':
        return tensors(samples.w1(folder)), 128, BagOfWords, nn.CrossEntropyLoss(), 2e-3, 0, None
    if name == 'w2':
        return tensors(samples.w2(folder)), 1600, Recommendation, nn.MSELoss(), 1e-4, 0, None
    batches, vocabulary = samples.reviews(folder)
    kind = {'cnn': Convolution, 'lstm': Lstm}[name]
    return ([padded(*batch) for batch in batches], 128, lambda sparse: kind(vocabulary, sparse), nn.CrossEntropyLoss(),
            2e-3, 8e-4, 25)


def tensors(batches):
    return [tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in batch) for batch in batches]


def main():
    options = window.arguments(['w1', 'w2', 'cnn', 'lstm'])
    torch.set_num_threads(1)
    batches, size, network, cost, rate, decay, clip = workload(options.workload, options.folder)
    results = []
    for sparse in (False, True):
        torch.manual_seed(1)
        step = stepper(network(sparse), sparse, cost, rate, decay, clip)
        results.append(window.measure(step, batches, size, options.cpu_seconds))
    window.report(f'PyTorch {torch.__version__}', max(results, key=lambda r: r['samples'] / r['cpu_s']))


main()
