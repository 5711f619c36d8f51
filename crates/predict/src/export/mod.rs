//! The parameters of a model for other programs: true shapes, readable names beside v1's, words beside rows.
//!
//! - [`ListedParameter`], [`list`]: the parameters of a model. [`names`]: their readable names.
//! - [`safetensors`], [`npz`]: the files. [`import`]: from a file to a pass directory.
//! - [`neighbours`]: the rows of a table that are closest to one; iteration over rows.

pub mod import;
pub mod names;
pub mod neighbours;
pub mod npz;
pub mod safetensors;

use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use config::{LayerConfig, ModelConfig};

use trainer::merged::Merged;
use trainer::output_file::OutputFile;

use crate::dictionary::Dictionary;
use crate::error::PredictError;
use crate::locate::{self, Hints};
use crate::model::{Model, OpenOptions, evaluate};

/// One parameter.
#[derive(Debug, Clone)]
pub struct ListedParameter {
    /// Its index in the model.
    pub at: usize,
    /// v1's name, which is its file's.
    pub name: String,
    /// The readable name.
    pub readable: String,
    /// Its true shape; the values are row-major.
    pub shape: Vec<usize>,
    /// The words of its rows.
    pub rows: Option<Arc<Dictionary>>,
}

/// The parameters of a model that was opened whole, in its order.
pub fn list(model: &Model) -> Vec<ListedParameter> {
    let readable = names::readable(model.network.parameters.iter().map(|p| p.name.as_str()));
    let listed = model.network.parameters.iter().zip(readable).enumerate();
    listed
        .map(|(at, (parameter, readable))| ListedParameter {
            at,
            name: parameter.name.clone(),
            readable,
            shape: shape(&model.network, &parameter.name),
            rows: rows(model, &parameter.name),
        })
        .collect()
}

/// The network of a pass directory or merged model, without its parameters.
pub fn description(path: &Path) -> Result<ModelConfig, PredictError> {
    let config = if path.is_file() {
        Merged::open(path)?.config().clone()
    } else {
        let located = locate::locate(path, &Hints::default())?;
        evaluate(&located, &OpenOptions::default())?.config
    };
    config.model_config.ok_or_else(|| PredictError::NoNetwork {
        file: path.to_owned(),
    })
}

/// Where a parameter is used.
struct ParameterUse<'a> {
    layer: &'a LayerConfig,
    /// `None` for a bias.
    input: Option<usize>,
}

impl<'a> ParameterUse<'a> {
    fn first(model: &'a ModelConfig, name: &str) -> Option<Self> {
        model.layers.iter().find_map(|layer| {
            let mut inputs = layer.inputs.iter();
            let input = inputs.position(|i| i.input_parameter_name.as_deref() == Some(name));
            let is_bias = || layer.bias_parameter_name.as_deref() == Some(name);
            (input.is_some() || is_bias()).then_some(Self { layer, input })
        })
    }
}

/// The shape of a parameter: that of its use where the configuration has none.
pub fn shape(model: &ModelConfig, name: &str) -> Vec<usize> {
    let Some(parameter) = model.parameters.iter().find(|p| p.name == name) else {
        return Vec::new();
    };
    let size = parameter.size as usize;
    let fits = |shape: &[usize]| shape.iter().product::<usize>() == size;
    let of_use = match ParameterUse::first(model, name) {
        Some(ParameterUse {
            layer,
            input: Some(at),
        }) => match (&layer.inputs[at].conv_conf, &*layer.r#type) {
            (Some(conv), "exconv" | "cudnn_conv") => Some(vec![
                layer.num_filters() as usize,
                conv.filter_channels as usize,
                conv.filter_size_y as usize,
                conv.filter_size as usize,
            ]),
            _ => None,
        },
        Some(ParameterUse { input: None, .. }) => Some(vec![size]),
        None => None,
    };
    let dims: Vec<usize> = parameter.dims.iter().map(|d| *d as usize).collect();
    of_use
        .filter(|shape| fits(shape))
        .or_else(|| Some(dims).filter(|dims| !dims.is_empty() && fits(dims)))
        .unwrap_or_else(|| vec![size])
}

/// The words of a parameter's rows, if it is looked up by, or multiplied with, a data layer that has a dictionary.
fn rows(model: &Model, name: &str) -> Option<Arc<Dictionary>> {
    let used = ParameterUse::first(&model.network, name)?;
    let input = &used.layer.inputs[used.input?];
    let own = |field: &&crate::sample::InputField| field.slot.name == input.input_layer_name;
    let field = model.inputs.iter().find(own)?;
    let rows = shape(&model.network, name).first().copied()?;
    (field.slot.dim == rows).then(|| field.dictionary.clone())?
}

/// Finds a parameter by its readable name or v1's; with an empty name, the only table whose rows have words.
pub fn find(listed: &[ListedParameter], name: &str) -> Result<ListedParameter, PredictError> {
    let found = if name.is_empty() {
        let mut worded = listed.iter().filter(|each| each.rows.is_some());
        worded.next().filter(|_| worded.next().is_none())
    } else {
        listed
            .iter()
            .find(|each| each.readable == name || each.name == name)
    };
    found
        .cloned()
        .ok_or_else(|| PredictError::UnknownParameter {
            name: name.to_owned(),
            known: listed
                .iter()
                .map(|each| each.readable.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// Writes a file that appears when it is complete.
pub(crate) fn written(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<OutputFile>) -> Result<(), PredictError>,
) -> Result<(), PredictError> {
    let failed = |source| failed(path, source);
    let file = OutputFile::create(path).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.commit().map_err(failed)
}

fn failed(path: &Path, source: io::Error) -> PredictError {
    PredictError::Write {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_those_of_the_use() {
        let model: ModelConfig = serde_json::from_value(serde_json::json!({
            "type": "nn",
            "layers": [
                {"name": "word", "type": "data", "size": 10},
                {"name": "__fc_0__", "type": "fc", "size": 3, "bias_parameter_name": "b",
                 "inputs": [{"input_layer_name": "word", "input_parameter_name": "w"}]},
                {"name": "conv", "type": "exconv", "size": 3, "num_filters": 4,
                 "inputs": [{"input_layer_name": "word", "input_parameter_name": "k", "conv_conf":
                    {"filter_size": 3, "filter_size_y": 2, "channels": 5, "filter_channels": 5, "groups": 1}}]},
            ],
            "parameters": [
                {"name": "w", "size": 30, "dims": [10, 3]},
                {"name": "b", "size": 3, "dims": [1, 3]},
                {"name": "k", "size": 120},
                {"name": "odd", "size": 7, "dims": [2, 3]},
            ],
        }))
        .unwrap();
        assert_eq!(shape(&model, "w"), [10, 3]);
        assert_eq!(shape(&model, "b"), [3]);
        assert_eq!(shape(&model, "k"), [4, 5, 2, 3]);
        assert_eq!(shape(&model, "odd"), [7]);
    }
}
