//! Outputs as text: CSV, JSON lines, or the lines that v1 wrote (`v v v;` per output layer).
//!
//! Numbers are written with as many digits as it takes to read the same 32 bits back.

use nn::LayerView;
use nn::number::general;

use crate::error::PredictError;
use crate::model::{Label, OutputField, Runner};

/// Outputs wider than this have one column in CSV, not one per value.
const WIDEST: usize = 256;

/// How outputs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// A header, then a record per sample.
    Csv,
    /// An object per sample.
    JsonLines,
    /// v1's lines, as `--predict_output_dir` writes them.
    V1,
}

/// The outputs of a batch that a runner has computed.
pub struct Outputs<'a> {
    fields: &'a [OutputField],
    views: Vec<LayerView<'a>>,
}

impl<'a> Outputs<'a> {
    /// Reads the outputs of the last batch. `place` names a sample in errors.
    pub fn of(
        runner: &'a Runner,
        fields: &'a [OutputField],
        place: impl Fn(usize) -> String,
    ) -> Result<Self, PredictError> {
        let views = fields.iter().map(|field| runner.output(&field.name));
        let views: Vec<LayerView<'a>> = views.collect::<Result<_, _>>()?;
        for (view, field) in views.iter().zip(fields) {
            let bad = (0..view.rows()).find(|row| {
                let values = view.row(*row).unwrap_or(&[]);
                values.iter().any(|value| !value.is_finite())
            });
            if let Some(row) = bad {
                let sample = match view.sequences() {
                    Some(starts) => starts.partition_point(|s| *s as usize <= row) - 1,
                    None => row,
                };
                return Err(PredictError::NotFinite {
                    place: place(sample),
                    layer: field.name.clone(),
                });
            }
        }
        Ok(Self { fields, views })
    }

    /// The outputs, in the order of the model's.
    pub fn views(&self) -> &[LayerView<'a>] {
        &self.views
    }

    fn each(&self) -> impl Iterator<Item = (&OutputField, &LayerView<'a>)> {
        self.fields.iter().zip(&self.views)
    }

    /// The names of the columns of CSV.
    pub fn columns(&self) -> Vec<String> {
        let mut columns = Vec::new();
        for (field, view) in self.each() {
            let name = &field.name;
            let (dense, wide) = (view.is_dense(), view.cols() > WIDEST);
            match (dense, view.sequences().is_some()) {
                (true, false) if view.cols() > 1 => {
                    if field.classes {
                        columns.push(name.clone());
                    }
                    if wide {
                        columns.push(format!("{name}.values"));
                        continue;
                    }
                    let each = 0..view.cols() as u32;
                    columns.extend(each.map(|class| match field.classes {
                        true => format!("{name}.{}", field.label(class)),
                        false => format!("{name}.{class}"),
                    }));
                }
                (true, true) if field.classes => {
                    columns.push(name.clone());
                    columns.push(format!("{name}.values"));
                }
                _ => columns.push(name.clone()),
            }
        }
        columns
    }

    /// The cells of one sample.
    pub fn record(&self, sample: usize) -> Vec<String> {
        let mut cells = Vec::new();
        for (field, view) in self.each() {
            let rows = rows_of(view, sample);
            let sequence = view.sequences().is_some();
            if view.is_ids() {
                let labels = rows.map(|row| field.label(view.id(row).unwrap_or(0)).to_string());
                cells.push(labels.collect::<Vec<_>>().join(" "));
                continue;
            }
            if field.classes {
                let best = rows.clone().map(|row| best(field, view, row).to_string());
                cells.push(best.collect::<Vec<_>>().join(" "));
            }
            let values = |row: usize| view.row(row).unwrap_or(&[]).iter();
            if sequence || view.cols() > WIDEST {
                let positions = rows.map(|row| {
                    let texts: Vec<String> = values(row).map(|v| number(*v)).collect();
                    texts.join(" ")
                });
                cells.push(positions.collect::<Vec<_>>().join(";"));
            } else {
                cells.extend(rows.flat_map(values).map(|v| number(*v)));
            }
        }
        cells
    }

    /// One sample as members of a JSON object, with the output layers as keys; without the braces.
    pub fn members(&self, sample: usize, out: &mut Vec<u8>) {
        for (at, (field, view)) in self.each().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            text(&field.name, out);
            out.push(b':');
            let rows = rows_of(view, sample);
            match view.sequences() {
                Some(_) => list(rows, out, |row, out| position(field, view, row, out)),
                None => rows.for_each(|row| position(field, view, row, out)),
            }
        }
    }

    /// One sample as v1 writes it.
    pub fn v1(&self, sample: usize) -> String {
        let mut line = String::new();
        for (_, view) in self.each() {
            let rows = rows_of(view, sample);
            let texts = rows.flat_map(|row| match (view.id(row), view.row(row)) {
                (Some(id), _) => vec![id.to_string()],
                (None, Some(row)) => row.iter().map(|v| general(f64::from(*v))).collect(),
                (None, None) => Vec::new(),
            });
            line.push_str(&texts.collect::<Vec<_>>().join(" "));
            line.push(';');
        }
        line
    }
}

/// The rows of a sample: one, or those of its positions.
pub fn rows_of(view: &LayerView<'_>, sample: usize) -> std::ops::Range<usize> {
    match view.sequences() {
        Some(starts) => starts[sample] as usize..starts[sample + 1] as usize,
        None => sample..sample + 1,
    }
}

fn best<'a>(field: &'a OutputField, view: &LayerView<'_>, row: usize) -> Label<'a> {
    let values = view.row(row).unwrap_or(&[]);
    // Of equal values the first counts, as in the layer maxid.
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    field.label(best as u32)
}

fn list<T>(
    items: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    mut each: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(b']');
}

fn text(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

fn label_value(label: Label<'_>, out: &mut Vec<u8>) {
    match label {
        Label::Word(word) => text(word, out),
        Label::Id(id) => out.extend_from_slice(id.to_string().as_bytes()),
    }
}

fn label_key(label: Label<'_>, out: &mut Vec<u8>) {
    match label {
        Label::Word(word) => text(word, out),
        Label::Id(id) => text(&id.to_string(), out),
    }
}

fn position(field: &OutputField, view: &LayerView<'_>, row: usize, out: &mut Vec<u8>) {
    if let Some(id) = view.id(row) {
        return label_value(field.label(id), out);
    }
    let values = view.row(row).unwrap_or(&[]);
    let numbers =
        |out: &mut Vec<u8>| list(values.iter(), out, |value, out| number_into(*value, out));
    if field.classes {
        out.extend_from_slice(b"{\"label\":");
        label_value(best(field, view, row), out);
        out.extend_from_slice(b",\"scores\":");
        if field.labels.is_some() {
            out.push(b'{');
            for (class, value) in values.iter().enumerate() {
                if class > 0 {
                    out.push(b',');
                }
                label_key(field.label(class as u32), out);
                out.push(b':');
                number_into(*value, out);
            }
            out.push(b'}');
        } else {
            numbers(out);
        }
        return out.push(b'}');
    }
    match values {
        [value] => number_into(*value, out),
        _ => numbers(out),
    }
}

fn number_into(value: f32, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, &value);
}

/// The shortest text that reads back as the same 32 bits.
fn number(value: f32) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_as_the_same_bits() {
        for value in [0.1f32, 1e-20, 3.4e38, -0.0, 1.0, 0.871_042_3] {
            let text = number(value);
            let back: f32 = text.parse().unwrap();
            assert_eq!(back.to_bits(), value.to_bits(), "{text}");
            assert!(text.len() < 20, "{text}");
        }
    }
}
