//! Computes requests: joins them to batches, and writes the outputs as responses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use nn::Batch;
use predict::write::Outputs;
use predict::{Model, PredictError, Runner};
use words::causes::chain;

use crate::connection::{ClientConnection, Driven};
use crate::merge::merge;
use crate::openapi::pass_name;
use crate::queue::RequestQueue;
use crate::reply::error_body;
use crate::worker::ServeWorker;

/// Samples that are computed together at most, unless one request has more.
pub(crate) const LARGEST_BATCH: usize = 128;

/// Samples of a request, parsed and checked.
#[derive(Debug)]
pub(crate) struct ParsedSamples {
    /// The samples.
    pub batch: Batch,
    /// The request was one sample, not a list of them.
    pub single: bool,
    /// The model whose inputs they are, which computes them.
    pub model: Arc<Model>,
    /// When it was accepted.
    pub since: Instant,
}

/// A request that waits for its result.
pub(crate) struct PredictRequest {
    /// Where the response goes.
    pub connection: Arc<ClientConnection>,
    /// What is asked for.
    pub samples: ParsedSamples,
}

/// The queue of a server.
pub(crate) type ServerQueue = RequestQueue<PredictRequest, Box<ModelRunner>>;

/// A runner and its model.
pub(crate) struct ModelRunner {
    model: Arc<Model>,
    runner: Runner,
    /// Name of the pass directory, as JSON.
    pass: String,
    /// The body of a response.
    text: Vec<u8>,
}

impl ModelRunner {
    /// A runner of a model.
    pub(crate) fn new(model: Arc<Model>) -> Result<Self, PredictError> {
        let pass = pass_name(&model);
        Ok(Self {
            runner: model.runner()?,
            pass: serde_json::Value::from(pass).to_string(),
            model,
            text: Vec::new(),
        })
    }

    /// Rebuilds the runner if it belongs to another model.
    fn turn_to(&mut self, model: &Arc<Model>) {
        if !Arc::ptr_eq(&self.model, model) {
            self.renew(model.clone());
        }
    }

    fn renew(&mut self, model: Arc<Model>) {
        // Every model was built once before it was served, so this cannot fail.
        if let Ok(new) = Self::new(model) {
            *self = new;
        }
    }

    /// The outputs of a batch, and the name of the pass that computed them.
    fn compute(&mut self, batch: &Batch) -> Result<(Outputs<'_>, &str), ComputeFailure> {
        let name = || "the samples of a request".to_owned();
        catch_unwind(AssertUnwindSafe(|| self.runner.run(batch, name)))
            .map_err(|_| ComputeFailure::Panic)??;
        let sample = |sample: usize| format!("sample {sample}");
        let outputs = Outputs::of(&self.runner, &self.model.outputs, sample)?;
        Ok((outputs, &self.pass))
    }
}

/// Why a batch has no outputs.
enum ComputeFailure {
    /// A sample cannot be computed.
    Samples(PredictError),
    /// A layer panicked; the panic itself has been printed.
    Panic,
}

impl From<PredictError> for ComputeFailure {
    fn from(error: PredictError) -> Self {
        ComputeFailure::Samples(error)
    }
}

/// Puts requests into the queue, and computes waiting requests while a runner is free. Requests that do not fit are
/// refused at once.
pub(crate) fn submit(worker: &mut ServeWorker, requests: &mut Vec<PredictRequest>) {
    let shared = worker.shared().clone();
    let mut more = Vec::new();
    let mut taken = Vec::new();
    let mut runner = None;
    loop {
        while !requests.is_empty() {
            for request in requests.drain(..) {
                let samples = request.samples.batch.samples;
                if let Err(request) = shared.queue.push(samples, request) {
                    let text = "too many samples wait; try again later";
                    send(
                        worker,
                        request.connection,
                        503,
                        &error_body(text),
                        &mut more,
                    );
                }
            }
            // A client may have sent its next request already.
            std::mem::swap(requests, &mut more);
        }
        runner = match runner.take() {
            None => shared.queue.begin(LARGEST_BATCH, &mut taken),
            Some(runner) => shared.queue.next(runner, LARGEST_BATCH, &mut taken),
        };
        let Some(own) = &mut runner else {
            return;
        };
        // Requests for two models exist only while a model is being replaced.
        while let Some(first) = taken.first() {
            let model = first.samples.model.clone();
            let count = taken
                .iter()
                .take_while(|request| Arc::ptr_eq(&request.samples.model, &model))
                .count();
            own.turn_to(&model);
            let rest = taken.split_off(count);
            reply_to_all(worker, own, &mut taken, requests);
            taken = rest;
        }
    }
}

