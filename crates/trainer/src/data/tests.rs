//! Data sources as a whole: real provider processes, real files.

mod bad_provider;
mod native;
mod provider;
mod python2;

use std::path::{Path, PathBuf};

use config::DataConfig;
use nn::batch::{Batch, SlotData};

use super::{DataError, DataInput, DataOptions, DataSource, open};

/// A job directory with a provider module and data files.
struct Job {
    directory: tempfile::TempDir,
    config: DataConfig,
    inputs: Vec<DataInput>,
    options: DataOptions,
}

impl Job {
    /// A job whose provider is `code` (after the usual import) with the function `process`.
    fn with_provider(code: &str, inputs: &[(&str, usize)]) -> Self {
        let job = Self::new("py2", inputs);
        let import = "from paddle.trainer.PyDataProvider2 import *\n";
        job.write("my_provider.py", &format!("{import}{code}"));
        job
    }

    fn new(kind: &str, inputs: &[(&str, usize)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/python");
        let options = DataOptions {
            seed: 1,
            trainer: 0,
            training: true,
            batch_size: 4,
            directory: directory.path().to_owned(),
            config_directory: None,
            python: PathBuf::from("python3"),
            package,
            python_path: None,
            workers: None,
            needed: None,
        };
        Self {
            directory,
            config: DataConfig {
                r#type: kind.to_owned(),
                files: Some("train.list".to_owned()),
                load_data_module: Some("my_provider".to_owned()),
                load_data_object: Some("process".to_owned()),
                ..DataConfig::default()
            },
            inputs: inputs
                .iter()
                .map(|(name, size)| DataInput {
                    name: (*name).to_owned(),
                    size: *size,
                })
                .collect(),
            options,
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Files `0.txt`, `1.txt`, … with one number per line, counted across all files, and their list.
    fn numbers(&self, counts: &[usize]) {
        let mut next = 0;
        let mut list = String::new();
        for (file, count) in counts.iter().enumerate() {
            let lines: String = (next..next + count).map(|n| format!("{n}\n")).collect();
            self.write(&format!("{file}.txt"), &lines);
            list += &format!("{file}.txt\n");
            next += count;
        }
        self.write("train.list", &list);
    }

    fn open(&self) -> Result<DataSource, DataError> {
        open(&self.config, &self.inputs, &self.options)
    }

    /// The error with which opening or reading ends.
    fn failure(&self) -> DataError {
        let mut source = match self.open() {
            Ok(source) => source,
            Err(error) => return error,
        };
        source.start_pass(0, 0);
        loop {
            match source.next_batch() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the pass did not fail"),
                Err(error) => return error,
            }
        }
    }
}

/// All batches of a pass.
fn batches(source: &mut DataSource, pass: u64, skip: u64) -> Vec<Batch> {
    source.start_pass(pass, skip);
    let mut batches = Vec::new();
    while let Some(batch) = source.next_batch().unwrap() {
        batches.push(batch);
    }
    batches
}

/// The ids of a slot, batch by batch.
fn ids(batches: &[Batch], slot: usize) -> Vec<Vec<u32>> {
    let of = |batch: &Batch| match &batch.slots[slot].data {
        SlotData::Ids(ids) => ids.clone(),
        other => panic!("{other:?}"),
    };
    batches.iter().map(of).collect()
}
