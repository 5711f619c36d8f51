"""Finds the dictionaries of a provider: which word each id of a slot stands for.

A provider does not declare them; it keeps them in its settings (`settings.word_dict = …`) or gets them as arguments.
A dictionary from text to ids belongs to a slot if its ids are exactly those of the slot. Where several fit one slot,
the one whose name has the slot's name in it, or the other way around, is taken, and none if that does not decide.
"""

from paddle.python2.text import outward

DENSE = 0
UNKNOWN_CONSTANTS = ('UNK_IDX', 'UNK_ID', 'UNKNOWN', 'UNK')
UNKNOWN_WORDS = ('<unk>', '<UNK>', 'unk', 'UNK', '[UNK]', '__unk__')
LARGEST = 20000000


def found(settings, arguments, module):
    """A list of `{"words": [...], "unknown": id or None, "slots": [names]}`."""
    candidates = {}
    for source in (arguments, vars(settings)):
        for name, value in source.items():
            if is_dictionary(value):
                candidates[name] = value
    by_dictionary = {}
    for name, slot in zip(settings.slot_names, settings.slots):
        chosen = choose(name, slot, candidates) if slot.type != DENSE else None
        if chosen is not None:
            by_dictionary.setdefault(id(chosen), (chosen, []))[1].append(name)
    return [{'words': words(chosen), 'unknown': unknown(chosen, module), 'slots': slots}
            for chosen, slots in by_dictionary.values()]


def is_dictionary(value):
    """Whether a value maps text to ids."""
    if not isinstance(value, dict) or not 0 < len(value) <= LARGEST:
        return False
    key, number = next(iter(value.items()))
    if not isinstance(key, str) or not is_id(number):
        return False
    return all(isinstance(key, str) and is_id(number) for key, number in value.items())


def is_id(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def choose(name, slot, candidates):
    """The one dictionary of a slot, or None."""
    fitting = {}
    for own, value in candidates.items():
        if len(value) <= slot.dim and max(value.values()) == slot.dim - 1:
            fitting.setdefault(id(value), (value, []))[1].append(own)
    if len(fitting) > 1:
        fitting = {key: (value, names) for key, (value, names) in fitting.items()
                   if any(own.lower() in name.lower() or name.lower() in own.lower() for own in names)}
    return next(iter(fitting.values()))[0] if len(fitting) == 1 else None


def words(dictionary):
    """The words by id; an id without a word has an empty one."""
    listed = [''] * (max(dictionary.values()) + 1)
    for word, number in dictionary.items():
        listed[number] = text(word)
    return listed


def text(word):
    """A word of a Python 2 file has one character per byte."""
    if all(ord(each) < 128 for each in word):
        return word
    return outward(word).encode('utf-8', 'replace').decode('utf-8')


def unknown(dictionary, module):
    """The id of words that are not in the dictionary, if the provider's module or the dictionary names one."""
    largest = max(dictionary.values())
    for name in UNKNOWN_CONSTANTS:
        value = getattr(module, name, None)
        if is_id(value) and value <= largest:
            return value
    for word in UNKNOWN_WORDS:
        if word in dictionary:
            return dictionary[word]
    return None