/// Computes requests together and replies to each; `more` gets what their clients have sent since.
fn reply_to_all(
    worker: &mut ServeWorker,
    own: &mut ModelRunner,
    taken: &mut Vec<PredictRequest>,
    more: &mut Vec<PredictRequest>,
) {
    let mut text = std::mem::take(&mut own.text);
    let merged;
    let together = match &taken[..] {
        [_] => None,
        several => {
            merged = merge(several.iter().map(|request| &request.samples.batch));
            merged.as_ref()
        }
    };
    if let Some(Ok((outputs, pass))) = together.map(|batch| own.compute(batch)) {
        let mut first = 0;
        for request in taken.drain(..) {
            let range = first..first + request.samples.batch.samples;
            first = range.end;
            write_body(&outputs, pass, range, request.samples.single, &mut text);
            reply(worker, request, 200, &text, more);
        }
        worker.shared().figures.batch(first);
    }
    // A single request, or several of which one cannot be computed: each is computed alone, so that only that one fails.
    for request in taken.drain(..) {
        let status = alone(own, &request.samples, &mut text);
        worker.shared().figures.batch(request.samples.batch.samples);
        if status == 500 {
            // After a panic, the runner's buffers may be half written.
            own.renew(own.model.clone());
        }
        reply(worker, request, status, &text, more);
    }
    own.text = text;
}

/// Computes one request; returns the status of its response.
fn alone(own: &mut ModelRunner, samples: &ParsedSamples, text: &mut Vec<u8>) -> u16 {
    match own.compute(&samples.batch) {
        Ok((outputs, pass)) => {
            let all = 0..samples.batch.samples;
            write_body(&outputs, pass, all, samples.single, text);
            200
        }
        Err(ComputeFailure::Samples(error)) => {
            *text = error_body(&chain(&error));
            422
        }
        Err(ComputeFailure::Panic) => {
            *text = error_body("the network failed; the server's log says where");
            500
        }
    }
}

fn write_body(
    outputs: &Outputs<'_>,
    pass: &str,
    samples: std::ops::Range<usize>,
    single: bool,
    text: &mut Vec<u8>,
) {
    text.clear();
    let start: &[u8] = match single {
        true => b"{\"prediction\":",
        false => b"{\"predictions\":[",
    };
    text.extend_from_slice(start);
    let first = samples.start;
    for sample in samples {
        text.extend_from_slice(if sample > first { b",{" } else { b"{" });
        outputs.members(sample, text);
        text.push(b'}');
    }
    if !single {
        text.push(b']');
    }
    text.extend_from_slice(b",\"pass\":");
    text.extend_from_slice(pass.as_bytes());
    text.push(b'}');
}

fn reply(
    worker: &mut ServeWorker,
    request: PredictRequest,
    status: u16,
    body: &[u8],
    more: &mut Vec<PredictRequest>,
) {
    let since = request.samples.since;
    worker.shared().figures.waited(since.elapsed());
    send(worker, request.connection, status, body, more);
}

fn send(
    worker: &mut ServeWorker,
    connection: Arc<ClientConnection>,
    status: u16,
    body: &[u8],
    more: &mut Vec<PredictRequest>,
) {
    match connection.reply(worker, status, body) {
        Driven::Waits => {}
        Driven::Predict(samples) => more.push(PredictRequest {
            connection,
            samples,
        }),
        Driven::Closed => worker.shared().connections.remove(connection.key),
    }
}
