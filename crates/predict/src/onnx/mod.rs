//! Exports a model as ONNX, for other programs.
//!
//! - [`proto`]: the messages of the format. `graph`: a graph under construction, with sequences.
//! - `dense`, `sequences`, `images`: the layers that have an equivalent. `activation`: bias, activation and dropout.
//!
//! Inputs are named after data layers. A sequence has two: its values and, as `NAME.lengths`, the number of values of each
//! sample; so has a sparse vector (its ids), which has `NAME.values` as well unless all are 1. A layer without an
//! equivalent is refused by name.

mod activation;
mod dense;
mod graph;
mod images;
pub(crate) mod proto;
mod sequences;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use config::LayerConfig;
use prost::Message;
use trainer::data::ElementKind;

use crate::error::PredictError;
use crate::export;
use crate::model::Model;
use graph::{Element, OnnxGraph, Sequence};
use proto::{ModelProto, OperatorSetIdProto, StringStringEntryProto};

/// The version of ONNX's operators that is used.
pub const OPSET: i64 = 17;

/// The version of the format, of the same release.
const IR: i64 = 8;

/// A protobuf message may not be larger.
const LARGEST: usize = (1 << 31) - 1;

/// Types of layers that can be exported.
pub const LAYERS: [&str; 24] = [
    "addto",
    "average",
    "batch_norm",
    "concat",
    "concat2",
    "cos",
    "cudnn_batch_norm",
    "cudnn_conv",
    "data",
    "exconv",
    "expand",
    "fc",
    "interpolation",
    "lstmemory",
    "max",
    "maxid",
    "mixed",
    "pool",
    "power",
    "print",
    "scaling",
    "seqlastins",
    "slope_intercept",
    "sum_to_one_norm",
];

/// The result of a layer, as names in the graph.
#[derive(Clone)]
struct Made {
    /// The rows.
    name: String,
    width: usize,
    /// Whether rows are positions of sequences.
    sequence: Option<Sequence>,
    what: What,
}

#[derive(Clone, PartialEq)]
enum What {
    Dense,
    Ids,
    /// Ids of a sparse vector per sample, with their lengths in `sequence`, and perhaps their values.
    Sparse(Option<String>),
}

/// An export under way.
struct Export<'a> {
    model: &'a Model,
    graph: OnnxGraph,
    made: HashMap<String, Made>,
    parameters: HashMap<String, String>,
}

type Done<T> = Result<T, PredictError>;

/// The model as the bytes of an ONNX file.
pub fn bytes(model: &Model, version: &str) -> Result<Vec<u8>, PredictError> {
    let values: u64 = model.network.parameters.iter().map(|p| p.size).sum();
    if values.saturating_mul(4) > LARGEST as u64 {
        return Err(PredictError::Onnx {
            layer: "the whole network".to_owned(),
            reason: format!("{values} values are more than the two gigabytes of an ONNX file"),
        });
    }
    let mut export = Export {
        model,
        graph: OnnxGraph::default(),
        made: HashMap::new(),
        parameters: HashMap::new(),
    };
    for layer in &model.network.layers {
        export.graph.enter(&layer.name);
        let made = export.layer(layer)?;
        export.made.insert(layer.name.clone(), made);
    }
    export.outputs()?;
    let metadata = model.inputs.iter().filter_map(|input| {
        let words = input.dictionary.as_ref()?.words();
        Some(StringStringEntryProto {
            key: format!("words:{}", input.slot.name),
            value: serde_json::to_string(words).unwrap_or_default(),
        })
    });
    let proto = ModelProto {
        ir_version: IR,
        producer_name: "canoe".to_owned(),
        producer_version: version.to_owned(),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: OPSET,
        }],
        metadata_props: metadata.collect(),
        graph: Some(export.graph.finish("canoe")),
    };
    Ok(proto.encode_to_vec())
}

/// Writes the file; it appears when it is complete.
pub fn write(model: &Model, path: &Path, version: &str) -> Result<(), PredictError> {
    let bytes = bytes(model, version)?;
    export::written(path, |out| {
        out.write_all(&bytes).map_err(|source| PredictError::Write {
            path: path.display().to_string(),
            source,
        })
    })
}

