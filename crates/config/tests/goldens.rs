//! Small configurations, one per family of layers, compared with their text form.
//!
//! A text that differs is written to the build's temporary directory, to be inspected and, if it is right, to replace
//! the one in `tests/configs`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fs;
use std::path::Path;

use config::command::{DumpFormat, DumpPart, dump};
use config::{EvaluateOptions, Prints};

fn compare(name: &str, args: &str, golden: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let place = tempfile::tempdir().unwrap();
    let options = EvaluateOptions {
        args: args.to_owned(),
        directory: Some(place.path().to_owned()),
        prints: Prints::Nowhere,
        ..EvaluateOptions::new(source.join(name))
    };
    let found = dump(&options, DumpPart::Whole, DumpFormat::Text).unwrap();
    let expected = fs::read_to_string(source.join(golden)).unwrap_or_default();
    if let Some(line) = first_difference(&found, &expected) {
        let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join(golden);
        fs::write(&left, &found).unwrap();
        panic!("{golden} differs at line {line}: see {}", left.display());
    }
}

fn first_difference(found: &str, expected: &str) -> Option<usize> {
    if found == expected {
        return None;
    }
    let same = found
        .lines()
        .zip(expected.lines())
        .take_while(|(left, right)| left == right);
    Some(same.count() + 1)
}

macro_rules! goldens {
    ($($test:ident: $file:literal, $args:literal, $golden:literal;)*) => {$(
        #[test]
        fn $test() {
            compare($file, $args, $golden);
        }
    )*};
}

goldens! {
    text: "text.py", "", "text.txt";
    text_to_predict: "text.py", "is_predict=1", "text_predict.txt";
    recommendation: "recommendation.py", "", "recommendation.txt";
    images: "images.py", "", "images.txt";
    images_on_gpu: "images.py", "use_gpu=1,cudnn_version=5000", "images_gpu.txt";
    recurrent: "recurrent.py", "", "recurrent.txt";
    generation: "generation.py", "", "generation.txt";
    tagging: "tagging.py", "", "tagging.txt";
    costs: "costs.py", "", "costs.txt";
    algebra: "algebra.py", "", "algebra.txt";
    raw: "raw.py", "batch=7", "raw.txt";
}
