//! Decides which pass is the best one, which models are kept, and when training ends early.
//!
//! All three are functions of the test results of finished passes ([`Scores`]), which trainer 0 keeps in a file next to
//! the models (`scores_file`). A decision about pass `p` reads only the results of the passes before `p`. So a job that
//! rolled back, or a replacement of trainer 0, makes the same decisions again, and results that an earlier run left for
//! later passes have no influence.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;

use config::ModelConfig;
use serde::{Deserialize, Serialize};

/// Passes without improvement that are allowed unless the user says otherwise.
pub const PATIENCE: u32 = 3;

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Errors, costs and distances.
    Lower,
    /// Areas under the curve, precisions and the like.
    Higher,
}

/// What passes are compared by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Name of an evaluator's value, or `cost`.
    pub name: String,
    /// Its direction.
    pub better: Better,
}

/// The measure that was asked for does not exist.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("--best_by={wanted}: the tests of this configuration measure {}{}", .known.join(", "), meant(.wanted, .known))]
pub struct UnknownMeasure {
    /// As typed.
    pub wanted: String,
    /// All that are measured.
    pub known: Vec<String>,
}

/// The closest known name, full or plain, as the end of the message.
fn meant(wanted: &str, known: &[String]) -> String {
    let plain = known.iter().map(|name| words::result::plain_name(name));
    let names: Vec<String> = plain.chain(known.iter().cloned()).collect();
    let guess = words::guess::nearest(wanted, names.iter().map(String::as_str));
    guess.map_or(String::new(), |name| format!("; did you mean {name}?"))
}

impl Measure {
    /// Whether the tests of a model measure `wanted`, before any of them has run.
    pub fn check(wanted: &str, model: &ModelConfig) -> Result<(), UnknownMeasure> {
        // A model whose evaluators cannot be built is refused elsewhere, with the reason.
        let evaluators = nn::Evaluators::new(model);
        let values = evaluators.map_or_else(|_| Vec::new(), |evaluators| evaluators.values());
        Measure::choose(Some(wanted), &values, model).map(|_| ())
    }

    /// Finds the measure that `wanted`, a full or a plain name, selects among the values of the model's evaluators.
    /// Without `wanted`: the first evaluator that has a direction, otherwise the cost.
    pub fn choose(
        wanted: Option<&str>,
        values: &[(String, f64)],
        model: &ModelConfig,
    ) -> Result<Measure, UnknownMeasure> {
        let cost = Measure {
            name: "cost".to_owned(),
            better: Better::Lower,
        };
        let measure = |name: &str| Measure {
            name: name.to_owned(),
            better: direction(name, model).unwrap_or(Better::Lower),
        };
        let Some(wanted) = wanted else {
            let directed = values
                .iter()
                .find(|(name, _)| direction(name, model).is_some());
            return Ok(directed.map_or(cost, |(name, _)| measure(name)));
        };
        if wanted == "cost" {
            return Ok(cost);
        }
        let plain = |name: &str| words::result::plain_name(name) == wanted.replace('_', " ");
        let inner = |name: &str| name.trim_matches('_').starts_with(wanted.trim_matches('_'));
        let matches: [&dyn Fn(&str) -> bool; 3] = [&|name| name == wanted, &plain, &inner];
        for matching in matches {
            if let Some((name, _)) = values.iter().find(|(name, _)| matching(name)) {
                return Ok(measure(name));
            }
        }
        let names = values.iter().map(|(name, _)| name.clone());
        Err(UnknownMeasure {
            wanted: wanted.to_owned(),
            known: std::iter::once(cost.name).chain(names).collect(),
        })
    }

    /// The measured value of a test.
    pub fn of(&self, cost: f64, evaluators: &[(String, f64)]) -> Option<f64> {
        if self.name == "cost" {
            return Some(cost);
        }
        let found = evaluators.iter().find(|(name, _)| *name == self.name);
        found.map(|(_, value)| *value)
    }
}

/// The direction of an evaluator's value; `None` if a larger one is neither better nor worse.
fn direction(value: &str, model: &ModelConfig) -> Option<Better> {
    let validations = model
        .layers
        .iter()
        .filter_map(nn::evaluators::of_validation);
    let evaluators = model.evaluators.iter().cloned().chain(validations);
    let name = |own: &str| {
        let rest = value.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let evaluator = evaluators.into_iter().find(|e| name(&e.name))?;
    match evaluator.r#type.as_str() {
        "classification_error" | "seq_classification_error" | "ctc_edit_distance" => {
            Some(Better::Lower)
        }
        "last-column-auc" | "precision_recall" | "pnpair" | "chunk" => Some(Better::Higher),
        _ => None,
    }
}

