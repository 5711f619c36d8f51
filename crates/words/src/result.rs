//! The result of a training as a sentence: the best pass, and after which pass training stopped. The summary of a run,
//! the page, reports and logs use the same sentence.

use serde::{Deserialize, Serialize};

/// The best pass so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The pass, from 0.
    pub pass: u64,
    /// What was measured on the test data: an evaluator's name, or `cost`.
    pub measure: String,
    /// Its value after that pass.
    pub value: f64,
    /// The best pass whose model is on disk, if the best pass itself was not saved or not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
}

/// Training ended before its last pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The last pass that was trained, from 0.
    pub pass: u64,
    /// Number of passes without improvement that were allowed.
    pub patience: u32,
}

/// `best test error 11.2 % after pass 5; stopped after pass 8`. The best pass is named even if its model was deleted.
pub fn sentence(best: &Best, stopped: Option<Stopped>) -> String {
    let mut text = format!(
        "best test {} {} after pass {}",
        plain_name(&best.measure),
        value_text(&best.measure, best.value),
        best.pass
    );
    if let Some(kept) = best.kept {
        text += &format!(" (not kept; the best model that is kept is of pass {kept})");
    }
    if let Some(stopped) = stopped {
        text += &format!("; stopped after pass {}", stopped.pass);
    }
    text
}

/// The name of an evaluator without what the configuration adds to make it unique:
/// `__classification_error_evaluator_0__` is `error`.
pub fn plain_name(measure: &str) -> String {
    let (name, part) = match measure.split_once('.') {
        Some((name, part)) => (name, Some(part)),
        None => (measure, None),
    };
    let name = name.trim_matches('_');
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = name.trim_end_matches('_');
    let name = name.strip_suffix("_evaluator").unwrap_or(name);
    let name = match name {
        "" => measure,
        "classification_error" => "error",
        other => other,
    };
    match part {
        Some(part) => format!("{name} {part}").replace('_', " "),
        None => name.replace('_', " "),
    }
}

/// A value as people write it: error rates as percentages, others with four digits.
pub fn value_text(measure: &str, value: f64) -> String {
    if measure.contains("classification_error") {
        return format!("{:.1} %", value * 100.0);
    }
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e6).contains(&size) {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_one_sentence() {
        let best = Best {
            pass: 5,
            measure: "__classification_error_evaluator_0__".to_owned(),
            value: 0.1116,
            kept: None,
        };
        assert_eq!(sentence(&best, None), "best test error 11.2 % after pass 5");
        let stopped = Stopped {
            pass: 8,
            patience: 3,
        };
        assert_eq!(
            sentence(&best, Some(stopped)),
            "best test error 11.2 % after pass 5; stopped after pass 8"
        );
        let gone = Best {
            kept: Some(8),
            ..best
        };
        assert_eq!(
            sentence(&gone, Some(stopped)),
            "best test error 11.2 % after pass 5 (not kept; the best model that is kept is of pass 8); stopped after pass 8"
        );
    }

    #[test]
    fn names_and_values_are_those_that_people_use() {
        assert_eq!(plain_name("cost"), "cost");
        assert_eq!(plain_name("__auc_evaluator_0__"), "auc");
        assert_eq!(plain_name("my_own_measure"), "my own measure");
        assert_eq!(
            plain_name("__precision_recall_evaluator_1__.F1-score"),
            "precision recall F1-score"
        );
        assert_eq!(value_text("cost", 0.31239), "0.3124");
        assert_eq!(value_text("cost", 1.5e-7), "1.500e-7");
        assert_eq!(value_text("cost", 0.0), "0.0000");
    }
}
