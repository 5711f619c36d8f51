"""Reads `user gender age occupation movie genre,genre word,word rating` lines; decoded once, then kept in memory."""
from paddle.trainer.PyDataProvider2 import *


@provider(input_types={
    'user': integer_value(6041), 'gender': integer_value(2), 'age': integer_value(7), 'occupation': integer_value(21),
    'movie': integer_value(3953), 'genres': sparse_binary_vector(18), 'title': integer_value_sequence(5000),
    'rating': dense_vector(1)}, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    with open(file_name) as lines:
        for line in lines:
            user, gender, age, occupation, movie, genres, title, rating = line.split()
            yield {
                'user': int(user), 'gender': int(gender), 'age': int(age), 'occupation': int(occupation),
                'movie': int(movie), 'genres': [int(g) for g in genres.split(',')],
                'title': [int(w) for w in title.split(',')], 'rating': [float(rating)],
            }