/// Which pass directories are kept. The newest is always among them, because a resume needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Keep the directory with the best value.
    pub best: bool,
    /// This many of the newest; `None` for all.
    pub last: Option<u32>,
}

impl Keep {
    /// Nothing is removed.
    pub const ALL: Keep = Keep {
        best: true,
        last: None,
    };

    /// Only the newest (`--save_only_one`).
    pub const NEWEST: Keep = Keep {
        best: false,
        last: Some(1),
    };
}

/// The value of `--keep` has none of the allowed forms.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "best, last:N, best,last:N or all is expected, with N of 1 or more: a resume needs the newest model"
)]
pub struct KeepError;

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Keep, KeepError> {
        let (mut best, mut last, mut all) = (false, None, false);
        for word in text.split(',').map(str::trim) {
            match (word, word.strip_prefix("last:")) {
                ("all", _) => all = true,
                ("best", _) => best = true,
                (_, Some(number)) => {
                    let number: NonZeroU32 = number.parse().map_err(|_| KeepError)?;
                    last = Some(number.get());
                }
                _ => return Err(KeepError),
            }
        }
        Ok(if all {
            Keep::ALL
        } else {
            Keep {
                best,
                last: Some(last.unwrap_or(1)),
            }
        })
    }
}

/// What is known of a finished pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The measured value; `None` if the pass was not tested, or the value is not finite.
    pub value: Option<f64>,
    /// Whether it was tested.
    pub tested: bool,
    /// Its directory was written and has not been removed.
    pub kept: bool,
}

/// A pass with a better value than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestPass {
    /// Counted from 0.
    pub pass: u32,
    /// Its measured value.
    pub value: f64,
}

/// The test results of finished passes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// What was measured; `None` while nothing was.
    pub measure: Option<Measure>,
    /// By pass.
    pub passes: BTreeMap<u32, Score>,
}

impl Scores {
    /// Compares passes by `measure` from now on; values of another measure are removed.
    pub fn measured_by(&mut self, measure: Option<Measure>) {
        if self.measure != measure {
            for score in self.passes.values_mut() {
                (score.value, score.tested) = (None, false);
            }
            self.measure = measure;
        }
    }

    /// Adds the result of a finished pass. Results of later passes are removed: they are from before a roll-back or
    /// from an earlier run.
    pub fn add(&mut self, pass: u32, value: Option<f64>, saved: bool) {
        self.passes.retain(|known, _| *known < pass);
        let score = Score {
            value: value.filter(|value| value.is_finite()),
            tested: value.is_some(),
            kept: saved,
        };
        self.passes.insert(pass, score);
    }

    /// The best of the passes before `end`; of equal ones the first.
    fn best_of(&self, end: u32, counts: impl Fn(&Score) -> bool) -> Option<BestPass> {
        let better = self.measure.as_ref()?.better;
        let mut best: Option<BestPass> = None;
        for (pass, score) in self.passes.range(..end) {
            let Some(value) = score.value.filter(|_| counts(score)) else {
                continue;
            };
            let improves = best.is_none_or(|best| match better {
                Better::Lower => value < best.value,
                Better::Higher => value > best.value,
            });
            if improves {
                best = Some(BestPass { pass: *pass, value });
            }
        }
        best
    }

    /// The best pass, whether its model is kept or not.
    pub fn best(&self) -> Option<BestPass> {
        self.best_of(u32::MAX, |_| true)
    }

    /// The best of the models that are kept.
    pub(crate) fn best_kept(&self) -> Option<BestPass> {
        self.best_of(u32::MAX, |score| score.kept)
    }

    /// The best pass as it is reported, with the best model that is kept if that is of another pass.
    pub fn told_best(&self) -> Option<words::result::Best> {
        let (BestPass { pass, value }, measure) = self.best().zip(self.measure.as_ref())?;
        let kept = self.best_kept().map(|kept| kept.pass);
        Some(words::result::Best {
            pass: u64::from(pass),
            measure: measure.name.clone(),
            value,
            kept: kept.filter(|kept| *kept != pass).map(u64::from),
        })
    }

    /// Whether training, which began with pass `start`, ends before pass `pass`: the last `patience` passes were
    /// tested, and none was better than the best before them. A run always gets as many passes.
    pub(crate) fn stops_before(&self, pass: u32, patience: u32, start: u32) -> bool {
        let Some(best) = self.best_of(pass, |_| true) else {
            return false;
        };
        let after = start.max(best.pass + 1);
        if after >= pass {
            return false;
        }
        let since = self.passes.range(after..pass);
        since.filter(|(_, score)| score.tested).count() >= patience.max(1) as usize
    }

