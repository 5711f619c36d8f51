//! Generation: a group that produces its own input, word by word, and keeps the best sequences (beam search).
//!
//! Every step computes one row per path that is still open. Each path is continued by its `beam` most probable words;
//! of all continuations of a sample the `beam` best stay open. A path is complete when it ends with the word that ends
//! sequences, or has the greatest length. The scores of paths are sums of logarithms, and a sample is finished when
//! it has `beam` complete paths of which none is worse than its best open one. As in v1, complete paths that are worse
//! than all open ones are dropped at every step.

use std::sync::Arc;

use config::{LayerConfig, ModelConfig, SubModelConfig};

use super::Group;
use super::crossing::Crossing;
use super::memory::{Boot, RememberedLayer};
use super::recipe::ValueOrigin;
use super::run::forward_nodes;
use crate::domain::{Domain, Layout};
use crate::error::{BuildError, LayerError};
use crate::layer::{BatchUse, Build, Forward, Inputs};
use crate::network::Context;
use crate::output::{Output, OutputValues};
use crate::product::PackedWeights;
use crate::simd;

/// How a group generates.
#[derive(Debug)]
pub(super) struct Generator {
    /// The node of the step with the probabilities of the next word.
    pub probabilities: usize,
    /// The layer outside that gets the words, and its size.
    pub output: (String, usize),
    end: u32,
    max_length: usize,
    beam: usize,
    results: usize,
    /// Whether scores are sums of logarithms, not of the values themselves.
    logarithm: bool,
}

/// The layers of a generating group that choose words; they are not executed as layers.
pub(super) struct Choice<'a> {
    /// The layer whose output is the chosen word.
    pub word: &'a LayerConfig,
    /// The layer whose output decides whether a sequence ends.
    pub end: &'a LayerConfig,
}

impl<'a> Choice<'a> {
    /// The choice of a group, if it generates.
    pub(super) fn of(model: &'a ModelConfig, group: &'a SubModelConfig) -> Option<Self> {
        let generator = group.generator.as_ref()?;
        let layer = |name: &str| model.layers.iter().find(|layer| layer.name == name);
        Some(Self {
            word: layer(&group.out_links.first()?.layer_name)?,
            end: layer(&generator.eos_layer_name)?,
        })
    }
}

impl Generator {
    /// Reads the description of a generating group; `node` finds a layer of its step.
    pub(super) fn new(
        build: &Build<'_>,
        group: &SubModelConfig,
        node: impl Fn(&str) -> Option<usize>,
    ) -> Result<Option<Self>, BuildError> {
        let Some(config) = &group.generator else {
            return Ok(None);
        };
        let choice = Choice::of(build.model, group)
            .ok_or_else(|| build.error("its layers for words and for their end are not known"))?;
        build.expect(
            choice.word.r#type == "maxid" && choice.end.r#type == "eos_id",
            || "words must come from a maxid layer, and ends from an eos_id layer".to_owned(),
        )?;
        build.expect(group.out_links.len() == 1, || {
            "a group that generates has one output: the words".to_owned()
        })?;
        let probabilities = choice.word.inputs.first();
        let probabilities = probabilities.and_then(|input| node(&input.input_layer_name));
        let positive = |number: i32, what: &str| {
            usize::try_from(number)
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| build.error(format!("{what} must be greater than 0, not {number}")))
        };
        let beam = positive(config.beam_size(), "beam_size")?;
        let inside = super::inner_layers(build.model).contains(group.name.as_str());
        let results = positive(config.num_results_per_sample(), "num_results_per_sample")?;
        Ok(Some(Self {
            probabilities: probabilities
                .ok_or_else(|| build.error("its words do not depend on the step"))?,
            output: (
                group.out_links[0].link_name.clone(),
                choice.word.size() as usize,
            ),
            end: choice.end.eos_id(),
            max_length: config.max_num_frames as usize,
            beam,
            // A group around this one takes the best result.
            results: if inside { 1 } else { results.min(beam) },
            logarithm: config.log_prob(),
        }))
    }
}

/// A sequence of words that begins at the start of its sample.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Path {
    sample: u32,
    /// Its last word in [`Search::words`].
    last: u32,
    score: f32,
}

/// No word yet.
const START: u32 = u32::MAX;

