//! F1 of the chunks in labelled sequences: a chunk is right if its beginning, end and type are.
//!
//! A label is `chunk type × tags + tag`; the type after the last means "no chunk". Tags by scheme:
//! plain: one; IOB: begin 0, inside 1; IOE: inside 0, end 1; IOBES: begin 0, inside 1, end 2, single 3.

use std::collections::BTreeSet;

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, id};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// What a tag says about its position in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Begin,
    Inside,
    End,
    Single,
    /// The plain scheme's only tag.
    Plain,
}

/// Counts chunks. Inputs: predicted ids and true ids, sequences.
pub(super) struct Chunks {
    name: String,
    tags: &'static [Tag],
    types: u32,
    excluded: BTreeSet<u32>,
    truth: f64,
    found: f64,
    right: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    begin: usize,
    end: usize,
    kind: u32,
}

impl Chunks {
    /// An evaluator as configured; the error says what is wrong with the configuration.
    pub(super) fn new(config: &EvaluatorConfig) -> Result<Self, String> {
        let tags: &'static [Tag] = match config.chunk_scheme() {
            "plain" => &[Tag::Plain],
            "IOB" => &[Tag::Begin, Tag::Inside],
            "IOE" => &[Tag::Inside, Tag::End],
            "IOBES" => &[Tag::Begin, Tag::Inside, Tag::End, Tag::Single],
            other => {
                return Err(format!(
                    "chunk_scheme '{other}' is not one of plain, IOB, IOE, IOBES"
                ));
            }
        };
        let types = config
            .num_chunk_types
            .and_then(|types| u32::try_from(types).ok());
        Ok(Self {
            name: config.name.clone(),
            tags,
            types: types.ok_or_else(|| "num_chunk_types is missing".to_owned())?,
            excluded: config
                .excluded_chunk_types
                .iter()
                .filter_map(|&kind| u32::try_from(kind).ok())
                .collect(),
            truth: 0.0,
            found: 0.0,
            right: 0.0,
        })
    }

    fn chunks(&self, labels: &[u32]) -> Result<Vec<Chunk>, LayerError> {
        let mut chunks = Vec::new();
        let mut open: Option<usize> = None;
        let (mut last_tag, mut last_kind) = (Tag::Plain, self.types);
        let count = self.tags.len() as u32;
        for (place, &label) in labels.iter().enumerate() {
            if label > self.types * count {
                return Err(LayerError::Id {
                    id: label,
                    limit: (self.types * count + 1) as usize,
                });
            }
            let (tag, kind) = (self.tags[(label % count) as usize], label / count);
            if let Some(begin) = open.filter(|_| self.ends(last_tag, last_kind, tag, kind)) {
                chunks.push(Chunk {
                    begin,
                    end: place,
                    kind: last_kind,
                });
                open = None;
            }
            if self.begins(last_tag, last_kind, tag, kind) {
                open = Some(place);
            }
            (last_tag, last_kind) = (tag, kind);
        }
        if let Some(begin) = open {
            chunks.push(Chunk {
                begin,
                end: labels.len(),
                kind: last_kind,
            });
        }
        Ok(chunks)
    }

    fn ends(&self, last_tag: Tag, last_kind: u32, tag: Tag, kind: u32) -> bool {
        if last_kind == self.types {
            return false;
        }
        if kind != last_kind {
            return true;
        }
        match last_tag {
            Tag::Begin | Tag::Inside => matches!(tag, Tag::Begin | Tag::Single),
            Tag::End | Tag::Single => true,
            Tag::Plain => false,
        }
    }

    fn begins(&self, last_tag: Tag, last_kind: u32, tag: Tag, kind: u32) -> bool {
        if kind == self.types {
            return false;
        }
        if kind != last_kind {
            return true;
        }
        match tag {
            Tag::Begin | Tag::Single => true,
            Tag::Inside | Tag::End => matches!(last_tag, Tag::End | Tag::Single),
            Tag::Plain => false,
        }
    }

    fn counted<'a>(&'a self, chunks: &'a [Chunk]) -> impl Iterator<Item = &'a Chunk> {
        chunks
            .iter()
            .filter(|chunk| !self.excluded.contains(&chunk.kind))
    }

    fn f1(&self) -> f64 {
        if self.right > 0.0 {
            let (precision, recall) = (self.right / self.found, self.right / self.truth);
            2.0 * precision * recall / (precision + recall)
        } else {
            0.0
        }
    }
}

impl Evaluator for Chunks {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 2..=2)?;
        let sequences = inputs[1]
            .sequences()
            .ok_or(LayerError::NotSequence { input: 1 })?;
        for pair in sequences.windows(2) {
            let rows = pair[0] as usize..pair[1] as usize;
            let labels = |input| {
                rows.clone()
                    .map(|row| id(inputs, input, row))
                    .collect::<Result<Vec<u32>, _>>()
            };
            let (found, truth) = (self.chunks(&labels(0)?)?, self.chunks(&labels(1)?)?);
            let right = self
                .counted(&found)
                .filter(|chunk| truth.contains(chunk))
                .count();
            let (found, truth) = (self.counted(&found).count(), self.counted(&truth).count());
            self.right += right as f64;
            self.found += found as f64;
            self.truth += truth as f64;
        }
        Ok(())
    }

    fn text(&self) -> String {
        format!(
            "{}={} true_chunks={} result_chunks={} correct_chunks={}",
            self.name,
            general(self.f1()),
            self.truth,
            self.found,
            self.right
        )
    }

    fn values(&self) -> Vec<(String, f64)> {
        vec![(self.name.clone(), self.f1())]
    }

    fn state(&self) -> Vec<f64> {
        vec![self.truth, self.found, self.right]
    }

    fn absorb(&mut self, state: &[f64]) {
        if let [truth, found, right] = state {
            self.truth += truth;
            self.found += found;
            self.right += right;
        }
    }

    fn reset(&mut self) {
        (self.truth, self.found, self.right) = (0.0, 0.0, 0.0);
    }
}