    /// The pass before which a run of `count` passes from `start` ends.
    pub fn end(&self, start: u32, count: u32, patience: Option<u32>) -> u32 {
        let last = start.saturating_add(count);
        let Some(patience) = patience else {
            return last;
        };
        let known = self.passes.last_key_value().map_or(start, |(p, _)| p + 1);
        let mut stops = start..known.min(last).saturating_add(1);
        stops
            .find(|pass| *pass < last && self.stops_before(*pass, patience, start))
            .unwrap_or(last)
    }

    /// The passes whose directories are no longer kept. Never the newest, nor `needed`, from which the run starts and
    /// would start again.
    pub fn expendable(&self, keep: Keep, needed: Option<u32>) -> Vec<u32> {
        let Some(last) = keep.last else {
            return Vec::new();
        };
        let best = self.best_kept().filter(|_| keep.best);
        let best = best.map(|best| best.pass);
        let kept = self.passes.iter().filter(|(_, score)| score.kept);
        let older = kept.map(|(pass, _)| *pass).rev().skip(last.max(1) as usize);
        older
            .filter(|pass| Some(*pass) != best && Some(*pass) != needed)
            .collect()
    }

    /// Corrects which directories are kept: a process may have ended before it had saved, or a user may have deleted
    /// some.
    pub(crate) fn check_kept(&mut self, exists: impl Fn(u32) -> bool) {
        for (pass, score) in &mut self.passes {
            score.kept &= exists(*pass);
        }
    }

