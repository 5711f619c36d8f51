//! A thread of the server: it gets the events of sockets, and replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use nn::Batch;
use predict::Model;
use predict::read::{fill_body, fill_value};
use predict::sample::{Filling, InputField};
use serde_json::{Value, json};

use crate::access::ClientAccess;
use crate::compute::{self, ParsedSamples, PredictRequest, ServerQueue};
use crate::connection::{Driven, EarlyResponse, Handler, PageBody};
use crate::connections::Connections;
use crate::current::Current;
use crate::events::{Events, LISTENER, SocketEvent};
use crate::figures::{RequestEnd, RequestFigures};
use crate::head::RequestHead;
use crate::openapi::{self, pass_name};
use crate::reply::{JSON, error_body};
use crate::routes::{Target, target};

/// Memory for the bodies of requests that are being read, in bytes.
pub(crate) const BODIES: usize = 256 << 20;

/// The state that all threads share.
pub(crate) struct Shared {
    /// The model.
    pub current: Current,
    /// Requests that wait.
    pub queue: ServerQueue,
    /// Counters.
    pub figures: RequestFigures,
    /// Which requests are allowed.
    pub access: ClientAccess,
    /// The largest body, in bytes.
    pub largest_body: usize,
    /// Memory that bodies may still take.
    pub memory: AtomicUsize,
    /// Version of the program.
    pub version: String,
    /// Sockets.
    pub events: Events,
    /// Clients.
    pub connections: Connections,
    /// Milliseconds since the server began.
    pub now: AtomicU64,
    /// Nothing more is accepted.
    pub ending: AtomicBool,
    /// Threads end.
    pub ended: AtomicBool,
}

/// A thread.
pub(crate) struct ServeWorker {
    shared: Arc<Shared>,
    model: Arc<Model>,
    version: u64,
    date: String,
    /// The second for which `date` was written, counted from the start of the server.
    second: u64,
}

impl ServeWorker {
    /// A thread of a server.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            version: shared.current.version(),
            model: shared.current.model(),
            shared,
            date: String::new(),
            second: u64::MAX,
        }
    }

    /// What threads share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Serves until the server ends.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        let (mut raw, mut found, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        let shared = self.shared.clone();
        while !shared.ended.load(Ordering::Acquire) {
            shared.events.wait(&mut raw, &mut found)?;
            for event in &found {
                if event.key == LISTENER {
                    shared.connections.accept(&shared.events, self.now());
                } else {
                    self.news(*event, &mut requests);
                }
            }
            if !requests.is_empty() {
                compute::submit(self, &mut requests);
            }
        }
        Ok(())
    }

    fn news(&mut self, event: SocketEvent, requests: &mut Vec<PredictRequest>) {
        let Some(connection) = self.shared.connections.get(event.key) else {
            return;
        };
        match connection.news(self, event.closing) {
            None | Some(Driven::Waits) => {}
            Some(Driven::Predict(samples)) => requests.push(PredictRequest {
                connection,
                samples,
            }),
            Some(Driven::Closed) => self.shared.connections.remove(event.key),
        }
    }

    fn model(&mut self) -> &Arc<Model> {
        let version = self.shared.current.version();
        if version != self.version {
            self.model = self.shared.current.model();
            self.version = version;
        }
        &self.model
    }
}

impl Handler for ServeWorker {
    type Samples = ParsedSamples;

    fn target(&mut self, head: &RequestHead<'_>) -> Target {
        target(head, &self.shared.access)
    }

