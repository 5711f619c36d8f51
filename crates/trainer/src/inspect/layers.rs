//! `--show_layer_stat`: one line per layer and batch with the mean, spread and range of its output.

use nn::{LayerView, Network};

use crate::log::{Level, Topic};
use crate::report::Reporter;
use nn::number::general;

/// Logs the outputs of the last forward, in execution order. Layers that output ids, and layers that are computed
/// together with the one above them, are left out.
pub(crate) fn report(network: &Network, report: &mut dyn Reporter) {
    for (name, view) in network.outputs() {
        for line in lines(name, &view) {
            report.line(Level::Info, Topic::LayerStatistics, &line);
        }
    }
}

fn lines(name: &str, view: &LayerView<'_>) -> Vec<String> {
    if view.is_ids() {
        return Vec::new();
    }
    let mut sums = Sums::default();
    let mut lines = Vec::new();
    for row in 0..view.rows() {
        match (view.row(row), view.sparse_row(row)) {
            (Some(values), _) => values.iter().for_each(|v| sums.add(*v)),
            (None, Some(entries)) => entries.for_each(|(_, value)| sums.add(value)),
            (None, None) => {}
        }
    }
    if sums.count == 0 {
        let text = format!("The number of output of {name} is 0, skip to show the statistics");
        return vec![text];
    }
    if !view.is_dense() {
        lines.push("show statistics of [none zero values] in sparse matrix".to_owned());
    }
    lines.push(sums.text(name));
    lines
}

/// Sums over the values of a layer's output.
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
    min: f32,
    max: f32,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums {
            count: 0,
            sum: 0.0,
            squares: 0.0,
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
        }
    }
}

impl Sums {
    fn add(&mut self, value: f32) {
        self.count += 1;
        self.sum += f64::from(value);
        self.squares += f64::from(value) * f64::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// What v1 calls `std` is the variance; scripts read it, so it stays.
    fn text(&self, name: &str) -> String {
        let mean = self.sum / self.count as f64;
        let variance = (self.squares / self.count as f64 - mean * mean).max(0.0);
        format!(
            "The output state of {name}: mean={}, std={}, min={}, max={}",
            general(mean),
            general(variance),
            general(f64::from(self.min)),
            general(f64::from(self.max)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_looks_as_in_v1() {
        let mut sums = Sums::default();
        [1.0, -1.0, 3.0, 1.0].iter().for_each(|v| sums.add(*v));
        assert_eq!(
            sums.text("fc"),
            "The output state of fc: mean=1, std=2, min=-1, max=3"
        );
    }
}
