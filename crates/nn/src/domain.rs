//! Finds equal samples of a batch, and maps samples and positions to shared rows.
//!
//! Data layers find equal samples: a batch of 1600 ratings contains far fewer movies. Everything that depends only on
//! the movie is then computed once per distinct movie, a *unit*. A [`Domain`] is the map from samples to units. Where
//! layers of two domains meet, the [`Joint`] domain has one unit per distinct pair. Inside a domain a [`Layout`] may
//! share rows once more: an embedding keeps one row per distinct id, and the positions of a text point to these rows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use words::random::mix;

/// Sharing must save at least this fraction of the rows to be worth its bookkeeping.
const WORTHWHILE: f64 = 0.1;

/// Whether `distinct` of `all` is few enough to be worth sharing.
pub(crate) fn worthwhile(distinct: usize, all: usize) -> bool {
    (distinct as f64) <= (1.0 - WORTHWHILE) * all as f64
}

/// The distinct samples of a batch, as far as the layers of the domain can distinguish them.
#[derive(Debug)]
pub struct Domain {
    /// Number of distinct samples.
    pub units: usize,
    /// Unit of each sample; `None`: every sample is its own unit.
    pub of_sample: Option<Arc<[u32]>>,
}

impl Domain {
    /// The domain in which every sample is its own unit.
    pub fn whole(samples: usize) -> Arc<Self> {
        Arc::new(Self {
            units: samples,
            of_sample: None,
        })
    }
}

/// How the rows of a layer's output map to the positions of the batch.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The units that the rows belong to.
    pub domain: Arc<Domain>,
    /// Offset of each unit's first position; `None`: one row per unit.
    pub sequences: Option<Arc<[u32]>>,
    /// Offset of each sub-sequence's first position; `None`: no nested sequences.
    pub subsequences: Option<Arc<[u32]>>,
    /// Stored row of each position; `None`: positions and rows are the same.
    pub rows: Option<Arc<[u32]>>,
}

/// A layout after [`Layout::spread`].
#[derive(Debug)]
pub struct SpreadLayout {
    /// The layout in the finer domain.
    pub layout: Layout,
    /// For every new position, the stored row that it comes from; `None`: the rows stay the same.
    pub index: Option<Arc<[u32]>>,
}

impl Layout {
    /// A layout with one row per unit.
    pub fn units(domain: Arc<Domain>) -> Self {
        Self {
            domain,
            sequences: None,
            subsequences: None,
            rows: None,
        }
    }

    /// Number of positions: rows of the matrix without sharing, within its domain.
    pub fn positions(&self) -> usize {
        match (&self.rows, &self.sequences) {
            (Some(rows), _) => rows.len(),
            (None, Some(sequences)) => sequences.last().map_or(0, |&end| end as usize),
            (None, None) => self.domain.units,
        }
    }

    /// Whether rows of both belong to the same positions, so that they can be combined one by one.
    pub fn same_rows(&self, other: &Layout) -> bool {
        Arc::ptr_eq(&self.domain, &other.domain)
            && same(&self.rows, &other.rows)
            && match (&self.sequences, &other.sequences) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
                (None, None) => true,
                _ => false,
            }
    }

    /// The layout without sequences, one row per unit of the same domain.
    pub fn pooled(&self) -> Self {
        Self::units(self.domain.clone())
    }

    /// The same positions in the finer domain `domain`, each with its own row.
    pub fn spread(&self, domain: &Arc<Domain>, unit_of: Option<&Arc<[u32]>>) -> SpreadLayout {
        let Some(unit_of) = unit_of else {
            let layout = Layout {
                domain: domain.clone(),
                rows: None,
                ..self.clone()
            };
            let index = self.rows.clone();
            return SpreadLayout { layout, index };
        };
        let Some(sequences) = &self.sequences else {
            let index = match &self.rows {
                Some(rows) => unit_of.iter().map(|&unit| rows[unit as usize]).collect(),
                None => unit_of.clone(),
            };
            return SpreadLayout {
                layout: Layout::units(domain.clone()),
                index: Some(index),
            };
        };
        self.spread_sequences(domain, unit_of, sequences)
    }

    fn spread_sequences(
        &self,
        domain: &Arc<Domain>,
        unit_of: &[u32],
        sequences: &[u32],
    ) -> SpreadLayout {
        let mut offsets = Vec::with_capacity(unit_of.len() + 1);
        let mut index = Vec::new();
        let mut nested = self.subsequences.as_ref().map(|_| vec![0]);
        offsets.push(0);
        for &unit in unit_of {
            let (start, end) = (sequences[unit as usize], sequences[unit as usize + 1]);
            if let (Some(nested), Some(inner)) = (&mut nested, &self.subsequences) {
                let shift = index.len() as u32;
                let first = inner.partition_point(|&offset| offset <= start);
                nested.extend(
                    inner[first..]
                        .iter()
                        .take_while(|&&offset| offset <= end)
                        .map(|&offset| offset - start + shift),
                );
            }
            match &self.rows {
                Some(rows) => index.extend_from_slice(&rows[start as usize..end as usize]),
                None => index.extend(start..end),
            }
            offsets.push(index.len() as u32);
        }
        let layout = Layout {
            domain: domain.clone(),
            sequences: Some(offsets.into()),
            subsequences: nested.map(Into::into),
            rows: None,
        };
        SpreadLayout {
            layout,
            index: Some(index.into()),
        }
    }
}

