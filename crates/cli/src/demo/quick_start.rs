//! The quick_start demo: is a product review praise or blame?

use std::path::Path;

use super::DemoError;
use super::job::Staging;
use super::reviews::corpus::{Corpus, Sizes, Summary};
use super::reviews::generator::Generator;
use super::reviews::review::Label;

/// The folder with the configurations and data providers, named as v1's `TRAIN_CONFIG_DIR`.
pub const CONFIG_FOLDER: &str = "quick_start";
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("files/quick_start/", $name)))),*]
    };
}
const FILES: &[(&str, &str)] = embedded!["trainer_config.lr.py", "dataprovider_bow.py",];

/// What the generated data set looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Decides every byte.
    pub seed: u64,
    /// Training samples, both classes.
    pub train_samples: usize,
    /// Test samples, both classes.
    pub test_samples: usize,
}

/// Writes the demo with generated reviews into `directory`.
pub fn write_generated(
    directory: &Path,
    wanted: Generated,
    force: bool,
) -> Result<Summary, DemoError> {
    let staging = Staging::new(directory, force)?;
    staging.check_free(&[CONFIG_FOLDER, "data"])?;
    staging.files(CONFIG_FOLDER, FILES)?;
    let data = staging.folder("data")?;
    let sizes = Sizes {
        train: wanted.train_samples.div_ceil(2),
        test: wanted.test_samples.div_ceil(2),
    };
    let corpus = generate(wanted.seed, sizes, &data)?;
    let summary = corpus.finish(&data, |_| sizes)?;
    staging.publish()?;
    Ok(summary)
}

/// Enough reviews for `sizes`, with some to spare for doubles.
fn generate(seed: u64, sizes: Sizes, data: &Path) -> Result<Corpus, DemoError> {
    let enough = (sizes.train + sizes.test) + (sizes.train + sizes.test) / 50 + 10;
    let mut generator = Generator::new(seed);
    let mut corpus = Corpus::new(seed, data)?;
    while corpus.taken(Label::Negative) < enough || corpus.taken(Label::Positive) < enough {
        let review = generator.next_review();
        corpus
            .add(&review)
            .map_err(|source| DemoError::write(data, source))?;
    }
    Ok(corpus)
}