/// The search for the best sequences of all samples.
#[derive(Debug)]
struct Search<'a> {
    generator: &'a Generator,
    /// Every word that was chosen, with the word before it.
    words: Vec<(u32, u32)>,
    open: Vec<Path>,
    /// The complete paths of each sample.
    complete: Vec<Vec<Path>>,
    /// The lowest score that a complete path of each sample ever had, at most 0.
    lowest: Vec<f32>,
    /// For each open path, the row of the step before that it continues.
    parents: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(generator: &'a Generator, samples: usize) -> Self {
        let open = (0..samples as u32).map(|sample| Path {
            sample,
            last: START,
            score: 0.0,
        });
        Self {
            generator,
            words: Vec::new(),
            open: open.collect(),
            complete: vec![Vec::new(); samples],
            lowest: vec![0.0; samples],
            parents: Vec::new(),
        }
    }

    /// The last word of each open path.
    fn last_words(&self) -> impl Iterator<Item = u32> + '_ {
        self.open
            .iter()
            .map(|path| self.words[path.last as usize].0)
    }

    /// Continues every open path with its most probable words; `length` counts them.
    fn advance<'p>(&mut self, row: impl Fn(usize) -> &'p [f32], length: usize) {
        let paths = std::mem::take(&mut self.open);
        self.parents.clear();
        let mut best = Vec::new();
        let mut next: Vec<(Path, u32)> = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            greatest(row(place), self.generator.beam, &mut best);
            for &(word, value) in &best {
                let gain = match (self.generator.beam, self.generator.logarithm) {
                    (1, _) => 0.0,
                    (_, true) => value.ln(),
                    (_, false) => value,
                };
                let score = path.score + gain;
                if score == f32::NEG_INFINITY {
                    continue;
                }
                self.words.push((word, path.last));
                let new = Path {
                    score,
                    last: self.words.len() as u32 - 1,
                    ..*path
                };
                if word == self.generator.end || length >= self.generator.max_length {
                    self.complete[path.sample as usize].push(new);
                } else {
                    next.push((new, place as u32));
                }
            }
            let ends = paths.get(place + 1).map(|path| path.sample) != Some(path.sample);
            if ends {
                self.shrink(path.sample as usize, &mut next);
            }
        }
    }

    /// Keeps the best open paths of a sample, unless it is finished.
    fn shrink(&mut self, sample: usize, next: &mut Vec<(Path, u32)>) {
        next.sort_by(|a, b| b.0.score.total_cmp(&a.0.score));
        next.truncate(self.generator.beam);
        if let (Some((best, _)), Some((worst, _))) = (next.first(), next.last()) {
            let complete = &mut self.complete[sample];
            complete.retain(|path| path.score >= worst.score);
            let lowest = &mut self.lowest[sample];
            *lowest = complete
                .iter()
                .fold(*lowest, |lowest, path| lowest.min(path.score));
            if complete.len() >= self.generator.beam && *lowest >= best.score {
                next.clear();
            }
        }
        for (path, parent) in next.drain(..) {
            self.open.push(path);
            self.parents.push(parent);
        }
    }

    /// Writes the results: the words of each sample and, if there may be several results, their scores.
    fn write(mut self, out: &mut Output, domain: &Arc<Domain>) {
        let several = self.generator.results > 1;
        let (mut ids, mut scores) = (Vec::new(), Vec::new());
        let (mut sequences, mut results) = (vec![0], vec![0]);
        for complete in &mut self.complete {
            complete.sort_by(|a, b| b.score.total_cmp(&a.score));
            for path in complete.iter().take(self.generator.results) {
                let start = ids.len();
                let mut last = path.last;
                while let Some(&(word, before)) = self.words.get(last as usize) {
                    ids.push(word);
                    last = before;
                }
                ids[start..].reverse();
                results.push(ids.len() as u32);
                scores.push(path.score);
            }
            sequences.push(ids.len() as u32);
        }
        out.data = OutputValues::Ids(ids);
        out.scores = if several { scores } else { Vec::new() };
        out.layout = Layout {
            sequences: Some(sequences.into()),
            subsequences: several.then(|| results.into()),
            ..Layout::units(domain.clone())
        };
    }
}

/// Values of a row that are compared at once.
const BLOCK: usize = 64;

