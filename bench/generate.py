"""Writes the data of W1 and W2: the same text files are read by Canoe and by every peer.

W1: `label<TAB>word word …`, 60 distinct words of 30,000, Zipf distributed, labels from a hidden linear model.
W2: `user gender age occupation movie genre,… word,… rating`, shapes of MovieLens 1M, ratings from latent tastes.

Fixed seed, standard library only. A folder that is already complete is left alone.
"""
import bisect
import itertools
import os
import random

WORDS, WORDS_A_SAMPLE = 30_000, 60
USERS, MOVIES, TITLE_WORDS, GENRES = 6_041, 3_953, 5_000, 18


def zipf(count, exponent):
    """The cumulative weights of a Zipf distribution over `count` ranks."""
    return list(itertools.accumulate(rank ** -exponent for rank in range(1, count + 1)))


def draw(rng, cumulative):
    return bisect.bisect(cumulative, rng.random() * cumulative[-1])


def bag_of_words(folder, samples):
    rng = random.Random(20241)
    cumulative = zipf(WORDS, 1.1)
    names = rng.sample(range(WORDS), WORDS)
    weights = [rng.gauss(0, 1) if rng.random() < 0.2 else 0.0 for _ in range(WORDS)]
    with open(os.path.join(folder, 'dict.txt'), 'w') as out:
        out.writelines(f'{word}\n' for word in range(WORDS))
    with open(os.path.join(folder, 'train.txt'), 'w') as out:
        for _ in range(samples):
            words = set()
            while len(words) < WORDS_A_SAMPLE:
                words.add(names[draw(rng, cumulative)])
            label = int(sum(weights[word] for word in words) + rng.gauss(0, 0.5) > 0)
            out.write(f"{label}\t{' '.join(map(str, sorted(words)))}\n")


def ratings(folder, samples):
    rng = random.Random(20242)
    people = [(rng.randrange(2), rng.randrange(7), rng.randrange(21), taste(rng)) for _ in range(USERS)]
    words = zipf(TITLE_WORDS - 1, 1.0)
    films = [(sorted(rng.sample(range(GENRES), rng.randint(1, 4))),
              [1 + draw(rng, words) for _ in range(rng.randint(5, 15))], taste(rng)) for _ in range(MOVIES)]
    popular = zipf(MOVIES - 1, 0.8)
    with open(os.path.join(folder, 'train.txt'), 'w') as out:
        for _ in range(samples):
            user, movie = rng.randrange(1, USERS), 1 + draw(rng, popular)
            gender, age, occupation, likes = people[user]
            genres, title, offers = films[movie]
            liking = 3 + sum(a * b for a, b in zip(likes, offers)) / 4 + rng.gauss(0, 0.5)
            stars = min(5, max(1, round(liking)))
            out.write(f"{user} {gender} {age} {occupation} {movie} {','.join(map(str, genres))} "
                      f"{','.join(map(str, title))} {stars}\n")


def taste(rng):
    return [rng.gauss(0, 1) for _ in range(8)]


def write(folder, make, samples):
    """Makes one workload's folder, with the list file that names its text; complete or not at all."""
    if os.path.exists(os.path.join(folder, 'train.list')):
        return folder
    os.makedirs(folder, exist_ok=True)
    make(folder, samples)
    with open(os.path.join(folder, 'train.list'), 'w') as out:
        out.write('train.txt\n')
    return folder


def w1(home):
    return write(os.path.join(home, 'w1'), bag_of_words, 25_600)


def w2(home):
    return write(os.path.join(home, 'w2'), ratings, 48_000)
