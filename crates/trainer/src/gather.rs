//! `--distribute_test`: combines the evaluators' sums of all trainers through the parameter servers.
//!
//! Servers can only sum vectors over trainers. An evaluator's sums may have any length, so each trainer places its part
//! after those of the trainers before it, with zeros elsewhere: then the sum is the concatenation. All trainers read the
//! same result, in trainer order.

use nn::Evaluators;
use wire::{JobSpec, Mode, Session};

use crate::settings::RemoteSettings;
use crate::updater::UpdateError;

/// Values per sum; servers accept no more in one request.
const PIECE: usize = 1 << 16;

/// A session of all trainers with their servers, without tables.
pub(crate) struct Gathering {
    session: Session,
    trainer: usize,
    trainers: usize,
}

impl Gathering {
    /// Waits for all trainers and servers.
    pub(crate) fn join(remote: &RemoteSettings) -> Result<Gathering, UpdateError> {
        let spec = JobSpec {
            job: format!("{}-test", remote.job),
            mode: Mode::Sync,
            snapshot_every: 0,
            first_pass: 0,
            origin: None,
            tables: Vec::new(),
        };
        let config = remote.session.clone();
        let (trainer, trainers) = (config.trainer.0 as usize, config.trainers as usize);
        let (session, _) = Session::connect(config, spec).map_err(UpdateError::Remote)?;
        Ok(Gathering {
            session,
            trainer,
            trainers,
        })
    }

    /// Adds the evaluators' sums of all other trainers.
    pub(crate) fn gather(&mut self, evaluators: &mut Evaluators) -> Result<(), UpdateError> {
        let own = evaluators.state();
        let (trainer, trainers) = (self.trainer, self.trainers);
        let whole = concatenated(&own, trainer, trainers, &mut |numbers| {
            let pieces = numbers.chunks_mut(PIECE);
            pieces.into_iter().try_for_each(|p| self.session.reduce(p))
        });
        let parts = whole.map_err(UpdateError::Remote)?;
        evaluators.reset();
        for part in &parts {
            evaluators.absorb(part);
        }
        Ok(())
    }

    /// Leaves the session; returns when all trainers have left.
    pub(crate) fn leave(mut self) -> Result<(), UpdateError> {
        self.session.close().map_err(UpdateError::Remote)
    }
}

/// The lists of all trainers, by trainer, given this one's list and a function that sums vectors over all trainers.
fn concatenated<E>(
    own: &[Vec<f64>],
    trainer: usize,
    trainers: usize,
    sum: &mut dyn FnMut(&mut [f64]) -> Result<(), E>,
) -> Result<Vec<Vec<Vec<f64>>>, E> {
    let lists = own.len();
    let mut lengths = vec![0.0; trainers * lists];
    for (length, list) in lengths[trainer * lists..].iter_mut().zip(own) {
        *length = list.len() as f64;
    }
    sum(&mut lengths)?;
    let lengths: Vec<usize> = lengths.iter().map(|l| *l as usize).collect();
    let mut numbers = vec![0.0; lengths.iter().sum()];
    let start: usize = lengths[..trainer * lists].iter().sum();
    for (place, number) in numbers[start..].iter_mut().zip(own.iter().flatten()) {
        *place = *number;
    }
    sum(&mut numbers)?;
    let mut rest = numbers.as_slice();
    let mut take = |length: &usize| {
        let (list, behind) = rest.split_at(*length);
        rest = behind;
        list.to_vec()
    };
    let flat: Vec<Vec<f64>> = lengths.iter().map(&mut take).collect();
    Ok(flat
        .chunks(lists.max(1))
        .map(<[Vec<f64>]>::to_vec)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    /// Sums over threads as the servers do over trainers.
    struct Adder {
        sums: Mutex<Vec<f64>>,
        meet: Barrier,
    }

    impl Adder {
        fn sum(&self, numbers: &mut [f64]) -> Result<(), ()> {
            {
                let mut sums = self.sums.lock().unwrap();
                sums.resize(numbers.len(), 0.0);
                sums.iter_mut().zip(&*numbers).for_each(|(s, n)| *s += n);
            }
            self.meet.wait();
            numbers.copy_from_slice(&self.sums.lock().unwrap());
            if self.meet.wait().is_leader() {
                self.sums.lock().unwrap().clear();
            }
            self.meet.wait();
            Ok(())
        }
    }

    #[test]
    fn lists_of_any_length_come_to_everybody_in_trainer_order() {
        let own = [
            vec![vec![1.0, 2.0], vec![]],
            vec![vec![], vec![3.0]],
            vec![vec![4.0], vec![5.0, 6.0, 7.0]],
        ];
        let adder = Adder {
            sums: Mutex::default(),
            meet: Barrier::new(own.len()),
        };
        std::thread::scope(|scope| {
            let run = |trainer: usize| {
                let (own, adder) = (&own, &adder);
                scope.spawn(move || {
                    let mut sum = |numbers: &mut [f64]| adder.sum(numbers);
                    concatenated(&own[trainer], trainer, own.len(), &mut sum).unwrap()
                })
            };
            let threads: Vec<_> = (0..own.len()).map(run).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), own);
            }
        });
    }
}