/// The `count` greatest values of a row with their columns, the greatest first; of equal ones the first.
fn greatest(row: &[f32], count: usize, best: &mut Vec<(u32, f32)>) {
    best.clear();
    let is_full = |best: &[(u32, f32)]| best.len() == count;
    simd::vectorised(
        #[inline(always)]
        || {
            for (block, values) in row.chunks(BLOCK).enumerate() {
                if let (true, Some(&(_, least))) = (is_full(best), best.last()) {
                    // Without a branch per value, so that it is compared with vectors.
                    if values
                        .iter()
                        .fold(true, |all, value| all & (*value <= least))
                    {
                        continue;
                    }
                }
                for (column, &value) in values.iter().enumerate() {
                    if is_full(best) && best.last().is_some_and(|(_, least)| value <= *least) {
                        continue;
                    }
                    let place = best.partition_point(|(_, other)| *other >= value);
                    best.insert(place, ((block * BLOCK + column) as u32, value));
                    best.truncate(count);
                }
            }
        },
    );
}

impl Group {
    /// Generates sequences for all samples.
    pub(super) fn generate(
        &mut self,
        generator: &Generator,
        pass: &mut Forward<'_>,
    ) -> Result<(), LayerError> {
        if pass.pass != BatchUse::Test {
            return Err(LayerError::Value(
                "it generates sequences, which cannot be learned from: use --job=test, or in training a \
                 recurrent_group that reads the words"
                    .to_owned(),
            ));
        }
        let context = Context {
            parameters: pass.parameters,
            specs: pass.specs,
            packed: pass.packed,
        };
        let domain = pass.out.layout.domain.clone();
        self.place_samples(&pass.inputs, domain.units)?;
        forward_nodes(
            &mut self.wide,
            0..self.recipe.before,
            context,
            BatchUse::Test,
        )?;
        if self.frames.len() < 2 {
            let frame = self.recipe.frame();
            let frame = frame.map_err(|error| LayerError::Value(error.to_string()))?;
            self.frames.push(frame);
        }
        let packed = PackedWeights::default();
        let context = context.packing(&packed);
        let mut search = Search::new(generator, domain.units);
        let mut samples = Vec::new();
        for length in 1..=generator.max_length {
            if search.open.is_empty() {
                break;
            }
            self.frames.swap(0, 1);
            let before = std::mem::take(&mut samples);
            samples.extend(search.open.iter().map(|path| path.sample));
            self.fill_paths(&search, &samples, &before, context)?;
            let frame = &mut self.frames[0];
            let nodes = self.recipe.givens.len()..frame.nodes.len();
            forward_nodes(frame, nodes, context, BatchUse::Test)?;
            let output = &frame.outputs[generator.probabilities];
            let (values, rows) = (output.dense(0)?, output.layout.rows.as_deref());
            let row = |place: usize| rows.map_or(place, |rows| rows[place] as usize);
            if output.layout.sequences.is_some() || output.layout.positions() != samples.len() {
                return Err(LayerError::Value(
                    "the probabilities of words are not one row per path".to_owned(),
                ));
            }
            search.advance(|place| values.row(row(place)), length);
        }
        pass.out.value_mut().resize(0, 1);
        search.write(&mut pass.more[0], &domain);
        Ok(())
    }

    /// Places the boot layers in the wide graph, whose units are the samples.
    fn place_samples(&mut self, inputs: &Inputs<'_>, samples: usize) -> Result<(), LayerError> {
        self.wide.begin(samples);
        for input in 0..self.recipe.inputs() {
            let layout = inputs.layout(input);
            self.wide.outputs[input].layout = Layout {
                domain: self.wide.joints.whole().clone(),
                sequences: layout.sequences.clone(),
                subsequences: layout.subsequences.clone(),
                rows: inputs.index(input).map(Into::into),
            };
        }
        for memory in &self.recipe.memories {
            if let Boot::Layer(node) = memory.boot {
                memory.check(&self.wide.outputs[node].layout)?;
            }
        }
        Ok(())
    }

