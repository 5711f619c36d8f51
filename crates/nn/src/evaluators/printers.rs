//! Evaluators that show values instead of measuring: values, gradients, greatest columns and frames, errors, texts.
//!
//! They print nothing themselves. A batch becomes [`Message`]s, which the caller logs, or appends to the file that they
//! name. Gradients exist only after backward.

use config::EvaluatorConfig;

use super::classification_error::ClassificationError;
use super::{Evaluator, numbers};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Something to show about a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The file to append to; `None`: the log.
    pub file: Option<String>,
    /// The text, with line ends.
    pub text: String,
}

/// What a printer shows.
enum Shown {
    Values,
    Gradients,
    /// The greatest columns of each row.
    MaxIds {
        count: usize,
    },
    /// The greatest rows of each sequence of a one-column layer.
    MaxFrames {
        count: usize,
    },
    /// Wrong or right, row by row.
    Errors(ClassificationError),
    Text(TextFile),
}

/// Ids as words of a dictionary.
struct TextFile {
    file: String,
    dictionary_file: Option<String>,
    words: Vec<String>,
    delimited: bool,
}

/// An evaluator that turns batches into messages.
pub(super) struct Printer {
    name: String,
    layers: Vec<String>,
    shown: Shown,
    messages: Vec<Message>,
}

