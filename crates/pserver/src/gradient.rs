//! Gradients of a dense piece as they wait for their step: received whole, or left where a trainer on this host laid
//! them down. Either way they are read block by block, in the cache, when the step is applied.

use std::sync::Arc;
use wire::gaps;
use wire::shared::Region;

/// A gradient that waits for the others.
#[derive(Debug)]
pub enum Held {
    /// The values of all blocks, one after another.
    Whole(Vec<f32>),
    /// In the outbox of a trainer on this host.
    Placed(Placed),
}

/// A gradient in an outbox.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The memory.
    pub outbox: Arc<Region>,
    /// Where the gradient begins.
    pub at: usize,
    /// Which parts of each block are there, if the gradient has gaps.
    pub masks: Option<Vec<u64>>,
}

/// Gives the next block of a gradient that arrives.
pub type Receive<'a, E> = Box<dyn FnMut(&mut [f32]) -> Result<(), E> + 'a>;

/// Reads one gradient, block after block.
pub enum Source<'a, E> {
    /// Out of memory.
    Held(&'a [f32]),
    /// Out of an outbox.
    Placed(&'a Placed, Cursor),
    /// From a connection, as it arrives.
    Arriving(Receive<'a, E>),
}

/// How far an outbox has been read.
#[derive(Debug, Default)]
pub struct Cursor {
    values: usize,
    blocks: usize,
}

impl<'a, E> Source<'a, E> {
    /// From the beginning of a gradient that waits.
    pub fn of(held: &'a Held) -> Self {
        match held {
            Held::Whole(values) => Self::Held(values),
            Held::Placed(placed) => Self::Placed(placed, Cursor::default()),
        }
    }

    /// Puts the next block into `block`.
    pub fn next(&mut self, block: &mut [f32], packed: &mut Vec<f32>) -> Result<(), E> {
        match self {
            Self::Held(values) => {
                let (own, rest) = values.split_at(block.len());
                block.copy_from_slice(own);
                *values = rest;
            }
            Self::Placed(placed, cursor) => placed.read(cursor, block, packed),
            Self::Arriving(receive) => receive(block)?,
        }
        Ok(())
    }
}

impl Placed {
    fn read(&self, cursor: &mut Cursor, block: &mut [f32], packed: &mut Vec<f32>) {
        let at = self.at + cursor.values;
        let mask = self.masks.as_ref().map(|masks| masks[cursor.blocks]);
        cursor.blocks += 1;
        let Some(mask) = mask else {
            self.outbox.read(at, block);
            cursor.values += block.len();
            return;
        };
        let count = gaps::count(mask, block.len()).expect("masks are checked when they arrive");
        packed.resize(count, 0.0);
        self.outbox.read(at, packed);
        gaps::unpack(packed, mask, block);
        cursor.values += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn read_all(held: &Held, lens: &[usize]) -> Vec<f32> {
        let mut source = Source::<Infallible>::of(held);
        let mut all = Vec::new();
        for len in lens {
            let mut block = vec![9.0; *len];
            source.next(&mut block, &mut Vec::new()).unwrap();
            all.extend(block);
        }
        all
    }

    #[test]
    fn a_gradient_reads_the_same_from_wherever_it_lies() {
        let lens = [64, 64, 3];
        let mut values = vec![0.0; 131];
        (values[5], values[70], values[130]) = (1.5, -2.0, 3.0);
        let outbox = Arc::new(Region::create(200).unwrap());
        outbox.write(16, &values);
        let whole = Placed {
            outbox: outbox.clone(),
            at: 16,
            masks: None,
        };
        let (mut masks, mut packed, mut at) = (Vec::new(), Vec::new(), 0);
        for len in lens {
            let block = &values[at..at + len];
            masks.push(gaps::mask(block));
            gaps::pack(block, gaps::mask(block), &mut packed);
            at += len;
        }
        outbox.write(160, &packed);
        let gaps = Placed {
            outbox,
            at: 160,
            masks: Some(masks),
        };
        assert_eq!(read_all(&Held::Placed(whole), &lens), values);
        assert_eq!(read_all(&Held::Placed(gaps), &lens), values);
        assert_eq!(read_all(&Held::Whole(values.clone()), &lens), values);
    }
}
