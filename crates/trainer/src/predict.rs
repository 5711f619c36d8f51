//! `--predict_output_dir`: the outputs of every test sample, one line each: `v v v;` for each output layer.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use nn::{BatchUse, LayerView, Network};

use crate::data::DataSource;
use crate::error::TrainError;
use crate::tested_model::ForBatch;
use nn::number::general;

/// Runs over all test data and writes `DIR/rank-00000` (the number is the trainer's); returns the file's path.
pub fn write(
    network: &mut Network,
    parameters: &mut dyn ForBatch,
    source: &mut DataSource,
    outputs: &[String],
    directory: &Path,
    trainer: u32,
) -> Result<PathBuf, TrainError> {
    let path = directory.join(format!("rank-{trainer:05}"));
    let failed = |source| TrainError::Write {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
    let mut batch = 0;
    source.start_pass(0, 0);
    while let Some(data) = source.next_batch()? {
        let parameters = parameters.for_batch(network, &data)?;
        network
            .forward(parameters, &data, BatchUse::Test)
            .map_err(|source| TrainError::Test { batch, source })?;
        for sample in 0..data.samples {
            let line = line(network, outputs, sample);
            writeln!(file, "{line}").map_err(failed)?;
        }
        batch += 1;
    }
    file.flush().map_err(failed)?;
    Ok(path)
}

fn line(network: &Network, outputs: &[String], sample: usize) -> String {
    outputs
        .iter()
        .filter_map(|name| network.output(name))
        .map(|view| format!("{};", values(&view, sample).join(" ")))
        .collect()
}

/// The values of one sample: its row, or the rows of all its positions.
fn values(view: &LayerView<'_>, sample: usize) -> Vec<String> {
    let rows = match view.sequences() {
        Some(starts) => starts[sample] as usize..starts[sample + 1] as usize,
        None => sample..sample + 1,
    };
    rows.flat_map(|row| match (view.id(row), view.row(row)) {
        (Some(id), _) => vec![id.to_string()],
        (None, Some(row)) => row.iter().map(|v| general(f64::from(*v))).collect(),
        (None, None) => Vec::new(),
    })
    .collect()
}
