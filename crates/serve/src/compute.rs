//! The threads that compute: each takes what waits, merges it into one batch, and replies to every request of it.

use std::sync::Arc;
use std::time::Instant;

use nn::Batch;
use predict::write::Outputs;
use predict::{Model, PredictError, Runner};
use tokio::sync::oneshot;

use crate::current::Current;
use crate::figures::RequestFigures;
use crate::merge::merge;
use crate::queue::RequestQueue;

/// Samples that are computed together at most, unless one request has more.
pub const LARGEST_BATCH: usize = 128;

/// A request whose samples are parsed and checked.
#[derive(Debug)]
pub struct PredictRequest {
    /// Its samples.
    pub batch: Batch,
    /// Where the reply goes: an object per sample, and the name of the pass that computed them.
    pub reply: oneshot::Sender<Result<Computed, String>>,
    /// When it was accepted.
    pub since: Instant,
}

/// The reply to a request.
#[derive(Debug)]
pub struct Computed {
    /// The samples as JSON objects.
    pub objects: Vec<String>,
    /// Name of the pass directory.
    pub pass: Arc<str>,
}

/// A runner, and the model that it is of.
struct Own {
    model: Arc<Model>,
    runner: Runner,
    version: u64,
    pass: Arc<str>,
}

impl Own {
    fn new(current: &Current) -> Result<Self, PredictError> {
        let version = current.version();
        let model = current.model();
        let pass = model.located.directory.file_name().unwrap_or_default();
        Ok(Self {
            runner: model.runner()?,
            pass: Arc::from(pass.to_string_lossy()),
            model,
            version,
        })
    }
}

/// Computes until the queue is closed and empty.
pub fn run(
    current: &Current,
    queue: &RequestQueue<PredictRequest>,
    figures: &RequestFigures,
) -> Result<(), PredictError> {
    let mut own = Own::new(current)?;
    while let Some(requests) = queue.take(LARGEST_BATCH) {
        if own.version != current.version() {
            // The new model has been built once already, so this cannot fail; if it does, the old one still works.
            if let Ok(new) = Own::new(current) {
                own = new;
            }
        }
        answer(&mut own, requests, figures);
    }
    Ok(())
}

fn answer(own: &mut Own, requests: Vec<PredictRequest>, figures: &RequestFigures) {
    let batches: Vec<&Batch> = requests.iter().map(|request| &request.batch).collect();
    let merged = merge(&batches);
    let together = merged.as_ref().and_then(|batch| objects(own, batch).ok());
    match together {
        Some(all) => {
            figures.batch(all.len());
            let mut rest = all.into_iter();
            for request in requests {
                let objects = rest.by_ref().take(request.batch.samples).collect();
                reply(request, Ok(objects), own, figures);
            }
        }
        // One of them cannot be computed; the others must not suffer from it.
        None => {
            for request in requests {
                let objects = objects(own, &request.batch);
                figures.batch(request.batch.samples);
                reply(request, objects, own, figures);
            }
        }
    }
}

fn reply(
    request: PredictRequest,
    objects: Result<Vec<String>, PredictError>,
    own: &Own,
    figures: &RequestFigures,
) {
    figures.waited(request.since.elapsed());
    let pass = own.pass.clone();
    let computed = objects.map(|objects| Computed { objects, pass });
    // Whoever asked may have left.
    let _ = request.reply.send(computed.map_err(|error| causes(&error)));
}

fn objects(own: &mut Own, batch: &Batch) -> Result<Vec<String>, PredictError> {
    own.runner
        .run(batch, || "the samples of a request".to_owned())?;
    let place = |sample: usize| format!("sample {sample}");
    let outputs = Outputs::of(&own.runner, &own.model.outputs, place)?;
    let object = |sample| {
        let mut text = String::from("{");
        outputs.members(sample, &mut text);
        text.push('}');
        text
    };
    Ok((0..batch.samples).map(object).collect())
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
