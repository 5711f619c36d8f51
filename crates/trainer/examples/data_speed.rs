//! Measures how fast data sources yield batches: the quick start shape, 30,000 words, 60 per sample, batches of 128.
//!
//! Run with `cargo run --release -p canoe-trainer --example data_speed`. It writes its data to a temporary directory,
//! reads it with the native reader and with a Python provider (one and two processes), and prints samples per second
//! for the first pass (from files) and of the second (from memory), by the clock and by this process's processor time.

#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use config::DataConfig;
use trainer::data::{DataInput, DataOptions, DataSource, open};

const WORDS: u64 = 30_000;
const SAMPLES: u64 = 100_000;
const FILES: u64 = 4;

const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *

def init(settings, **kwargs):
    settings.words = dict((line.split('\\t')[0], number) for number, line in enumerate(open('dict.txt')))
    settings.input_types = [sparse_binary_vector(len(settings.words)), integer_value(2)]

@provider(init_hook=init, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, name):
    words = settings.words
    for line in open(name):
        label, text = line.split('\\t')
        yield [words.get(word, 0) for word in text.split()], int(label)
";

fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let bytes = write(directory.path())?;
    let native = DataConfig {
        r#type: "native".to_owned(),
        files: Some("train.list".to_owned()),
        load_data_module: Some("bow".to_owned()),
        load_data_args: Some(
            r#"{"dictionary": "dict.txt", "slots": [{"part": "bag"}, {"part": "label", "classes": 2}]}"#.to_owned(),
        ),
        ..DataConfig::default()
    };
    let python = DataConfig {
        r#type: "py2".to_owned(),
        load_data_module: Some("provider".to_owned()),
        load_data_object: Some("process".to_owned()),
        load_data_args: None,
        ..native.clone()
    };
    measure("native", &native, directory.path(), 1, bytes)?;
    measure("python, 1 process", &python, directory.path(), 1, bytes)?;
    measure("python, 2 processes", &python, directory.path(), 2, bytes)?;
    Ok(())
}

/// Writes dictionary, data and list; returns the size of the data in bytes.
fn write(directory: &Path) -> anyhow::Result<usize> {
    let dictionary: String = (0..WORDS).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "w{:x}\t{i}", i * 2_654_435_761 % 16_777_216);
        text
    });
    let words: Vec<&str> = dictionary
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let (mut state, mut total, mut list) = (1u64, 0, String::new());
    for file in 0..FILES {
        let mut text = String::new();
        for sample in 0..SAMPLES / FILES {
            let _ = write!(text, "{}\t", sample % 2);
            for _ in 0..60 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push_str(words[(state >> 33) as usize % words.len()]);
                text.push(' ');
            }
            text.push('\n');
        }
        total += text.len();
        std::fs::write(directory.join(format!("{file}.txt")), text)?;
        let _ = writeln!(list, "{file}.txt");
    }
    std::fs::write(directory.join("dict.txt"), &dictionary)?;
    std::fs::write(directory.join("train.list"), list)?;
    std::fs::write(directory.join("provider.py"), PROVIDER)?;
    Ok(total)
}

fn measure(
    name: &str,
    config: &DataConfig,
    directory: &Path,
    workers: usize,
    bytes: usize,
) -> anyhow::Result<()> {
    let options = DataOptions {
        seed: 1,
        trainer: 0,
        training: true,
        batch_size: 128,
        directory: directory.to_owned(),
        config_directory: None,
        python: PathBuf::from("python3"),
        package: Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/python"),
        python_path: None,
        workers: Some(workers),
        needed: None,
    };
    let inputs = [("word", WORDS as usize), ("label", 2)].map(|(name, size)| DataInput {
        name: name.to_owned(),
        size,
    });
    let start = Instant::now();
    let mut source = open(config, &inputs, &options)?;
    let opened = start.elapsed().as_secs_f64();
    let first = pass(&mut source, 0)?;
    let second = pass(&mut source, 1)?;
    println!(
        "{name:<20} open {opened:5.3} s; {first}; from memory: {second}; {:.0} MB",
        bytes as f64 / 1e6
    );
    Ok(())
}

/// Duration of a pass: wall-clock time, and processor time of this process.
struct Taken {
    seconds: f64,
    cpu: f64,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let samples = SAMPLES as f64;
        let (clock, cpu) = (samples / self.seconds, samples / self.cpu);
        write!(f, "{clock:8.0} samples/s, {cpu:8.0} per CPU-second")
    }
}

fn pass(source: &mut DataSource, number: u64) -> anyhow::Result<Taken> {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    source.start_pass(number, 0);
    let mut samples = 0;
    while let Some(batch) = source.next_batch()? {
        samples += batch.samples as u64;
    }
    anyhow::ensure!(samples == SAMPLES, "{samples} samples came");
    Ok(Taken {
        seconds: start.elapsed().as_secs_f64(),
        cpu: cpu_seconds() - cpu,
    })
}

/// Processor time of the living threads of this process, as Linux reports it; 0 elsewhere.
fn cpu_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}
