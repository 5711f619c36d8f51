//! Reads progress from v1's log lines.
//!
//! A trainer that serves no status page still writes the lines that v1 users know, with or without
//! glog's head (`I1116 09:10:17.123121    50 TrainerInternal.cpp:165]`):
//!
//! ```text
//!  Batch=20 samples=2560 AvgCost=0.628761 CurrentCost=0.62 Eval: error=0.304297  CurrentEval: error=0.3
//!  Pass=0 Batch=565 samples=902826 AvgCost=3.52368 Eval:
//!  Test samples=97383 cost=3.32155 Eval: error=0.2
//! Saving parameters to ./output/pass-00000
//! tcp server start
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Progress inside a pass.
    Batch(Figures),
    /// A pass ended; its number.
    Pass(u64, Figures),
    /// A test of the whole test set.
    Test(Figures),
    /// The folder of a saved model.
    Saved(PathBuf),
    /// A server listens.
    Listening,
}

/// The numbers of a progress line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Batches since the start of the pass; missing in a test.
    pub batch: Option<u64>,
    /// Samples since the start of the pass.
    pub samples: u64,
    /// Cost per sample.
    pub cost: f64,
    /// Evaluators since the start of the pass.
    pub evals: BTreeMap<String, f64>,
}

/// Reads one line; `None` if it is about something else.
pub fn parse(line: &str) -> Option<Fact> {
    let text = message(line).trim();
    if let Some(path) = text.strip_prefix("Saving parameters to ") {
        return Some(Fact::Saved(PathBuf::from(path)));
    }
    if text == "tcp server start" {
        return Some(Fact::Listening);
    }
    if let Some(rest) = text.strip_prefix("Pass=") {
        let (pass, rest) = rest.split_once(' ')?;
        return Some(Fact::Pass(pass.parse().ok()?, figures(rest, "AvgCost")?));
    }
    if let Some(rest) = text.strip_prefix("Test ") {
        return Some(Fact::Test(figures(rest, "cost")?));
    }
    if text.starts_with("Batch=") {
        return Some(Fact::Batch(figures(text, "AvgCost")?));
    }
    None
}

/// The text after glog's head and after progress dots, or the whole line.
pub fn message(line: &str) -> &str {
    let line = line.trim_start_matches('.');
    let mut bytes = line.bytes();
    let level = bytes.next();
    let dated = bytes.by_ref().take(4).filter(u8::is_ascii_digit).count() == 4;
    if matches!(level, Some(b'I' | b'W' | b'E' | b'F'))
        && dated
        && let Some((_, text)) = line.split_once("] ")
    {
        return text;
    }
    line
}

fn figures(text: &str, cost_key: &str) -> Option<Figures> {
    let (head, evals) = text.split_once("Eval:").unwrap_or((text, ""));
    let evals = evals.split("CurrentEval:").next().unwrap_or("");
    let mut figures = Figures {
        evals: pairs(evals).collect(),
        ..Figures::default()
    };
    let mut found = (false, false);
    for word in head.split_whitespace() {
        let (key, value) = word.split_once('=')?;
        match key {
            "Batch" => figures.batch = Some(value.parse().ok()?),
            "samples" => (figures.samples, found.0) = (value.parse().ok()?, true),
            key if key == cost_key => (figures.cost, found.1) = (value.parse().ok()?, true),
            _ => {}
        }
    }
    (found == (true, true)).then_some(figures)
}

fn pairs(text: &str) -> impl Iterator<Item = (String, f64)> + '_ {
    text.split_whitespace().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = " Batch=20 samples=2560 AvgCost=0.628761 CurrentCost=0.5 \
        Eval: classification_error_evaluator=0.304297  CurrentEval: classification_error_evaluator=0.1 ";

    #[test]
    fn the_line_of_the_v1_documentation() {
        let evals = BTreeMap::from([("classification_error_evaluator".to_owned(), 0.304297)]);
        let figures = Figures {
            batch: Some(20),
            samples: 2560,
            cost: 0.628761,
            evals,
        };
        assert_eq!(parse(LINE), Some(Fact::Batch(figures.clone())));
        let with_head = format!("I1116 09:10:17.123121    50 TrainerInternal.cpp:165] {LINE}");
        assert_eq!(parse(&with_head), Some(Fact::Batch(figures.clone())));
        assert_eq!(
            parse(&format!("........{with_head}")),
            Some(Fact::Batch(figures))
        );
    }

    #[test]
    fn pass_test_and_save_lines() {
        let pass = parse(" Pass=3 Batch=565 samples=902826 AvgCost=3.52368 Eval:  ");
        let want = Figures {
            batch: Some(565),
            samples: 902_826,
            cost: 3.52368,
            evals: BTreeMap::new(),
        };
        assert_eq!(pass, Some(Fact::Pass(3, want)));
        let test = parse(" Test samples=97383 cost=3.32155 Eval: top_5_error=0.2 ");
        let evals = BTreeMap::from([("top_5_error".to_owned(), 0.2)]);
        assert_eq!(
            test,
            Some(Fact::Test(Figures {
                batch: None,
                samples: 97383,
                cost: 3.32155,
                evals
            }))
        );
        assert_eq!(
            parse(
                "I1116 09:10:17.1    50 ParamUtil.cpp:99] Saving parameters to ./output/pass-00000"
            ),
            Some(Fact::Saved(PathBuf::from("./output/pass-00000")))
        );
    }

    #[test]
    fn a_server_says_when_it_listens() {
        assert_eq!(
            parse("I1116 09:10:17.1    50 LightNetwork.cpp:273] tcp server start "),
            Some(Fact::Listening)
        );
        assert_eq!(parse("tcp server started"), None);
    }

    #[test]
    fn costs_that_are_not_finite_are_read_as_such() {
        let Some(Fact::Batch(figures)) = parse("Batch=1 samples=2 AvgCost=nan Eval:") else {
            panic!()
        };
        assert!(figures.cost.is_nan());
    }

    #[test]
    fn other_lines_say_nothing() {
        for line in [
            "",
            ".",
            "Batch=",
            "Batch=x samples=1 AvgCost=1",
            "Pass=1",
            "Batch=3 samples=4",
            "Test",
            "In",
            "日本 ] x",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in ".*") {
            parse(&line);
        }
    }
}
