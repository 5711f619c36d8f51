//! The process that computes for `py_paddle`, which v1's predict scripts import. `py_paddle/worker.py` describes the
//! protocol.
//!
//! A message is a line of JSON, then the arrays that it lists. Requests are handled one after another; a request that
//! fails changes nothing and gets a reply with `error`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;

use config::ModelConfig;
use nn::{
    Batch, BatchUse, LayerView, Network, NetworkOptions, ParameterValues, Parameters, Slot,
    SlotData,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainer::settings::Missing;
use trainer::{TrainError, loading};
use words::causes::chain;

/// The longest header, in bytes; a configuration is one.
const LONGEST_HEADER: u64 = 1 << 28;

/// Initial values of `randParameters` are those of this seed, v1's default.
const SEED: u64 = 1;

/// Why the process has to end: the rest of the stream cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The pipe failed.
    #[error("talk to the Python program")]
    Io(#[from] io::Error),
    /// A header is no valid message.
    #[error("the Python program sent something that is not a message: {0}")]
    Header(String),
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Request(String),
    #[error("the model configuration cannot be read: {0}")]
    Config(#[from] serde_json::Error),
    #[error(transparent)]
    Build(#[from] nn::BuildError),
    #[error(transparent)]
    Execute(#[from] nn::ExecuteError),
    #[error(transparent)]
    Train(#[from] TrainError),
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Request(reason.into()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ArrayType {
    F32,
    I32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Listed {
    r#type: ArrayType,
    count: u64,
}

/// An array of a message.
#[derive(Debug, Clone, PartialEq)]
enum Array {
    F32(Vec<f32>),
    I32(Vec<i32>),
}

/// A reply under construction.
#[derive(Default)]
struct Reply {
    header: serde_json::Map<String, Value>,
    arrays: Vec<Array>,
}

impl Reply {
    fn place(&mut self, array: Array) -> Value {
        self.arrays.push(array);
        json!(self.arrays.len() - 1)
    }
}

/// Replies to requests until the input ends.
pub fn serve(input: &mut impl BufRead, output: &mut impl Write) -> Result<(), WorkerError> {
    let mut machines = Machines::default();
    while let Some(message) = read(input)? {
        let reply = machines
            .answer(&message.header, &message.arrays)
            .unwrap_or_else(|error| {
                let mut reply = Reply::default();
                reply.header.insert("error".into(), json!(chain(&error)));
                reply
            });
        write(output, reply)?;
    }
    Ok(())
}

/// A message as it was read.
struct ReadMessage {
    header: Value,
    arrays: Vec<Array>,
}

/// The next message; `None` where the input ends.
fn read(input: &mut impl BufRead) -> Result<Option<ReadMessage>, WorkerError> {
    let mut line = Vec::new();
    input
        .by_ref()
        .take(LONGEST_HEADER)
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let header: Value =
        serde_json::from_slice(&line).map_err(|error| WorkerError::Header(error.to_string()))?;
    let listed: Vec<Listed> = match header.get("arrays") {
        None => Vec::new(),
        Some(list) => serde_json::from_value(list.clone())
            .map_err(|error| WorkerError::Header(error.to_string()))?,
    };
    let mut arrays = Vec::with_capacity(listed.len());
    for each in listed {
        let length = each
            .count
            .checked_mul(4)
            .ok_or_else(|| WorkerError::Header("an array of impossible length".to_owned()))?;
        let mut bytes = Vec::new();
        input.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let quads = bytes.as_chunks::<4>().0.iter();
        arrays.push(match each.r#type {
            ArrayType::F32 => Array::F32(quads.map(|quad| f32::from_le_bytes(*quad)).collect()),
            ArrayType::I32 => Array::I32(quads.map(|quad| i32::from_le_bytes(*quad)).collect()),
        });
    }
    Ok(Some(ReadMessage { header, arrays }))
}

fn write(output: &mut impl Write, mut reply: Reply) -> Result<(), WorkerError> {
    let listed: Vec<Listed> = reply
        .arrays
        .iter()
        .map(|array| match array {
            Array::F32(values) => (ArrayType::F32, values.len()),
            Array::I32(values) => (ArrayType::I32, values.len()),
        })
        .map(|(r#type, count)| Listed {
            r#type,
            count: count as u64,
        })
        .collect();
    reply.header.insert("arrays".into(), json!(listed));
    let mut bytes = Value::Object(reply.header).to_string().into_bytes();
    bytes.push(b'\n');
    for array in &reply.arrays {
        match array {
            Array::F32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Array::I32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
        }
    }
    output.write_all(&bytes)?;
    output.flush()?;
    Ok(())
}

/// A network with its parameters.
struct Machine {
    config: ModelConfig,
    network: Network,
    parameters: Parameters,
}

#[derive(Default)]
struct Machines {
    machines: BTreeMap<u64, Machine>,
    made: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum Given {
    Dense {
        dim: usize,
        values: usize,
        #[serde(flatten)]
        starts: Starts,
    },
    Ids {
        ids: usize,
        #[serde(flatten)]
        starts: Starts,
    },
    Sparse {
        dim: usize,
        #[serde(rename = "starts")]
        rows: usize,
        columns: usize,
        values: Option<usize>,
        #[serde(flatten)]
        starts: Starts,
    },
}

#[derive(Deserialize)]
struct Starts {
    sequences: Option<usize>,
    subsequences: Option<usize>,
}

impl Machines {
    fn answer(&mut self, header: &Value, arrays: &[Array]) -> Result<Reply, Refused> {
        let mut reply = Reply::default();
        let call = header["call"].as_str().unwrap_or("");
        match call {
            "init" => {}
            "create" => self.create(&header["config"], &mut reply)?,
            "drop" => {
                let number = number(header)?;
                if self.machines.remove(&number).is_none() {
                    return refuse(format!("there is no machine {number}"));
                }
            }
            _ => {
                let number = number(header)?;
                let Some(machine) = self.machines.get_mut(&number) else {
                    return refuse(format!("there is no machine {number}"));
                };
                machine.answer(call, header, arrays, &mut reply)?;
            }
        }
        Ok(reply)
    }

    fn create(&mut self, config: &Value, reply: &mut Reply) -> Result<(), Refused> {
        let config: ModelConfig = serde_json::from_value(config.clone())?;
        // Scripts may ask for the output of any layer, so none is fused with another.
        let options = NetworkOptions {
            fuse: false,
            ..NetworkOptions::default()
        };
        let network = Network::with_options(&config, options)?;
        let parameters = loading::draw(&config.parameters, network.parameters(), SEED);
        self.made += 1;
        let listed: Vec<Value> = network
            .parameters()
            .iter()
            .map(|spec| json!({"name": spec.name, "size": spec.size()}))
            .collect();
        reply.header = serde_json::Map::from_iter([
            ("machine".to_owned(), json!(self.made)),
            ("inputs".to_owned(), json!(config.input_layer_names)),
            ("outputs".to_owned(), json!(config.output_layer_names)),
            ("parameters".to_owned(), json!(listed)),
        ]);
        let machine = Machine {
            config,
            network,
            parameters,
        };
        self.machines.insert(self.made, machine);
        Ok(())
    }
}

fn number(header: &Value) -> Result<u64, Refused> {
    let number = header["machine"].as_u64();
    number.ok_or_else(|| Refused::Request("the request names no machine".to_owned()))
}

impl Machine {
    fn answer(
        &mut self,
        call: &str,
        header: &Value,
        arrays: &[Array],
        reply: &mut Reply,
    ) -> Result<(), Refused> {
        match call {
            "load" => {
                let directory = header["directory"].as_str().unwrap_or("");
                let mut read = self.parameters.clone();
                let specs = self.network.parameters();
                loading::load(Path::new(directory), specs, Missing::Fail, &mut read)?;
                self.parameters = read;
            }
            "randomize" => {
                let specs = self.network.parameters();
                self.parameters = loading::draw(&self.config.parameters, specs, SEED);
            }
            "forward" => {
                let batch = self.batch(&header["slots"], arrays)?;
                let pass = match header["train"].as_bool() {
                    Some(true) => BatchUse::Train { noise: SEED },
                    _ => BatchUse::Test,
                };
                self.network.forward(&self.parameters, &batch, pass)?;
                self.outputs(&self.config.output_layer_names, reply)?;
            }
            "layers" => {
                let names: Vec<String> = serde_json::from_value(header["names"].clone())?;
                self.outputs(&names, reply)?;
            }
            "parameter" => {
                let at = self.parameter(header)?;
                if let ParameterValues::Full(values) = &self.parameters.0[at] {
                    let place = reply.place(Array::F32(values.clone()));
                    reply.header.insert("values".to_owned(), place);
                }
            }
            "set_parameter" => {
                let at = self.parameter(header)?;
                let given = header["values"]
                    .as_u64()
                    .and_then(|n| arrays.get(n as usize));
                match (&mut self.parameters.0[at], given) {
                    (ParameterValues::Full(values), Some(Array::F32(new)))
                        if new.len() == values.len() =>
                    {
                        values.clone_from(new);
                    }
                    (ParameterValues::Full(values), _) => {
                        return refuse(format!("the parameter has {} values (f32)", values.len()));
                    }
                    _ => {}
                }
            }
            other => return refuse(format!("there is no call {other:?}")),
        }
        Ok(())
    }

    fn parameter(&self, header: &Value) -> Result<usize, Refused> {
        let name = header["name"].as_str().unwrap_or("");
        let mut specs = self.network.parameters().iter();
        let found = specs.position(|spec| spec.name == name);
        found.ok_or_else(|| Refused::Request(format!("there is no parameter '{name}'")))
    }

    fn batch(&self, slots: &Value, arrays: &[Array]) -> Result<Batch, Refused> {
        let given: Vec<Given> = serde_json::from_value(slots.clone())
            .map_err(|error| Refused::Request(format!("the slots cannot be read: {error}")))?;
        let inputs = self.network.inputs();
        if given.len() != inputs.len() {
            return refuse(format!("{} slots for {} inputs", given.len(), inputs.len()));
        }
        let mut samples = None;
        let mut made = Vec::with_capacity(given.len());
        for (given, input) in given.iter().zip(inputs) {
            let slot = slot(given, arrays)
                .map_err(|reason| Refused::Request(format!("input '{}': {reason}", input.name)))?;
            let own = slot
                .sequences
                .as_ref()
                .map_or(slot.data.rows(), |s| s.len().saturating_sub(1));
            if *samples.get_or_insert(own) != own {
                return refuse(format!(
                    "input '{}' has {own} samples, others have another number",
                    input.name
                ));
            }
            made.push(slot);
        }
        Ok(Batch {
            samples: samples.unwrap_or(0),
            slots: made,
        })
    }

    fn outputs(&self, names: &[String], reply: &mut Reply) -> Result<(), Refused> {
        let mut listed = Vec::new();
        for name in names {
            let Some(view) = self.network.output(name) else {
                return refuse(format!("there is no layer '{name}'"));
            };
            listed.push(described(name, &view, reply));
        }
        reply.header.insert("outputs".to_owned(), json!(listed));
        Ok(())
    }
}

fn described(name: &str, view: &LayerView<'_>, reply: &mut Reply) -> Value {
    let mut output = json!({"name": name});
    if view.is_ids() {
        let ids = (0..view.rows()).map(|row| view.id(row).unwrap_or(0) as i32);
        output["ids"] = reply.place(Array::I32(ids.collect()));
    } else if let Some(values) = view.to_dense() {
        output["dim"] = json!(view.cols());
        output["value"] = reply.place(Array::F32(values));
    }
    let starts = [
        ("sequences", view.sequences()),
        ("subsequences", view.subsequences()),
    ];
    for (field, starts) in starts {
        if let Some(starts) = starts {
            let starts = starts.iter().map(|start| *start as i32).collect();
            output[field] = reply.place(Array::I32(starts));
        }
    }
    output
}

/// Reads a slot. Lengths and offsets are checked here, so that indexing is safe; the data layer checks the rest.
fn slot(given: &Given, arrays: &[Array]) -> Result<Slot, String> {
    let floats = |at: usize| match arrays.get(at) {
        Some(Array::F32(values)) => Ok(values.clone()),
        _ => Err(format!("array {at} is not one of f32")),
    };
    let integers = |at: usize| match arrays.get(at) {
        Some(Array::I32(values)) => values
            .iter()
            .map(|value| u32::try_from(*value).map_err(|_| format!("{value} is negative")))
            .collect::<Result<Vec<u32>, String>>(),
        _ => Err(format!("array {at} is not one of i32")),
    };
    // As in training, -1 is the id without a row; the layer that uses the ids checks the others.
    let ids = |at: usize| match arrays.get(at) {
        Some(Array::I32(values)) => Ok(values.iter().map(|value| value.cast_unsigned()).collect()),
        _ => Err(format!("array {at} is not one of i32")),
    };
    let (data, starts) = match given {
        Given::Dense {
            dim,
            values,
            starts,
        } => {
            let values = floats(*values)?;
            if *dim == 0 || values.len() % dim != 0 {
                return Err(format!("{} values do not make rows of {dim}", values.len()));
            }
            (SlotData::Dense { dim: *dim, values }, starts)
        }
        Given::Ids { ids: at, starts } => (SlotData::Ids(ids(*at)?), starts),
        Given::Sparse {
            dim,
            rows,
            columns,
            values,
            starts,
        } => {
            let (offsets, columns) = (integers(*rows)?, integers(*columns)?);
            if let Some(column) = columns.iter().find(|c| **c as usize >= *dim) {
                return Err(format!("column {column} of rows with {dim}"));
            }
            let data = match values {
                None => SlotData::Binary { offsets, columns },
                Some(values) => SlotData::Sparse {
                    offsets,
                    columns,
                    values: floats(*values)?,
                },
            };
            (data, starts)
        }
    };
    let offsets = |at: Option<usize>| at.map(&integers).transpose();
    Ok(Slot {
        data,
        sequences: offsets(starts.sequences)?.map(Arc::from),
        subsequences: offsets(starts.subsequences)?.map(Arc::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Value {
        json!({
            "type": "nn",
            "layers": [
                {"name": "x", "type": "data", "size": 2},
                {"name": "y", "type": "fc", "size": 1, "active_type": "",
                 "inputs": [{"input_layer_name": "x", "input_parameter_name": "w"}]},
            ],
            "parameters": [{"name": "w", "size": 2, "dims": [2, 1]}],
            "input_layer_names": ["x"],
            "output_layer_names": ["y"],
        })
    }

    fn message(header: Value, arrays: &[Array]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut reply = Reply {
            header: header.as_object().unwrap().clone(),
            arrays: Vec::new(),
        };
        reply.arrays.extend_from_slice(arrays);
        write(&mut bytes, reply).unwrap();
        bytes
    }

    fn talk(messages: &[Vec<u8>]) -> Vec<ReadMessage> {
        let input = messages.concat();
        let mut output = Vec::new();
        serve(&mut &input[..], &mut output).unwrap();
        let mut rest = &output[..];
        std::iter::from_fn(|| read(&mut rest).unwrap()).collect()
    }

    #[test]
    fn a_script_creates_sets_and_computes() {
        let forward = json!({"call": "forward", "machine": 1, "train": false,
            "slots": [{"kind": "dense", "dim": 2, "values": 0}]});
        let replies = talk(&[
            message(json!({"call": "init", "flags": ["--use_gpu=0"]}), &[]),
            message(json!({"call": "create", "config": config()}), &[]),
            message(
                json!({"call": "set_parameter", "machine": 1, "name": "w", "values": 0}),
                &[Array::F32(vec![1.0, 10.0])],
            ),
            message(forward, &[Array::F32(vec![1.0, 2.0, 3.0, 4.0])]),
            message(json!({"call": "parameter", "machine": 1, "name": "w"}), &[]),
            message(json!({"call": "layers", "machine": 1, "names": ["x"]}), &[]),
        ]);
        assert_eq!(replies.len(), 6);
        assert_eq!(replies[1].header["inputs"], json!(["x"]));
        assert_eq!(replies[3].header["outputs"][0]["dim"], json!(1));
        assert_eq!(replies[3].arrays, [Array::F32(vec![21.0, 43.0])]);
        assert_eq!(replies[4].arrays, [Array::F32(vec![1.0, 10.0])]);
        assert_eq!(replies[5].arrays, [Array::F32(vec![1.0, 2.0, 3.0, 4.0])]);
    }

    #[test]
    fn a_request_that_cannot_be_answered_changes_nothing_and_the_next_one_works() {
        let bad = [
            json!({"call": "forward", "machine": 7, "slots": []}),
            json!({"call": "forward", "machine": 1, "slots": []}),
            json!({"call": "forward", "machine": 1, "slots": [{"kind": "dense", "dim": 2, "values": 9}]}),
            json!({"call": "forward", "machine": 1, "slots": [{"kind": "dense", "dim": 3, "values": 0}]}),
            json!({"call": "forward", "machine": 1, "slots": [{"kind": "ids", "ids": 0}]}),
            json!({"call": "parameter", "machine": 1, "name": "v"}),
            json!({"call": "load", "machine": 1, "directory": "/nowhere"}),
            json!({"call": "layers", "machine": 1, "names": ["z"]}),
            json!({"call": "create", "config": {"layers": [{"name": "a", "type": "nonsense"}]}}),
            json!({"call": "dance", "machine": 1}),
        ];
        let mut messages = vec![message(json!({"call": "create", "config": config()}), &[])];
        let arrays = [Array::F32(vec![1.0, 2.0, 3.0, 4.0])];
        messages.extend(bad.iter().map(|header| message(header.clone(), &arrays)));
        messages.push(message(json!({"call": "drop", "machine": 1}), &[]));
        let replies = talk(&messages);
        assert_eq!(replies.len(), bad.len() + 2);
        for (header, reply) in bad.iter().zip(&replies[1..]) {
            let got = &reply.header;
            assert!(got["error"].is_string(), "{header} got {got}");
        }
        assert!(replies.last().unwrap().header.get("error").is_none());
    }

    #[test]
    fn a_cut_message_is_an_error_and_no_panic() {
        let whole = message(json!({"call": "init"}), &[Array::F32(vec![1.0; 8])]);
        for length in 1..whole.len() {
            let mut output = Vec::new();
            let _ = serve(&mut &whole[..length], &mut output);
        }
        let absurd = b"{\"call\": \"init\", \"arrays\": [{\"type\": \"f32\", \"count\": 9223372036854775807}]}\n";
        assert!(serve(&mut &absurd[..], &mut Vec::new()).is_err());
    }
}