    fn largest_body(&self) -> usize {
        self.shared.largest_body
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let memory = &self.shared.memory;
        memory
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(bytes)
            })
            .is_ok()
    }

    fn release(&mut self, bytes: usize) {
        self.shared.memory.fetch_add(bytes, Ordering::AcqRel);
    }

    fn samples(&mut self, body: &[u8]) -> Result<ParsedSamples, EarlyResponse> {
        let since = Instant::now();
        let model = self.model();
        let parsed = parse(&model.inputs, body);
        let ParsedBody { batch, single } = parsed.map_err(|text| EarlyResponse {
            status: 400,
            body: error_body(&text),
        })?;
        let model = model.clone();
        if batch.samples == 0 {
            let body = json!({"predictions": [], "pass": pass_name(&model)});
            return Err(EarlyResponse {
                status: 200,
                body: body.to_string().into(),
            });
        }
        Ok(ParsedSamples {
            batch,
            single,
            model,
            since,
        })
    }

    fn page(&mut self, target: Target) -> PageBody {
        let shared = self.shared.clone();
        match target {
            Target::Asset(kind, text) => PageBody::new(kind, text),
            Target::Metrics => {
                let text = shared.figures.text(shared.queue.len());
                PageBody::new("text/plain; version=0.0.4", text)
            }
            Target::Document => {
                let document = openapi::document(self.model(), &shared.version);
                PageBody::new(JSON, document.to_string())
            }
            Target::Model => PageBody::new(JSON, openapi::description(self.model()).to_string()),
            Target::Predict | Target::Refused(..) => PageBody::new(JSON, Vec::new()),
        }
    }

    fn replied(&mut self, target: Target, status: u16) {
        let end = match (target, status) {
            (_, 401 | 403) => RequestEnd::Unknown,
            (Target::Predict, 200) => RequestEnd::Computed,
            (Target::Predict, 503) => RequestEnd::Refused,
            (Target::Predict, _) => RequestEnd::Wrong,
            _ => return,
        };
        self.shared.figures.request(end);
    }

    fn date(&mut self) -> &str {
        let second = self.now() / 1000;
        if second != self.second {
            self.date = httpdate::fmt_http_date(SystemTime::now());
            self.second = second;
        }
        &self.date
    }

    fn now(&self) -> u64 {
        self.shared.now.load(Ordering::Relaxed)
    }

    fn ending(&self) -> bool {
        self.shared.ending.load(Ordering::Relaxed)
    }
}

/// What a body asks for.
#[derive(Debug)]
struct ParsedBody {
    batch: Batch,
    /// Whether it is one sample, not a list.
    single: bool,
}

/// The samples of a body: one object, or `{"samples": […]}`.
fn parse(inputs: &[InputField], body: &[u8]) -> Result<ParsedBody, String> {
    if let Some(batch) = fill_body(body, inputs) {
        let single = true;
        return Ok(ParsedBody { batch, single });
    }
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let several = value.get("samples").filter(|_| {
        let own = |input: &InputField| input.slot.name == "samples";
        !inputs.iter().any(own)
    });
    if value == Value::Array(Vec::new()) {
        return Err(
            "an empty list is neither a sample nor a list of samples; send {\"samples\": [...]}, or a sample as an object"
                .to_owned(),
        );
    }
    let mut filling = Filling::new(inputs);
    match several {
        None => fill_value(&value, inputs, &mut filling).map_err(|e| e.to_string())?,
        Some(Value::Array(list)) => {
            // Counted from 1, as lines are.
            for (number, sample) in (1..).zip(list) {
                fill_value(sample, inputs, &mut filling)
                    .map_err(|error| format!("sample {number}: {error}"))?;
            }
        }
        Some(_) => return Err("\"samples\" is a list of samples".to_owned()),
    }
    Ok(ParsedBody {
        batch: filling.finish(),
        single: several.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::data::{ElementKind, SlotType};

    #[test]
    fn a_body_is_one_sample_or_a_list_of_them() {
        let words = InputField {
            slot: SlotType {
                name: "word".into(),
                kind: ElementKind::Ids,
                level: 1,
                dim: 9,
                first: 0,
            },
            dictionary: None,
        };
        let parse = |body: &str| parse(std::slice::from_ref(&words), body.as_bytes());
        let read = |body: &str| {
            let parsed = parse(body).unwrap();
            (parsed.batch.samples, parsed.single)
        };
        assert_eq!(read(r#"{"word": [1, 2]}"#), (1, true));
        assert_eq!(read("[1, 2]"), (1, true));
        assert_eq!(read(r#"{"samples": [{"word": [1]}, [2]]}"#), (2, false));
        assert_eq!(read(r#"{"samples": []}"#), (0, false));
        for (body, part) in [
            ("[]", "neither a sample nor a list"),
            ("", "not JSON"),
            (r#"{"samples": 1}"#, "a list of samples"),
            (
                r#"{"samples": [{"word": [1]}, {"word": [9]}]}"#,
                "sample 2: field 'word'",
            ),
            (r#"{"word": []}"#, "field 'word': the sequence is empty"),
            (r#"{"word": ""}"#, "field 'word': the sequence is empty"),
            (r#"{"wrd": [1]}"#, "'word'"),
        ] {
            let text = parse(body).unwrap_err();
            assert!(text.contains(part), "{body}: {text}");
        }
    }
}