impl Printer {
    /// The printer of a v1 type; `None` if there is none.
    pub(super) fn of_type(config: &EvaluatorConfig) -> Option<Self> {
        let count = usize::try_from(config.num_results()).unwrap_or(1).max(1);
        let shown = match config.r#type.as_str() {
            "value_printer" => Shown::Values,
            "gradient_printer" => Shown::Gradients,
            "max_id_printer" => Shown::MaxIds { count },
            "max_frame_printer" => Shown::MaxFrames { count },
            "classification_error_printer" => {
                Shown::Errors(ClassificationError::new(config, false))
            }
            "seq_text_printer" => Shown::Text(TextFile {
                file: config.result_file().to_owned(),
                dictionary_file: config.dict_file.clone().filter(|file| !file.is_empty()),
                words: Vec::new(),
                delimited: config.delimited(),
            }),
            _ => return None,
        };
        Some(Self {
            name: config.name.clone(),
            layers: config.input_layers.clone(),
            shown,
            messages: Vec::new(),
        })
    }

    fn show(&self, input: usize, inputs: &[LayerView<'_>]) -> Result<Option<String>, LayerError> {
        let (layer, view) = (&self.layers[input], &inputs[input]);
        Ok(match &self.shown {
            Shown::Values => Some(values(layer, view)),
            Shown::Gradients if view.grad(0).is_some() => {
                let rows: String = (0..view.rows())
                    .filter_map(|row| view.grad(row))
                    .map(line)
                    .collect();
                Some(format!("layer={layer} grad matrix:\n{rows}"))
            }
            Shown::Gradients => None,
            Shown::MaxIds { count } => {
                let mut text = format!("layer={layer} row max id vector:\n");
                for row in 0..view.rows() {
                    text += &greatest(numbers(inputs, input, row)?, *count);
                    text.push('\n');
                }
                Some(text)
            }
            Shown::MaxFrames { count } => Some(max_frames(layer, inputs, input, *count)?),
            Shown::Errors(_) | Shown::Text(_) => None,
        })
    }

    fn errors(
        &self,
        error: &ClassificationError,
        inputs: &[LayerView<'_>],
    ) -> Result<Vec<String>, LayerError> {
        let mut text = format!("Printer={} Classification Error:\n", self.name);
        for row in 0..inputs[0].rows() {
            text += &format!("{} \n", general(error.error(inputs, row)?));
        }
        let mut texts = vec![text];
        if let Some(sequences) = inputs[0].sequences() {
            texts.push(format!(
                "Printer={} sequence pos vector:\n{}",
                self.name,
                list(sequences)
            ));
        }
        Ok(texts)
    }
}

impl Evaluator for Printer {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        let mut texts = Vec::new();
        for input in 0..inputs.len() {
            texts.extend(self.show(input, inputs)?);
        }
        let mut file = None;
        match &self.shown {
            Shown::Errors(error) => {
                super::check_inputs(inputs, 2..=3)?;
                texts = self.errors(error, inputs)?;
            }
            Shown::Text(text) => {
                texts = vec![text.lines(inputs)?];
                file = Some(text.file.clone());
            }
            _ => {}
        }
        let message = |text| Message {
            file: file.clone(),
            text,
        };
        self.messages.extend(texts.into_iter().map(message));
        Ok(())
    }

    fn text(&self) -> String {
        format!("{}=0", self.name)
    }

    fn values(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn state(&self) -> Vec<f64> {
        Vec::new()
    }

    fn absorb(&mut self, _: &[f64]) {}

    fn reset(&mut self) {}

    fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    fn dictionary_file(&self) -> Option<&str> {
        match &self.shown {
            Shown::Text(text) => text.dictionary_file.as_deref(),
            _ => None,
        }
    }

    fn set_dictionary(&mut self, words: &[String]) {
        if let Shown::Text(text) = &mut self.shown {
            text.words = words.to_vec();
        }
    }
}

/// Values, ids and offsets of a layer.
fn values(layer: &str, view: &LayerView<'_>) -> String {
    let mut text = String::new();
    if view.is_ids() {
        let ids: Vec<u32> = (0..view.rows()).filter_map(|row| view.id(row)).collect();
        text += &format!("layer={layer} id:\n{}", list(&ids));
    } else {
        text += &format!("layer={layer} value:\n");
        for row in 0..view.rows() {
            match (view.row(row), view.sparse_row(row)) {
                (Some(values), _) => text += &line(values),
                (None, Some(entries)) => {
                    let entries: Vec<String> = entries
                        .map(|(c, x)| format!("{c}:{}", general(f64::from(x))))
                        .collect();
                    text += &format!("{}\n", entries.join(" "));
                }
                (None, None) => {}
            }
        }
    }
    for (name, offsets) in [
        ("sequence pos", view.sequences()),
        ("sub-sequence pos", view.subsequences()),
    ] {
        if let Some(offsets) = offsets {
            text += &format!("layer={layer} {name}:\n{}", list(offsets));
        }
    }
    text
}

fn line(values: &[f32]) -> String {
    let numbers: String = values
        .iter()
        .map(|&x| general(f64::from(x)) + " ")
        .collect();
    numbers + "\n"
}

fn list(values: &[u32]) -> String {
    let numbers: String = values.iter().map(|x| format!("{x} ")).collect();
    format!("[{numbers}]\n")
}

/// `index : value, ` of the greatest values, the greatest first.
fn greatest(values: &[f32], count: usize) -> String {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let shown = places.iter().take(count);
    shown
        .map(|&place| format!("{place} : {}, ", general(f64::from(values[place]))))
        .collect()
}

fn max_frames(
    layer: &str,
    inputs: &[LayerView<'_>],
    input: usize,
    count: usize,
) -> Result<String, LayerError> {
    let view = &inputs[input];
    let sequences = view.sequences().ok_or(LayerError::NotSequence { input })?;
    if view.cols() != 1 {
        let (got, want) = (view.cols(), 1);
        return Err(LayerError::Width { input, got, want });
    }
    let mut text = format!("layer={layer} sequence max frames:\n");
    for range in sequences.windows(2) {
        let frames = (range[0]..range[1])
            .map(|row| Ok(numbers(inputs, input, row as usize)?[0]))
            .collect::<Result<Vec<f32>, LayerError>>()?;
        text += &format!(
            "{}total {} frames\n",
            greatest(&frames, count),
            frames.len()
        );
    }
    Ok(text)
}

impl TextFile {
    /// One line per sample: its id (or index), then its sequences.
    fn lines(&self, inputs: &[LayerView<'_>]) -> Result<String, LayerError> {
        let first = usize::from(inputs.len() > 1);
        let Some(sequences) = inputs.get(first).map(|view| view.sequences()) else {
            return Err(LayerError::Value("it reads no layer".to_owned()));
        };
        let samples = sequences
            .ok_or(LayerError::NotSequence { input: first })?
            .len()
            - 1;
        let mut text = String::new();
        for sample in 0..samples {
            let number = if first == 1 {
                super::id(inputs, 0, sample)? as usize
            } else {
                sample
            };
            text += &number.to_string();
            for input in first..inputs.len() {
                text += &self.sample(inputs, input, sample)?;
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn sample(
        &self,
        inputs: &[LayerView<'_>],
        input: usize,
        sample: usize,
    ) -> Result<String, LayerError> {
        let view = &inputs[input];
        let sequences = view.sequences().ok_or(LayerError::NotSequence { input })?;
        let Some(&[start, end]) = sequences.get(sample..sample + 2) else {
            let (got, want) = (sequences.len() - 1, sample + 1);
            return Err(LayerError::Rows { input, got, want });
        };
        let Some(inner) = view.subsequences() else {
            return self.words(inputs, input, start..end);
        };
        if let Some(scores) = view.scores() {
            return self.results(inputs, input, (start, end), scores);
        }
        let mut text = String::new();
        for range in inner
            .windows(2)
            .filter(|range| range[0] >= start && range[1] <= end)
        {
            text += &self.words(inputs, input, range[0]..range[1])?;
            text.push('\n');
        }
        Ok(text)
    }

    /// The results of a generation, each with its number and score on a line of its own.
    fn results(
        &self,
        inputs: &[LayerView<'_>],
        input: usize,
        (start, end): (u32, u32),
        scores: &[f32],
    ) -> Result<String, LayerError> {
        let ranges = inputs[input].subsequences().unwrap_or_default().windows(2);
        let own = ranges
            .zip(scores)
            .filter(|(range, _)| range[0] >= start && range[1] <= end);
        let mut text = "\n".to_owned();
        for (number, (range, score)) in own.enumerate() {
            text += &format!("{number}\t{}", general(f64::from(*score)));
            text += &self.words(inputs, input, range[0]..range[1])?;
            text.push('\n');
        }
        Ok(text)
    }

    fn words(
        &self,
        inputs: &[LayerView<'_>],
        input: usize,
        rows: std::ops::Range<u32>,
    ) -> Result<String, LayerError> {
        let mut text = "\t".to_owned();
        for row in rows {
            let id = super::id(inputs, input, row as usize)?;
            if self.delimited {
                text.push(' ');
            }
            match self.words.get(id as usize) {
                Some(word) => text += word,
                None if self.words.is_empty() => text += &id.to_string(),
                None => {
                    let limit = self.words.len();
                    return Err(LayerError::Id { id, limit });
                }
            }
        }
        Ok(text)
    }
}
