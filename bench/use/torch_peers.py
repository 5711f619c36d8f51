"""The four networks as one writes them in PyTorch: the same sizes, sequences padded to the longest of the batch. The weights
are random; the LSTM has no peepholes, so it computes a little less than ours."""
import torch
from torch import nn


def padded(rows):
    """Ids, and which positions exist."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, lengths


def strongest(values, lengths):
    """The largest of all positions."""
    absent = torch.arange(values.shape[1])[None, :] >= lengths[:, None]
    return values.masked_fill(absent[:, :, None], -torch.inf).amax(1)


class Lr(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.table, self.bias = nn.EmbeddingBag(words, 2, mode='sum'), nn.Parameter(torch.zeros(2))

    @staticmethod
    def feed(samples):
        rows = [sample['word'] for sample in samples]
        starts = torch.tensor([0] + [len(row) for row in rows[:-1]]).cumsum(0)
        return torch.tensor([each for row in rows for each in row]), starts

    def forward(self, ids, starts):
        return torch.softmax(self.table(ids, starts) + self.bias, 1)


class Convolution(nn.Module):
    def __init__(self, size, width, window):
        super().__init__()
        self.convolution = nn.Conv1d(size, width, window, padding=window // 2)

    def forward(self, values, lengths):
        return strongest(torch.tanh(self.convolution(values.transpose(1, 2))).transpose(1, 2), lengths)


class Cnn(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.table, self.windows, self.out = nn.Embedding(words, 128), Convolution(128, 512, 3), nn.Linear(512, 2)

    @staticmethod
    def feed(samples):
        return padded([sample['word'] for sample in samples])

    def forward(self, ids, lengths):
        exists = (torch.arange(ids.shape[1])[None, :] < lengths[:, None])[:, :, None]
        return torch.softmax(self.out(self.windows(self.table(ids) * exists, lengths)), 1)


class Lstm(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.table, self.lstm, self.out = nn.Embedding(words, 128), nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 2)

    feed = staticmethod(Cnn.feed)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.table(ids), lengths, batch_first=True, enforce_sorted=False)
        steps, lengths = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return torch.softmax(self.out(strongest(steps, lengths)), 1)


class Recommendation(nn.Module):
    """Fields by what their samples are: an id, a sequence of ids (the title), or numbers (the genres)."""

    def __init__(self, sample, sizes):
        super().__init__()
        self.names, parts = list(sample), {}
        for name, value in sample.items():
            if name == 'title':
                parts[name] = nn.ModuleList([nn.Embedding(sizes[name], 256), Convolution(256, 256, 5)])
            elif isinstance(value, list):
                parts[name] = nn.Sequential(nn.Linear(len(value), 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
            else:
                parts[name] = nn.Sequential(nn.Embedding(sizes[name], 256), nn.Linear(256, 256), nn.Tanh())
        self.parts = nn.ModuleDict(parts)
        self.movie, self.user = nn.Linear(3 * 256, 256), nn.Linear((len(self.names) - 3) * 256, 256)

    def feed(self, samples):
        column = lambda name: [sample[name] for sample in samples]
        return [padded(column(name)) if name == 'title' else torch.tensor(column(name)) for name in self.names],

    def forward(self, inputs):
        found = []
        for name, value in zip(self.names, inputs):
            part = self.parts[name]
            found.append(part[1](part[0](value[0]), value[1]) if name == 'title' else part(value))
        movie = torch.tanh(self.movie(torch.cat(found[:3], 1)))
        user = torch.tanh(self.user(torch.cat(found[3:], 1)))
        return 5 * nn.functional.cosine_similarity(movie, user)


def made(name, samples):
    """The network, and what turns samples into its inputs."""
    if name == 'recommendation':
        sizes = {key: 1 + max(max(s[key]) if key == 'title' else s[key] for s in samples)
                 for key, value in samples[0].items() if key == 'title' or not isinstance(value, list)}
        network = Recommendation(samples[0], sizes)
    else:
        words = 1 + max(max(sample['word'], default=0) for sample in samples)
        network = {'lr': Lr, 'cnn': Cnn, 'lstm': Lstm}[name](words)
    return network.eval(), network.feed