fn same(a: &Option<Arc<[u32]>>, b: &Option<Arc<[u32]>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// The distinct combinations of the units of several domains.
#[derive(Debug, Clone)]
pub(crate) struct Joint {
    /// Has one unit per combination.
    pub domain: Arc<Domain>,
    /// For each domain that was joined, the unit of each combination; `None`: they are the same.
    pub unit_of: Vec<Option<Arc<[u32]>>>,
}

/// The joint domains of one batch, each computed once.
#[derive(Debug)]
pub(crate) struct Joints {
    whole: Arc<Domain>,
    pairs: Vec<(Arc<Domain>, Arc<Domain>, Joint)>,
}

impl Joints {
    /// No joints yet, for a batch of `samples` samples.
    pub(crate) fn new(samples: usize) -> Self {
        Self {
            whole: Domain::whole(samples),
            pairs: Vec::new(),
        }
    }

    /// The domain in which every sample is its own unit.
    pub(crate) fn whole(&self) -> &Arc<Domain> {
        &self.whole
    }

    /// A domain of samples that are known to be equal when their keys are; used only if it is much smaller.
    pub(crate) fn of_keys(&self, units: usize, of_sample: Vec<u32>) -> Arc<Domain> {
        if worthwhile(units, of_sample.len()) {
            Arc::new(Domain {
                units,
                of_sample: Some(of_sample.into()),
            })
        } else {
            self.whole.clone()
        }
    }

    /// The joint of several domains, given in the order of a layer's inputs.
    pub(crate) fn join(&mut self, domains: &[Arc<Domain>]) -> Joint {
        let Some(first) = domains.first() else {
            return Joint {
                domain: self.whole.clone(),
                unit_of: Vec::new(),
            };
        };
        let mut domain = first.clone();
        for next in &domains[1..] {
            domain = self.pair(&domain, next).domain;
        }
        let unit_of = domains
            .iter()
            .map(|coarse| self.unit_of(&domain, coarse))
            .collect();
        Joint { domain, unit_of }
    }

    /// The unit in `coarse` of each unit in `fine`, a domain that was joined from it.
    pub(crate) fn unit_of(
        &mut self,
        fine: &Arc<Domain>,
        coarse: &Arc<Domain>,
    ) -> Option<Arc<[u32]>> {
        if Arc::ptr_eq(fine, coarse) {
            return None;
        }
        let Some(coarse_of) = &coarse.of_sample else {
            return None;
        };
        let Some(fine_of) = &fine.of_sample else {
            return Some(coarse_of.clone());
        };
        let mut unit_of = vec![0; fine.units];
        for (&fine, &coarse) in fine_of.iter().zip(coarse_of.iter()) {
            unit_of[fine as usize] = coarse;
        }
        Some(unit_of.into())
    }

    fn pair(&mut self, a: &Arc<Domain>, b: &Arc<Domain>) -> Joint {
        if let Some((_, _, joint)) = self
            .pairs
            .iter()
            .find(|(x, y, _)| Arc::ptr_eq(x, a) && Arc::ptr_eq(y, b))
        {
            return joint.clone();
        }
        let domain = match (&a.of_sample, &b.of_sample) {
            _ if Arc::ptr_eq(a, b) => a.clone(),
            (Some(a_of), Some(b_of)) => {
                let mut units = Units::default();
                let of_sample: Vec<u32> = a_of
                    .iter()
                    .zip(b_of.iter())
                    .map(|(&a, &b)| units.unit((u64::from(a) << 32) | u64::from(b)))
                    .collect();
                self.refined(units.count(), of_sample, a, b)
            }
            _ => self.whole.clone(),
        };
        let joint = Joint {
            domain,
            unit_of: Vec::new(),
        };
        self.pairs.push((a.clone(), b.clone(), joint.clone()));
        joint
    }

    /// The joint domain, which is one of the two if that already distinguishes all combinations.
    fn refined(
        &self,
        units: usize,
        of_sample: Vec<u32>,
        a: &Arc<Domain>,
        b: &Arc<Domain>,
    ) -> Arc<Domain> {
        if units == a.units {
            a.clone()
        } else if units == b.units {
            b.clone()
        } else {
            self.of_keys(units, of_sample)
        }
    }
}

/// Numbers distinct keys in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Units {
    numbers: HashMap<u64, u32, BuildHasherDefault<MixHasher>>,
}

