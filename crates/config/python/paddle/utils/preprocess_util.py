"""Batches of training data on disk: a folder per class goes in, pickled batches and lists of them come out."""

import collections
import math
import os
import pickle
import random


def save_file(data, filename):
    """Pickles data; protocol 2 can be read by Python 2, too."""
    with open(filename, 'wb') as out:
        pickle.dump(data, out, protocol=2)


def save_list(l, outfile):
    """Writes texts, one per line."""
    with open(outfile, 'w') as out:
        out.write('\n'.join(l))


def exclude_pattern(f):
    """Whether a file is hidden or a backup."""
    return f.startswith('.') or f.endswith('~')


def _entries(path, wanted):
    places = [os.path.join(path, name) for name in sorted(os.listdir(path)) if not exclude_pattern(name)]
    return [place for place in places if wanted(place)]


def list_dirs(path):
    """The folders in a folder."""
    return _entries(path, os.path.isdir)


def list_files(path):
    """The files in a folder."""
    return _entries(path, os.path.isfile)


def list_images(path, exts=frozenset(['jpg', 'png', 'bmp', 'jpeg'])):
    """The images in a folder, by the ends of their names."""
    return [each for each in list_files(path) if os.path.splitext(each)[1][1:] in exts]


def get_label_set_from_dir(path):
    """A number for each folder, in order of names."""
    return {os.path.basename(each): number for number, each in enumerate(list_dirs(path))}


class Label(object):
    """A class: its number and name."""

    def __init__(self, label, name):
        self.label = label
        self.name = name

    def convert_to_paddle_format(self):
        """What a batch holds."""
        return int(self.label)

    def __hash__(self):
        return hash(self.label)


class Dataset(object):
    """Samples, each a tuple with one part per key; parts have `convert_to_paddle_format`."""

    def __init__(self, data, keys):
        self.data = data
        self.keys = keys

    def check_valid(self):
        """Refuses samples with more or fewer parts."""
        for sample in self.data:
            if len(sample) != len(self.keys):
                raise ValueError('a sample has %d parts, but there are %d keys' % (len(sample), len(self.keys)))

    def permute(self, key_id, num_per_batch):
        """Shuffles; with a key, so that every batch has its share of each of that key's labels."""
        if key_id is None:
            self.uniform_permute()
        else:
            self.permute_by_key(key_id, num_per_batch)

    def uniform_permute(self):
        """Shuffles."""
        random.shuffle(self.data)

    def permute_by_key(self, key_id, num_per_batch):
        """Shuffles within labels, then takes equal numbers of all labels in turn."""
        by_label = collections.OrderedDict()
        for sample in self.data:
            by_label.setdefault(sample[key_id].label, []).append(sample)
        for samples in by_label.values():
            random.shuffle(samples)
        share = int(math.ceil(num_per_batch / float(max(1, len(by_label)))))
        if share < 2:
            raise ValueError('batches of %d are too small for %d labels' % (num_per_batch, len(by_label)))
        self.data = []
        longest = max([0] + [len(samples) for samples in by_label.values()])
        for begin in range(0, longest, share):
            for samples in by_label.values():
                self.data += samples[begin:begin + share]


class DataBatcher(object):
    """Writes the batches of training and test data, and their lists."""

    def __init__(self, train_data, test_data, label_set):
        if train_data.keys != test_data.keys:
            raise ValueError('training data have keys %s, test data %s' % (train_data.keys, test_data.keys))
        self.train_data = train_data
        self.test_data = test_data
        self.label_set = label_set
        self.num_per_batch = 5000

    def create_batches_and_list(self, output_path, train_list_name, test_list_name, label_set_name):
        """Writes everything below a folder."""
        for data, prefix, name in ((self.train_data, 'train_', train_list_name), (self.test_data, 'test_', test_list_name)):
            save_list(self.create_batches(data, output_path, prefix, self.num_per_batch), os.path.join(output_path, name))
        save_file(self.label_set, os.path.join(output_path, label_set_name))

    def create_batches(self, data, output_path, prefix='', num_data_per_batch=5000):
        """Writes batches, each a dictionary with a list per key; returns their names."""
        data.check_valid()
        names = []
        for number, begin in enumerate(range(0, len(data.data), num_data_per_batch)):
            samples = data.data[begin:begin + num_data_per_batch]
            names.append(os.path.join(output_path, '%sbatch_%03d' % (prefix, number)))
            save_file({key: [sample[place].convert_to_paddle_format() for sample in samples]
                       for place, key in enumerate(data.keys)}, names[-1])
        return names


class DatasetCreater(object):
    """Makes batches of a folder with `train` and `test`; derived classes read data sets and write the meta file."""

    def __init__(self, data_path):
        self.data_path = data_path
        self.train_dir_name = 'train'
        self.test_dir_name = 'test'
        self.batch_dir_name = 'batches'
        self.num_per_batch = 50000
        self.meta_filename = 'batches.meta'
        self.train_list_name = 'train.list'
        self.test_list_name = 'test.list'
        self.label_set_name = 'labels.pkl'
        self.output_path = os.path.join(data_path, self.batch_dir_name)
        self.overwrite = False
        self.permutate_key = 'labels'
        self.from_list = False

    def _left_to_a_derived_class(self, method):
        """The error of a method that only a class for one kind of data can have."""
        return TypeError('%s has no %s: derive a class from DatasetCreater that defines it, as ImageClassificationDatasetCreater does for images'
                         % (type(self).__name__, method))

    def create_meta_file(self, data):
        """Writes what training needs to know of the data."""
        raise self._left_to_a_derived_class('create_meta_file')

    def create_dataset(self, path):
        """A `Dataset` and its labels."""
        return self.create_dataset_from_list(path) if self.from_list else self.create_dataset_from_dir(path)

    def create_dataset_from_list(self, path):
        """A `Dataset` and its labels, from a list of files."""
        raise self._left_to_a_derived_class('create_dataset_from_list')

    def create_dataset_from_dir(self, path):
        """A `Dataset` and its labels, from a folder."""
        raise self._left_to_a_derived_class('create_dataset_from_dir')

    def create_batches(self):
        """Writes batches, lists and the meta file, unless they are there."""
        if not os.path.exists(self.output_path):
            os.makedirs(self.output_path)
        if not self.overwrite and os.path.exists(os.path.join(self.output_path, self.train_list_name)):
            return
        train, labels = self.create_dataset(os.path.join(self.data_path, self.train_dir_name))
        test, test_labels = self.create_dataset(os.path.join(self.data_path, self.test_dir_name))
        if labels != test_labels:
            raise ValueError('training data have the labels %s, test data %s' % (sorted(labels), sorted(test_labels)))
        train.permute(train.keys.index(self.permutate_key), self.num_per_batch)
        batcher = DataBatcher(train, test, labels)
        batcher.num_per_batch = self.num_per_batch
        batcher.create_batches_and_list(self.output_path, self.train_list_name, self.test_list_name, self.label_set_name)
        self.num_classes = len(labels)
        self.create_meta_file(train)
