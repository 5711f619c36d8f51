//! The quick_start demo: is a product review positive or negative?

use std::path::Path;

use super::DemoError;
use super::job::Staging;
use super::reviews::amazon;
use super::reviews::corpus::{Corpus, Sizes, Summary};
use super::reviews::generator::ReviewGenerator;
use super::reviews::review::Sentiment;

/// The folder with the configurations and data providers, named as v1's `TRAIN_CONFIG_DIR`.
pub(crate) const CONFIG_FOLDER: &str = "quick_start";
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("files/quick_start/", $name)))),*]
    };
}
const FILES: &[(&str, &str)] = embedded![
    "trainer_config.lr.py",
    "trainer_config.lr-native.py",
    "trainer_config.emb.py",
    "trainer_config.cnn.py",
    "trainer_config.lstm.py",
    "trainer_config.bidi-lstm.py",
    "trainer_config.db-lstm.py",
    "trainer_config.resnet-lstm.py",
    "dataprovider_bow.py",
    "dataprovider_emb.py",
    "README.md",
];

/// What the generated data set looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Every byte is a function of it.
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
    let sizes = Sizes {
        train: wanted.train_samples.div_ceil(2),
        test: wanted.test_samples.div_ceil(2),
    };
    write(directory, force, |data| {
        generate(wanted.seed, sizes, data)?.finish(data, |_| sizes)
    })
}

/// Writes the demo with the reviews of an Amazon file into `directory`. `progress` is called with the number of bytes
/// of the file that have been read.
pub fn write_real(
    directory: &Path,
    source: &Path,
    seed: u64,
    force: bool,
    progress: &dyn Fn(u64),
) -> Result<Summary, DemoError> {
    write(directory, force, |data| {
        let mut corpus = Corpus::new(seed, data)?;
        amazon::read(source, &mut corpus, progress)?;
        corpus.finish(data, Sizes::of_real_set)
    })
}

fn write(
    directory: &Path,
    force: bool,
    fill: impl FnOnce(&Path) -> Result<Summary, DemoError>,
) -> Result<Summary, DemoError> {
    let staging = Staging::new(directory, force)?;
    staging.check_free(&[CONFIG_FOLDER, "data"])?;
    staging.files(CONFIG_FOLDER, FILES)?;
    let summary = fill(&staging.folder("data")?)?;
    staging.publish()?;
    Ok(summary)
}

/// Enough reviews for `sizes`, with some to spare for duplicates.
fn generate(seed: u64, sizes: Sizes, data: &Path) -> Result<Corpus, DemoError> {
    let enough = (sizes.train + sizes.test) + (sizes.train + sizes.test) / 50 + 10;
    let mut generator = ReviewGenerator::new(seed);
    let mut corpus = Corpus::new(seed, data)?;
    while corpus.taken(Sentiment::Negative) < enough || corpus.taken(Sentiment::Positive) < enough {
        let review = generator.next_review();
        corpus
            .add(&review)
            .map_err(|source| DemoError::write(data, source))?;
    }
    Ok(corpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    const SMALL: Generated = Generated {
        seed: 1,
        train_samples: 200,
        test_samples: 50,
    };

    #[test]
    fn the_job_directory_is_complete_and_reproducible() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let summary = write_generated(one.path(), SMALL, false).unwrap();
        assert_eq!(
            summary.sizes,
            Sizes {
                train: 100,
                test: 25
            }
        );
        write_generated(two.path(), SMALL, false).unwrap();
        for name in ["train.txt", "test.txt", "dict.txt", "pred.txt"] {
            let read = |job: &Path| fs::read(job.join("data").join(name)).unwrap();
            assert_eq!(read(one.path()), read(two.path()), "{name}");
        }
        for (name, content) in FILES {
            assert_eq!(
                fs::read_to_string(one.path().join("quick_start").join(name)).unwrap(),
                *content
            );
        }
        assert!(matches!(
            write_generated(one.path(), SMALL, false),
            Err(DemoError::Exists { .. })
        ));
    }

    /// Reads the data like the providers, with a stand-in for the decorators.
    #[test]
    fn providers_read_the_data() {
        let job = tempfile::tempdir().unwrap();
        write_generated(job.path(), SMALL, false).unwrap();
        let script = "
import sys, types
stub = types.ModuleType('paddle.trainer.PyDataProvider2')
stub.provider = lambda **options: (lambda function: function)
stub.CacheType = types.SimpleNamespace(CACHE_PASS_IN_MEM=1)
for name in ('sparse_binary_vector', 'integer_value_sequence', 'integer_value'):
    setattr(stub, name, lambda size: size)
sys.modules.update({'paddle': stub, 'paddle.trainer': stub, 'paddle.trainer.PyDataProvider2': stub})
sys.path.insert(0, 'quick_start')
for module in ('dataprovider_bow', 'dataprovider_emb'):
    provider = __import__(module)
    settings = types.SimpleNamespace()
    provider.on_init(settings, 'data/dict.txt', file_list=[], is_train=True)
    samples = list(provider.process(settings, 'data/train.txt'))
    lines = sum(1 for _ in open('data/dict.txt', encoding='utf-8'))
    assert settings.input_types['word'] == lines, module
    assert all(0 <= id < lines for sample in samples for id in sample['word'])
    print(len(samples), sum(sample['label'] for sample in samples), len(list(provider.process_predict(settings, 'data/pred.txt'))))";
        let output = Command::new("python3")
            .args(["-c", script])
            .current_dir(job.path())
            .output()
            .unwrap();
        let want = "200 100 50\n200 100 50\n";
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            want,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
