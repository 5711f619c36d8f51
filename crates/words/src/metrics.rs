//! Metrics in Prometheus' text form. Names are `canoe_<trainer|pserver|node|job|serve>_<what>_<unit>`; counters end in
//! `_total`.

use std::fmt::Write;

/// Whether a metric only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It may also fall.
    Gauge,
}

/// The text of a reply to a scrape.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a metric: its name, kind, and what it means.
    pub fn metric(&mut self, name: &str, kind: MetricKind, help: &str) -> MetricValues<'_> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        MetricValues {
            text: &mut self.text,
            name: name.to_owned(),
        }
    }

    /// A histogram. `below`: upper ends of its ranges, ascending, with the number of values up to each; then the number
    /// and the sum of all values.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        below: impl Iterator<Item = (f64, f64)>,
        (count, sum): (f64, f64),
    ) {
        let text = &mut self.text;
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} histogram\n");
        for (end, values) in below {
            let _ = writeln!(text, "{name}_bucket{{le=\"{end}\"}} {values}");
        }
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = write!(text, "{name}_sum {sum}\n{name}_count {count}\n");
    }

    /// The page in Prometheus' text format.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// The values of one metric.
#[derive(Debug)]
pub struct MetricValues<'a> {
    text: &'a mut String,
    name: String,
}

impl MetricValues<'_> {
    /// Adds a value with these labels.
    pub fn value(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
        self
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_help_type_and_escaped_labels() {
        let mut exposition = Exposition::default();
        exposition
            .metric(
                "canoe_node_up",
                MetricKind::Gauge,
                "Whether a process runs.",
            )
            .value(&[("node", "0"), ("role", "a\"b\\\n")], 1.0)
            .value(&[], f64::NAN);
        assert_eq!(
            exposition.into_text(),
            "# HELP canoe_node_up Whether a process runs.\n# TYPE canoe_node_up gauge\n\
             canoe_node_up{node=\"0\",role=\"a\\\"b\\\\\\n\"} 1\ncanoe_node_up NaN\n"
        );
    }
}
