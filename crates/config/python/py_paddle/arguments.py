"""`Arguments`: what goes into a network or comes out of it, slot by slot."""

from py_paddle.errors import RangeError


class Slot(object):
    """A matrix or ids, and where sequences and sub-sequences start in their rows."""
    __slots__ = ['value', 'ids', 'inner', 'grad', 'sequences', 'subsequences', 'dims']

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, None)


class Arguments(object):
    """A list of slots with v1's getters and setters."""

    def __init__(self, slots):
        self.slots = slots

    @staticmethod
    def createArguments(slotNum):
        """So many empty slots."""
        return Arguments([Slot() for _ in range(slotNum)])

    def resize(self, slotNum):
        """More empty slots, or fewer."""
        del self.slots[slotNum:]
        while len(self.slots) < slotNum:
            self.slots.append(Slot())

    def getSlotNum(self):
        """How many there are."""
        return len(self.slots)

    def slot(self, index):
        """One slot."""
        if not 0 <= index < len(self.slots):
            raise RangeError('slot %d of %d' % (index, len(self.slots)))
        return self.slots[index]

    def sum(self):
        """The sum of all values, which for a cost layer is the cost."""
        return sum(sum(slot.value.getData()) for slot in self.slots if slot.value is not None)


def _accessors(field):
    def get(self, idx):
        return getattr(self.slot(idx), field)

    def put(self, idx, value):
        setattr(self.slot(idx), field, value)
    return get, put


for _name, _field in (('Value', 'value'), ('Ids', 'ids'), ('In', 'inner'), ('Grad', 'grad'), ('SequenceDim', 'dims'),
                      ('SequenceStartPositions', 'sequences'), ('SubSequenceStartPositions', 'subsequences')):
    _get, _put = _accessors(_field)
    _get.__doc__ = 'The %s of a slot, or None.' % _field
    _put.__doc__ = 'Sets the %s of a slot.' % _field
    setattr(Arguments, 'getSlot' + _name, _get)
    setattr(Arguments, 'setSlot' + _name, _put)