    /// Notes that the directory of this pass was removed.
    pub fn removed(&mut self, pass: u32) {
        if let Some(score) = self.passes.get_mut(&pass) {
            score.kept = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::EvaluatorConfig;

    fn found(pass: u32, value: f64) -> Option<BestPass> {
        Some(BestPass { pass, value })
    }

    fn scores(better: Better, values: &[f64]) -> Scores {
        let mut scores = Scores {
            measure: Some(Measure {
                name: "e".to_owned(),
                better,
            }),
            ..Scores::default()
        };
        for (pass, value) in (0..).zip(values) {
            scores.add(pass, Some(*value), true);
        }
        scores
    }

    fn model() -> ModelConfig {
        let evaluator = |name: &str, kind: &str| EvaluatorConfig {
            name: name.to_owned(),
            r#type: kind.to_owned(),
            ..EvaluatorConfig::default()
        };
        ModelConfig {
            evaluators: vec![
                evaluator("__sum_evaluator_0__", "sum"),
                evaluator(
                    "__classification_error_evaluator_0__",
                    "classification_error",
                ),
                evaluator("__auc_evaluator_0__", "last-column-auc"),
            ],
            ..ModelConfig::default()
        }
    }

    #[test]
    fn the_first_evaluator_with_a_direction_decides_unless_another_is_named() {
        let names = [
            "__sum_evaluator_0__",
            "__classification_error_evaluator_0__",
            "__auc_evaluator_0__",
        ];
        let values: Vec<_> = names.iter().map(|name| ((*name).to_owned(), 0.0)).collect();
        let choose = |wanted| Measure::choose(wanted, &values, &model());
        let named = |wanted| choose(wanted).map(|m| (m.name, m.better));
        assert_eq!(named(None), Ok((names[1].to_owned(), Better::Lower)));
        for auc in ["auc", "__auc_evaluator_0__", "auc_evaluator"] {
            assert_eq!(named(Some(auc)), Ok((names[2].to_owned(), Better::Higher)));
        }
        assert_eq!(named(Some("cost")), Ok(("cost".to_owned(), Better::Lower)));
        let error = choose(Some("acu")).unwrap_err().to_string();
        assert!(
            error.contains("--best_by=acu") && error.contains("cost, "),
            "{error}"
        );
        assert!(error.ends_with("; did you mean auc?"), "{error}");
        let error = choose(Some("eror")).unwrap_err().to_string();
        assert!(error.ends_with("; did you mean error?"), "{error}");
        let far = choose(Some("beauty")).unwrap_err().to_string();
        assert!(!far.contains("did you mean"), "{far}");
        let nothing = Measure::choose(None, &[], &model()).unwrap();
        assert_eq!(nothing.name, "cost");
    }

    #[test]
    fn training_ends_when_no_pass_of_the_last_ones_was_better() {
        let scores = scores(Better::Lower, &[0.5, 0.3, 0.4, 0.3, 0.35]);
        let stops = |patience| (0..=5).find(|pass| scores.stops_before(*pass, patience, 0));
        assert_eq!(stops(1), Some(3), "pass 2 was worse than pass 1");
        assert_eq!(stops(3), Some(5), "an equal value is no improvement");
        assert_eq!(stops(4), None);
        assert_eq!(scores.end(0, 100, Some(3)), 5);
        assert_eq!(scores.end(0, 100, None), 100);
        assert_eq!(scores.end(0, 4, Some(3)), 4);
    }

    #[test]
    fn a_decision_about_a_pass_does_not_know_later_ones() {
        let all = scores(Better::Higher, &[0.5, 0.6, 0.6, 0.6, 0.9, 0.1]);
        for pass in 0..=6 {
            let known: Vec<f64> = [0.5, 0.6, 0.6, 0.6, 0.9, 0.1][..pass as usize].to_vec();
            let before = scores(Better::Higher, &known);
            assert_eq!(
                all.stops_before(pass, 2, 0),
                before.stops_before(pass, 2, 0),
                "pass {pass}"
            );
        }
    }

    #[test]
    fn a_run_that_continues_an_earlier_one_gets_as_many_passes_as_its_patience() {
        let mut scores = scores(Better::Lower, &[0.3, 0.4, 0.4, 0.4]);
        assert!(scores.stops_before(4, 3, 0));
        assert!(!scores.stops_before(4, 3, 4), "the user asked for more");
        scores.add(4, Some(0.4), true);
        scores.add(5, Some(0.4), true);
        assert!(!scores.stops_before(6, 3, 4));
        scores.add(6, Some(0.4), true);
        assert!(scores.stops_before(7, 3, 4));
    }

    #[test]
    fn passes_without_a_test_do_not_count_and_values_that_are_not_finite_are_no_improvement() {
        let mut scores = scores(Better::Lower, &[0.5]);
        for pass in 1..5 {
            scores.add(pass, None, true);
        }
        assert!(!scores.stops_before(5, 1, 0));
        scores.add(5, Some(f64::NAN), true);
        assert!(scores.stops_before(6, 1, 0));
        assert_eq!(scores.best(), found(0, 0.5));
    }

    #[test]
    fn what_is_kept() {
        let keep = |text: &str| text.parse::<Keep>();
        let (best, all) = (keep("best,last:3").unwrap(), keep("all").unwrap());
        let scores = scores(Better::Lower, &[0.5, 0.1, 0.3, 0.4, 0.35, 0.3, 0.2]);
        assert_eq!(scores.expendable(best, None), [3, 2, 0]);
        assert_eq!(scores.expendable(best, Some(2)), [3, 0]);
        assert_eq!(scores.expendable(all, None), [] as [u32; 0]);
        assert_eq!(
            scores.expendable(keep("best").unwrap(), None),
            [5, 4, 3, 2, 0]
        );
        assert_eq!(
            scores.expendable(keep("last:2").unwrap(), None),
            [4, 3, 2, 1, 0]
        );
        assert_eq!(scores.expendable(Keep::NEWEST, None).len(), 6);
        for wrong in [
            "",
            "first",
            "last",
            "last:x",
            "last:0",
            "best,last:0",
            "best,worst",
        ] {
            assert_eq!(keep(wrong), Err(KeepError), "{wrong}");
        }
    }

    #[test]
    fn of_the_models_that_are_kept_the_best_is_linked() {
        let mut scores = scores(Better::Lower, &[0.1, 0.3, 0.2]);
        scores.removed(0);
        assert_eq!(scores.best_kept(), found(2, 0.2));
    }

    #[test]
    fn the_best_pass_is_named_even_if_its_model_is_not_kept() {
        let mut scores = scores(Better::Lower, &[0.1, 0.3, 0.2]);
        assert_eq!(scores.told_best().unwrap().kept, None);
        scores.removed(0);
        let told = scores.told_best().unwrap();
        assert_eq!((told.pass, told.value, told.kept), (0, 0.1, Some(2)));
        assert_eq!(scores.best(), found(0, 0.1));
    }

    #[test]
    fn only_models_that_exist_are_kept() {
        let mut scores = scores(Better::Lower, &[0.5, 0.4, 0.3]);
        scores.check_kept(|pass| pass < 2);
        assert_eq!(scores.best_kept(), found(1, 0.4));
        assert_eq!(scores.best(), found(2, 0.3));
    }

    #[test]
    fn values_of_another_measure_are_forgotten() {
        let mut scores = scores(Better::Lower, &[0.1, 0.3]);
        scores.measured_by(Some(Measure {
            name: "auc".to_owned(),
            better: Better::Higher,
        }));
        assert_eq!(scores.best(), None);
        assert_eq!(
            scores.expendable(Keep::NEWEST, None),
            [0],
            "but directories are not"
        );
    }
}