    /// Fills the given nodes of the step for all open paths. The step before is the second frame.
    fn fill_paths(
        &mut self,
        search: &Search<'_>,
        samples: &[u32],
        before: &[u32],
        context: Context<'_>,
    ) -> Result<(), LayerError> {
        let (current, last) = self.frames.split_at_mut(1);
        let (current, last) = (&mut current[0], &mut last[0]);
        current.begin(samples.len());
        let domain = current.joints.whole().clone();
        let first = before.is_empty();
        for (given, described) in self.recipe.givens.iter().enumerate() {
            let out = &mut current.outputs[given];
            let memory = match described.origin {
                ValueOrigin::Wide(node) => {
                    if samples == before {
                        out.exchange(&mut last.outputs[given]);
                        out.layout = last.outputs[given].layout.clone();
                        out.layout.domain = domain.clone();
                    } else {
                        gather(out, &self.wide.outputs[node], samples, &domain);
                    }
                    continue;
                }
                ValueOrigin::Memory(memory) => &self.recipe.memories[memory],
            };
            match (first, memory.target, &memory.boot) {
                (true, _, Boot::Layer(node)) => {
                    gather(out, &self.wide.outputs[*node], samples, &domain);
                }
                (true, ..) => {
                    memory.boot(out, samples.len(), context)?;
                    out.layout = Layout::units(domain.clone());
                }
                (false, RememberedLayer::Step(node), _) => {
                    memory.check(&last.outputs[node].layout)?;
                    gather(out, &last.outputs[node], &search.parents, &domain);
                }
                (false, RememberedLayer::Wide(node), _) => {
                    gather(out, &self.wide.outputs[node], samples, &domain);
                }
                (false, RememberedLayer::Word, _) => {
                    let ids = out.ids_mut();
                    ids.clear();
                    ids.extend(search.last_words());
                    out.layout = Layout::units(domain.clone());
                }
            }
        }
        Ok(())
    }
}

/// Fills an output with the rows, or sequences, of these units.
fn gather(out: &mut Output, from: &Output, units: &[u32], domain: &Arc<Domain>) {
    let crossing = Crossing::fixed(&from.layout, units);
    out.gather(from, crossing.rows(0..units.len()));
    out.layout = crossing.layout(0..units.len(), domain);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(beam: usize, results: usize) -> Generator {
        Generator {
            probabilities: 0,
            output: (String::new(), 3),
            end: 2,
            max_length: 3,
            beam,
            results,
            logarithm: true,
        }
    }

    #[test]
    fn the_greatest_columns_come_in_order() {
        let mut best = Vec::new();
        greatest(&[0.1, 0.4, 0.2, 0.4, 0.3], 3, &mut best);
        assert_eq!(best, [(1, 0.4), (3, 0.4), (4, 0.3)]);
        greatest(&[0.5], 3, &mut best);
        assert_eq!(best, [(0, 0.5)]);
    }

    #[test]
    fn a_beam_finds_what_the_greedy_choice_misses() {
        // Word 1 begins better, but word 0 has the better end.
        let table = |word: u32| match word {
            START => [0.4, 0.6, 0.0],
            0 => [0.05, 0.05, 0.9],
            _ => [0.3, 0.3, 0.4],
        };
        let run = |beam: usize| {
            let generator = generator(beam, beam);
            let mut search = Search::new(&generator, 1);
            for length in 1..=3 {
                let rows: Vec<[f32; 3]> = search
                    .open
                    .iter()
                    .map(|path| match path.last {
                        START => table(START),
                        last => table(search.words[last as usize].0),
                    })
                    .collect();
                search.advance(|place| &rows[place], length);
            }
            let mut out = Output::new(false);
            search.write(&mut out, &Domain::whole(1));
            out
        };
        let greedy = run(1);
        assert_eq!(greedy.ids(0).unwrap(), [1, 2]);
        assert!(greedy.layout.subsequences.is_none() && greedy.scores.is_empty());
        let beam = run(2);
        assert_eq!(beam.ids(0).unwrap(), [0, 2, 1, 2]);
        assert_eq!(beam.layout.subsequences.as_deref(), Some(&[0, 2, 4][..]));
        let want = [0.36f32.ln(), 0.24f32.ln()];
        for (score, want) in beam.scores.iter().zip(want) {
            assert!((score - want).abs() < 1e-6);
        }
    }

    #[test]
    fn a_sample_that_finds_no_end_stops_at_the_greatest_length() {
        let generator = generator(1, 1);
        let mut search = Search::new(&generator, 2);
        for length in 1..=3 {
            let row = [1.0, 0.0, 0.0];
            search.advance(|_| &row, length);
        }
        assert!(search.open.is_empty());
        let mut out = Output::new(false);
        search.write(&mut out, &Domain::whole(2));
        assert_eq!(out.ids(0).unwrap(), [0; 6]);
        assert_eq!(out.layout.sequences.as_deref(), Some(&[0, 3, 6][..]));
    }
}
