"""Reads the text files of the workloads into the arrays that frameworks want: fixed shapes, padded where they must be."""
import os

import numpy as np


def lines(folder, name='train.txt'):
    with open(os.path.join(folder, name), encoding='utf-8') as text:
        return text.read().splitlines()


def cut(arrays, size):
    """Whole batches of `size` samples."""
    count = len(arrays[0]) // size
    return [tuple(array[i * size:(i + 1) * size] for array in arrays) for i in range(count)]


def w1(folder, size=128):
    labels, words = [], []
    for line in lines(folder):
        label, text = line.split('\t')
        labels.append(int(label))
        words.append([int(word) for word in text.split()])
    return cut((np.array(words, np.int64), np.array(labels, np.int64)), size)


def w2(folder, size=1600, longest=15):
    """(user, gender, age, occupation, movie, genres as 0/1, title padded, mask of the title, rating)"""
    rows = [line.split() for line in lines(folder)]
    ids = [np.array([int(row[column]) for row in rows], np.int64) for column in range(5)]
    genres = np.zeros((len(rows), 18), np.float32)
    title = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros((len(rows), longest), np.float32)
    for i, row in enumerate(rows):
        genres[i, [int(genre) for genre in row[5].split(',')]] = 1
        words = [int(word) for word in row[6].split(',')]
        title[i, :len(words)] = words
        mask[i, :len(words)] = 1
    rating = np.array([float(row[7]) for row in rows], np.float32)
    return cut((*ids, genres, title, mask, rating), size)


def reviews(folder, size=128, most=40):
    """Batches of (list of id arrays, labels) in the order of the file, and the size of the dictionary."""
    ids = {line.split('\t')[0]: number for number, line in enumerate(lines(folder, 'data/dict.txt'))}
    batch, batches = ([], []), []
    for line in lines(folder, 'data/train.txt'):
        label, text = line.split('\t')
        batch[0].append(np.array([ids.get(word, 0) for word in text.split()], np.int64))
        batch[1].append(int(label))
        if len(batch[1]) == size:
            batches.append((batch[0], np.array(batch[1], np.int64)))
            batch = ([], [])
            if len(batches) == most:
                break
    return batches, len(ids)
