//! The counters of an HTTP server, in Prometheus' text form.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use words::metrics::{Exposition, MetricKind};

/// Upper ends of the latency buckets, in seconds.
const BUCKETS: [f64; 10] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5,
];

/// Counters of one server.
#[derive(Debug, Default)]
pub(crate) struct RequestFigures {
    requests: [AtomicU64; 4],
    samples: AtomicU64,
    batches: AtomicU64,
    replacements: AtomicU64,
    failed_replacements: AtomicU64,
    waited: AtomicU64,
    finished: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// It was computed.
    Computed,
    /// It could not be parsed or computed.
    Wrong,
    /// The queue was full.
    Refused,
    /// The token was missing or wrong.
    Unknown,
}

const ENDS: [(RequestEnd, &str); 4] = [
    (RequestEnd::Computed, "computed"),
    (RequestEnd::Wrong, "wrong"),
    (RequestEnd::Refused, "refused"),
    (RequestEnd::Unknown, "unauthorized"),
];

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

impl RequestFigures {
    /// A request has ended.
    pub(crate) fn request(&self, end: RequestEnd) {
        if let Some(at) = ENDS.iter().position(|(each, _)| *each == end) {
            add(&self.requests[at], 1);
        }
    }

    /// A batch was computed.
    pub(crate) fn batch(&self, samples: usize) {
        add(&self.batches, 1);
        add(&self.samples, samples as u64);
    }

    /// A request was computed; `time` has passed since it was accepted.
    pub(crate) fn waited(&self, time: Duration) {
        add(&self.finished, 1);
        add(&self.waited, time.as_micros() as u64);
        let at = BUCKETS.iter().position(|end| time.as_secs_f64() <= *end);
        if let Some(at) = at {
            add(&self.buckets[at], 1);
        }
    }

    /// The model was replaced, or could not be.
    pub(crate) fn replaced(&self, done: bool) {
        let counter = if done {
            &self.replacements
        } else {
            &self.failed_replacements
        };
        add(counter, 1);
    }

    /// The text of a scrape.
    pub(crate) fn text(&self, waiting: usize) -> String {
        let mut text = Exposition::default();
        let mut requests = text.metric(
            "canoe_serve_requests_total",
            MetricKind::Counter,
            "Requests, by how they ended.",
        );
        for ((_, name), counter) in ENDS.iter().zip(&self.requests) {
            requests.value(&[("end", name)], get(counter));
        }
        let counters = [
            (
                "canoe_serve_samples_total",
                &self.samples,
                "Samples computed.",
            ),
            (
                "canoe_serve_batches_total",
                &self.batches,
                "Batches computed.",
            ),
            (
                "canoe_serve_replacements_total",
                &self.replacements,
                "Replacements of the model by another pass.",
            ),
            (
                "canoe_serve_failed_replacements_total",
                &self.failed_replacements,
                "Passes that could not be loaded.",
            ),
        ];
        for (name, counter, help) in counters {
            text.metric(name, MetricKind::Counter, help)
                .value(&[], get(counter));
        }
        text.metric(
            "canoe_serve_waiting_samples",
            MetricKind::Gauge,
            "Samples in the queue.",
        )
        .value(&[], waiting as f64);
        let below = BUCKETS.iter().zip(&self.buckets);
        let below = below.scan(0.0, |sum, (end, count)| {
            *sum += get(count);
            Some((*end, *sum))
        });
        text.histogram(
            "canoe_serve_request_seconds",
            "Time from the acceptance of a request to its result.",
            below,
            (get(&self.finished), get(&self.waited) / 1e6),
        );
        text.into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_appear_in_a_scrape() {
        let figures = RequestFigures::default();
        figures.request(RequestEnd::Refused);
        figures.batch(3);
        figures.waited(Duration::from_millis(2));
        let text = figures.text(7);
        for line in [
            "canoe_serve_requests_total{end=\"refused\"} 1",
            "canoe_serve_samples_total 3",
            "canoe_serve_waiting_samples 7",
            "canoe_serve_request_seconds_bucket{le=\"0.001\"} 0",
            "canoe_serve_request_seconds_bucket{le=\"0.0025\"} 1",
            "canoe_serve_request_seconds_count 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