impl Units {
    /// The index of a key, which is assigned at its first appearance.
    pub(crate) fn unit(&mut self, key: u64) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(key).or_insert(next)
    }

    /// Number of distinct keys so far.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// A hasher for keys of 64 bits. Keys come from data, not from an adversary, and their order is never used.
#[derive(Debug, Default)]
pub(crate) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = mix(self.0 ^ key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(of_sample: &[u32]) -> Arc<Domain> {
        Arc::new(Domain {
            units: of_sample.iter().max().map_or(0, |&m| m as usize + 1),
            of_sample: Some(of_sample.to_vec().into()),
        })
    }

    #[test]
    fn a_joint_domain_tells_all_combinations_apart() {
        let mut joints = Joints::new(8);
        let (a, b) = (
            domain(&[0, 0, 1, 1, 0, 0, 1, 1]),
            domain(&[0, 1, 0, 0, 1, 0, 0, 0]),
        );
        let joint = joints.join(&[a.clone(), b.clone()]);
        assert_eq!(joint.domain.units, 3);
        assert_eq!(
            joint.domain.of_sample.as_deref(),
            Some(&[0, 1, 2, 2, 1, 0, 2, 2][..])
        );
        assert_eq!(joint.unit_of[0].as_deref(), Some(&[0, 0, 1][..]));
        assert_eq!(joint.unit_of[1].as_deref(), Some(&[0, 1, 0][..]));
        assert!(
            Arc::ptr_eq(&joints.join(&[a.clone(), b]).domain, &joint.domain),
            "computed once"
        );
        assert!(Arc::ptr_eq(
            &joints.join(&[a.clone(), a.clone()]).domain,
            &a
        ));
    }

    #[test]
    fn a_domain_that_saves_nothing_is_the_whole_batch() {
        let mut joints = Joints::new(4);
        let (a, b) = (domain(&[0, 0, 1, 1]), domain(&[0, 1, 0, 1]));
        let joint = joints.join(&[a, b]);
        assert!(joint.domain.of_sample.is_none());
        assert_eq!(joint.unit_of[1].as_deref(), Some(&[0, 1, 0, 1][..]));
    }

    #[test]
    fn sequences_are_spread_with_their_rows_and_sub_sequences() {
        let coarse = domain(&[1, 0, 1]);
        let layout = Layout {
            domain: coarse,
            sequences: Some(vec![0, 1, 4].into()),
            subsequences: Some(vec![0, 1, 3, 4].into()),
            rows: Some(vec![5, 6, 5, 7].into()),
        };
        let spread = layout.spread(&Domain::whole(3), Some(&vec![1, 0, 1].into()));
        let SpreadLayout {
            layout: plain,
            index,
        } = spread;
        assert_eq!(plain.sequences.as_deref(), Some(&[0, 3, 4, 7][..]));
        assert_eq!(plain.subsequences.as_deref(), Some(&[0, 2, 3, 4, 6, 7][..]));
        assert_eq!(index.as_deref(), Some(&[6, 5, 7, 5, 6, 5, 7][..]));
    }
}
