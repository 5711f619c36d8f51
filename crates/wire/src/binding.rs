//! Identifies a part file: which save it belongs to, and which server and port wrote it. Every part has this in its
//! header, and readers compare it with the save's manifest.

use crate::ids::Generation;
use crate::recovery::Boundary;
use crate::shard::Topology;
use serde::{Deserialize, Serialize};

/// Identifies the save that a part file belongs to, and the service that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// The generation in which it was taken: after a loss the same step may be saved again.
    pub epoch: Generation,
    /// The point of training at which it was taken.
    pub boundary: Boundary,
    /// The servers of that time.
    pub topology: Topology,
    /// Which of them wrote it.
    pub server: u32,
    /// Which port of it.
    pub port: u32,
}

impl Binding {
    /// How this part differs from the wanted one, as a sentence; `None` if it is the wanted part.
    pub fn differs(&self, wanted: &Self) -> Option<String> {
        let number = |what: &str, is: u64, wanted: u64| {
            (is != wanted).then(|| format!("it belongs to {what} {is}, not to {what} {wanted}"))
        };
        let (here, there) = (&self.boundary, &wanted.boundary);
        if self.job != wanted.job {
            return Some(format!(
                "it belongs to run '{}', not to run '{}'",
                self.job, wanted.job
            ));
        }
        if self.shapes != wanted.shapes {
            return Some(
                "its tables have other names or shapes: it belongs to another model".to_owned(),
            );
        }
        number("step", here.step.0, there.step.0)
            .or_else(|| number("pass", here.pass, there.pass))
            .or_else(|| number("server", u64::from(self.server), u64::from(wanted.server)))
            .or_else(|| number("port", u64::from(self.port), u64::from(wanted.port)))
            .or_else(|| number("generation", self.epoch.0, wanted.epoch.0))
            .or_else(|| {
                (self.topology != wanted.topology)
                    .then(|| "other numbers of servers or ports wrote it".to_owned())
            })
            .or_else(|| {
                (here != there).then(|| "its trainers had finished other batches".to_owned())
            })
    }

    /// Why this file cannot be `pserver.NNNN` with this `number` in the save that `first` belongs to; `None` if it can.
    pub fn stray_rows(&self, first: &Self, number: u32) -> Option<String> {
        let at = (self.server, self.port);
        let own = self.topology.sparse_service_at(at.0, at.1);
        if own != Some(number) {
            return Some(format!(
                "port {} of server {} wrote it, which is not service {number} of its job",
                at.1, at.0
            ));
        }
        (!self.same_save(first)).then(|| {
            format!(
                "it was saved at step {}, the first file at step {}; or another run saved it",
                self.boundary.step, first.boundary.step
            )
        })
    }

    /// Whether both parts belong to the same save, whichever services wrote them.
    pub fn same_save(&self, other: &Self) -> bool {
        let other = Self {
            server: self.server,
            port: self.port,
            ..other.clone()
        };
        *self == other
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Step;

    pub(crate) fn sample() -> Binding {
        Binding {
            job: "j".to_owned(),
            shapes: 7,
            epoch: Generation(2),
            boundary: Boundary {
                step: Step(4),
                pass: 1,
                batches: vec![2, 2],
            },
            topology: Topology {
                servers: 2,
                ports: 2,
                sparse_ports: 0,
            },
            server: 1,
            port: 0,
        }
    }

    #[test]
    fn every_difference_is_named() {
        let wanted = sample();
        assert_eq!(wanted.differs(&wanted), None);
        type Change = fn(&mut Binding);
        let cases: [(Change, &str); 9] = [
            (|b| b.job = "k".to_owned(), "run 'k'"),
            (|b| b.shapes = 8, "another model"),
            (|b| b.boundary.step = Step(3), "step 3"),
            (|b| b.boundary.pass = 0, "pass 0"),
            (|b| b.server = 0, "server 0"),
            (|b| b.port = 1, "port 1"),
            (|b| b.epoch = Generation(1), "generation 1"),
            (|b| b.topology.servers = 3, "numbers of servers"),
            (|b| b.boundary.batches = vec![1, 3], "other batches"),
        ];
        for (change, words) in cases {
            let mut other = sample();
            change(&mut other);
            let text = other.differs(&wanted).unwrap_or_default();
            assert!(text.contains(words), "{words}: {text}");
            let part = matches!(words, "server 0" | "port 1");
            assert_eq!(other.same_save(&wanted), part, "{words}");
        }
    }
}