impl Export<'_> {
    fn refuse<T>(&self, layer: &LayerConfig, reason: impl Into<String>) -> Done<T> {
        Err(PredictError::Onnx {
            layer: layer.name.clone(),
            reason: reason.into(),
        })
    }

    fn layer(&mut self, layer: &LayerConfig) -> Done<Made> {
        let made = match layer.r#type.as_str() {
            "data" => return self.input(layer),
            "fc" => self.fc(layer)?,
            "mixed" => self.mixed(layer)?,
            "addto" => self.addto(layer)?,
            "concat" => self.concat(layer)?,
            "concat2" => self.concat_projections(layer)?,
            "cos" => self.cos(layer)?,
            "maxid" => return self.maxid(layer),
            "slope_intercept" => self.slope(layer)?,
            "scaling" => self.scaling(layer)?,
            "interpolation" => self.interpolation(layer)?,
            "power" => self.power(layer)?,
            "sum_to_one_norm" => self.sum_to_one(layer)?,
            "print" => self.source(layer, 0)?,
            "max" => self.maximum(layer)?,
            "average" => self.average(layer)?,
            "seqlastins" => self.last(layer)?,
            "expand" => self.expand(layer)?,
            "lstmemory" => return self.lstm(layer),
            "exconv" | "cudnn_conv" => self.convolution(layer)?,
            "pool" => self.pool(layer)?,
            "batch_norm" | "cudnn_batch_norm" => self.batch_norm(layer)?,
            other => {
                let reason = format!(
                    "type '{other}' has no equivalent; the types that have one are {}",
                    LAYERS.join(", ")
                );
                return self.refuse(layer, reason);
            }
        };
        self.finish(layer, made)
    }

    fn input(&mut self, layer: &LayerConfig) -> Done<Made> {
        let inputs = &self.model.inputs;
        let Some(field) = inputs.iter().find(|field| field.slot.name == layer.name) else {
            return self.refuse(layer, "the type of this data layer is not known");
        };
        let (slot, name) = (&field.slot, layer.name.as_str());
        let rows = format!("rows of {name}");
        let sparse = matches!(slot.kind, ElementKind::Binary | ElementKind::Sparse);
        if slot.level > 1 || (sparse && slot.level > 0) {
            return self.refuse(
                layer,
                "nested sequences and sequences of sparse vectors have no equivalent",
            );
        }
        let ragged = slot.level > 0 || sparse;
        let first = if ragged {
            Err(rows.as_str())
        } else {
            Err("samples")
        };
        match slot.kind {
            ElementKind::Dense => self
                .graph
                .input(name, Element::Float, &[first, Ok(slot.dim)]),
            _ => self.graph.input(name, Element::Int, &[first]),
        }
        let sequence = if ragged {
            let lengths = format!("{name}.lengths");
            self.graph.input(&lengths, Element::Int, &[Err("samples")]);
            Some(self.graph.sequence(&lengths))
        } else {
            None
        };
        let what = match slot.kind {
            ElementKind::Dense => What::Dense,
            ElementKind::Ids => What::Ids,
            ElementKind::Binary => What::Sparse(None),
            ElementKind::Sparse => {
                let values = format!("{name}.values");
                self.graph.input(&values, Element::Float, &[first]);
                What::Sparse(Some(values))
            }
        };
        Ok(Made {
            name: name.to_owned(),
            width: slot.dim,
            sequence,
            what,
        })
    }

    fn outputs(&mut self) -> Done<()> {
        self.graph.enter("output");
        for field in &self.model.outputs {
            let Some(made) = self.made.get(&field.name).cloned() else {
                continue;
            };
            let rows = format!("rows of {}", field.name);
            let first = if made.sequence.is_some() {
                Err(rows.as_str())
            } else {
                Err("samples")
            };
            match made.what {
                What::Dense => {
                    let shape = [first, Ok(made.width)];
                    self.graph
                        .output(&field.name, &made.name, Element::Float, &shape);
                }
                _ => self
                    .graph
                    .output(&field.name, &made.name, Element::Int, &[first]),
            }
        }
        Ok(())
    }

    /// The result that input `at` of a layer reads.
    fn source(&self, layer: &LayerConfig, at: usize) -> Done<Made> {
        let input = layer.inputs.get(at).map(|input| &input.input_layer_name);
        match input.and_then(|name| self.made.get(name)) {
            Some(made) => Ok(made.clone()),
            None => self.refuse(layer, format!("it has no input {at}")),
        }
    }

    /// As [`Export::source`]; an error if it is not dense.
    fn dense_source(&self, layer: &LayerConfig, at: usize) -> Done<Made> {
        let made = self.source(layer, at)?;
        if made.what == What::Dense {
            return Ok(made);
        }
        self.refuse(layer, format!("its input {at} is not dense"))
    }

    /// The values of a parameter.
    fn values(&self, layer: &LayerConfig, name: &str) -> Done<Vec<f32>> {
        let mut parameters = self.model.network.parameters.iter();
        let Some(at) = parameters.position(|parameter| parameter.name == name) else {
            return self.refuse(layer, format!("there is no parameter '{name}'"));
        };
        let mut values = Vec::new();
        self.model.each_chunk(at, &mut |chunk| {
            values.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(values)
    }

    /// A parameter as a constant of this shape; shared if it is used again.
    fn weight(&mut self, layer: &LayerConfig, name: Option<&str>, shape: &[usize]) -> Done<String> {
        let Some(name) = name else {
            return self.refuse(layer, "an input has no parameter");
        };
        let key = format!("{name} {shape:?}");
        if let Some(known) = self.parameters.get(&key) {
            return Ok(known.clone());
        }
        let values = self.values(layer, name)?;
        if shape.iter().product::<usize>() != values.len() {
            let reason = format!("parameter '{name}' does not have the shape {shape:?}");
            return self.refuse(layer, reason);
        }
        let made = self.graph.floats(name, shape, &values);
        self.parameters.insert(key, made.clone());
        Ok(made)
    }

    /// The parameter of input `at`.
    fn input_weight(&mut self, layer: &LayerConfig, at: usize, shape: &[usize]) -> Done<String> {
        let name = layer.inputs[at].input_parameter_name.clone();
        self.weight(layer, name.as_deref(), shape)
    }
}
