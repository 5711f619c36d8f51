//! The binary form of messages: what v1 wrote with protobuf, with v1's field numbers.
//!
//! Like the text form it works on JSON and the table of fields, so that there is one description of a message. Fields
//! are written in the order of their numbers, as protobuf's C++ library did. A reader skips fields that it does not know
//! and accepts lists in both of their forms. [`crate::protobuf`] has the encoding of a single field.

use serde_json::{Map, Number, Value};

use crate::message::{FieldSchema, MessageSchema};
use crate::package::schema;
use crate::protobuf::{BYTES, EIGHT_BYTES, FOUR_BYTES, FieldValue, Fields, VARINT};
use crate::training::TrainerConfig;

/// The lists of numbers that v1 declared as packed: one field with all values.
const PACKED: [(&str, &str); 1] = [("LayerConfig", "neg_sampling_dist")];

/// Messages may not be nested deeper than this; those of v1 are at most five deep.
const DEEPEST: usize = 32;

/// Why bytes are not a message.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum BinaryError {
    /// The bytes end inside a field.
    #[error("{message} ends inside a field; the file is cut off or not a protobuf of v1")]
    Cut {
        /// Name of the message.
        message: &'static str,
    },
    /// A field has a form that its type cannot have.
    #[error("{message}.{field} is not a {kind}; the file is damaged or not a protobuf of v1")]
    Field {
        /// Name of the message.
        message: &'static str,
        /// Name of the field.
        field: &'static str,
        /// The type that v1 gave it.
        kind: &'static str,
    },
    /// A required field is absent.
    #[error("{message} has no {field}, which is required")]
    Missing {
        /// Name of the message.
        message: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// Messages inside messages, too many of them.
    #[error("messages are nested more than {DEEPEST} deep")]
    Depth,
    /// The fields are those of the message, but their values do not fit it.
    #[error("the fields do not form a configuration: {0}")]
    Form(String),
}

/// The bytes of a whole configuration.
pub fn encode(config: &TrainerConfig) -> Result<Vec<u8>, BinaryError> {
    let value = serde_json::to_value(config).map_err(|e| BinaryError::Form(e.to_string()))?;
    let mut out = Vec::new();
    write_message(&sorted_schema(), "TrainerConfig", &value, &mut out);
    Ok(out)
}

/// A whole configuration from its bytes.
pub fn decode(bytes: &[u8]) -> Result<TrainerConfig, BinaryError> {
    let schema = schema();
    let value = Reader { schema: &schema }.message("TrainerConfig", bytes, 0)?;
    serde_json::from_value(value).map_err(|e| BinaryError::Form(e.to_string()))
}

/// The table of fields, those of each message in the order of their numbers.
fn sorted_schema() -> Vec<MessageSchema> {
    let mut all = schema();
    for (_, fields) in &mut all {
        fields.sort_by_key(|field| field.number);
    }
    all
}

fn fields<'a>(schema: &'a [MessageSchema], message: &str) -> &'a [FieldSchema] {
    schema
        .iter()
        .find(|(name, _)| *name == message)
        .map_or(&[], |(_, fields)| fields)
}

/// The wire type of one value.
fn wire_type(kind: &str) -> u32 {
    match kind {
        "double" => EIGHT_BYTES,
        "float" => FOUR_BYTES,
        "int32" | "int64" | "uint32" | "uint64" | "bool" => VARINT,
        _ => BYTES,
    }
}

fn write_message(schema: &[MessageSchema], message: &str, value: &Value, out: &mut Vec<u8>) {
    for field in fields(schema, message) {
        let values = match value.get(field.name) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        if PACKED.contains(&(message, field.name)) {
            let mut packed = Vec::new();
            for value in values {
                write_value(schema, field.kind, value, &mut packed);
            }
            write_varint(u64::from(field.number << 3 | BYTES), out);
            write_bytes(&packed, out);
            continue;
        }
        for value in values {
            write_varint(u64::from(field.number << 3 | wire_type(field.kind)), out);
            write_value(schema, field.kind, value, out);
        }
    }
}

fn write_value(schema: &[MessageSchema], kind: &str, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        ("double", _) => out.extend(value.as_f64().unwrap_or(0.0).to_le_bytes()),
        ("float", _) => out.extend((value.as_f64().unwrap_or(0.0) as f32).to_le_bytes()),
        ("bool", _) => write_varint(u64::from(value.as_bool().unwrap_or(false)), out),
        ("uint32" | "uint64", _) => write_varint(value.as_u64().unwrap_or(0), out),
        // A negative int32 is written like a negative int64.
        ("int32" | "int64", _) => write_varint(value.as_i64().unwrap_or(0) as u64, out),
        ("string", _) => write_bytes(value.as_str().unwrap_or_default().as_bytes(), out),
        (message, _) => {
            let mut inner = Vec::new();
            write_message(schema, message, value, &mut inner);
            write_bytes(&inner, out);
        }
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Reader<'a> {
    schema: &'a [MessageSchema],
}

impl Reader<'_> {
    fn message(
        &self,
        message: &'static str,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, BinaryError> {
        if depth > DEEPEST {
            return Err(BinaryError::Depth);
        }
        let fields = fields(self.schema, message);
        let mut found = Map::new();
        for field in Fields(bytes) {
            let (number, piece) = field.map_err(|_| BinaryError::Cut { message })?;
            let Some(field) = fields.iter().find(|f| u64::from(f.number) == number) else {
                continue;
            };
            let wrong = BinaryError::Field {
                message,
                field: field.name,
                kind: field.kind,
            };
            let values = self.values(field, piece, depth)?.ok_or(wrong)?;
            match (field.label, found.get_mut(field.name)) {
                ("repeated", Some(Value::Array(all))) => all.extend(values),
                ("repeated", _) => {
                    found.insert(field.name.to_owned(), Value::Array(values));
                }
                // As in protobuf, the last of several wins.
                (_, _) => {
                    if let Some(value) = values.into_iter().next_back() {
                        found.insert(field.name.to_owned(), value);
                    }
                }
            }
        }
        let missing =
            |field: &&FieldSchema| field.label == "required" && !found.contains_key(field.name);
        if let Some(field) = fields.iter().find(missing) {
            let field = field.name;
            return Err(BinaryError::Missing { message, field });
        }
        Ok(Value::Object(found))
    }

    /// The values of one occurrence of a field; `None` if its form is not that of its type.
    fn values(
        &self,
        field: &FieldSchema,
        piece: FieldValue<'_>,
        depth: usize,
    ) -> Result<Option<Vec<Value>>, BinaryError> {
        let one = |value: Option<Value>| Ok(value.map(|value| vec![value]));
        match piece {
            FieldValue::Bytes(bytes) if wire_type(field.kind) == BYTES => {
                if field.kind == "string" {
                    let text = std::str::from_utf8(bytes).ok();
                    return one(text.map(Value::from));
                }
                self.message(field.kind, bytes, depth + 1)
                    .map(|value| Some(vec![value]))
            }
            FieldValue::Bytes(bytes) if field.label == "repeated" => Ok(unpack(field.kind, bytes)),
            piece => one(scalar(field.kind, &piece)),
        }
    }
}

/// All values of a packed list.
fn unpack(kind: &str, mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let piece = FieldValue::take(wire_type(kind), &mut bytes)?;
        values.push(scalar(kind, &piece)?);
    }
    Some(values)
}

fn scalar(kind: &str, piece: &FieldValue<'_>) -> Option<Value> {
    Some(match (kind, piece) {
        ("bool", FieldValue::Varint(value)) => Value::Bool(*value != 0),
        ("uint32", FieldValue::Varint(value)) => Value::from(u32::try_from(*value).ok()?),
        ("uint64", FieldValue::Varint(value)) => Value::from(*value),
        ("int32", FieldValue::Varint(value)) => Value::from(i32::try_from(*value as i64).ok()?),
        ("int64", FieldValue::Varint(value)) => Value::from(*value as i64),
        ("double", FieldValue::Eight(bytes)) => number(f64::from_le_bytes(*bytes))?,
        ("float", FieldValue::Four(bytes)) => number(f64::from(f32::from_le_bytes(*bytes)))?,
        _ => return None,
    })
}

/// No field of v1 is infinite or not a number.
fn number(value: f64) -> Option<Value> {
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TrainerConfig {
        serde_json::from_value(serde_json::json!({
            "model_config": {
                "type": "nn",
                "layers": [
                    {"name": "word", "type": "data", "size": 300},
                    {"name": "nce", "type": "nce", "size": 1, "device": -1, "num_neg_samples": 5,
                     "neg_sampling_dist": [0.25, 0.75], "coeff": 1.0,
                     "inputs": [{"input_layer_name": "word", "input_parameter_name": "w"}]}
                ],
                "parameters": [{"name": "w", "size": 600, "initial_std": 0.5, "dims": [300, 2], "para_id": 0}],
                "input_layer_names": ["word"],
                "output_layer_names": ["nce"]
            },
            "opt_config": {"batch_size": 100, "algorithm": "sgd", "learning_rate": 0.001, "max_average_window": i64::MAX},
            "save_dir": "./ä"
        }))
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let config = config();
        let bytes = encode(&config).unwrap();
        assert_eq!(decode(&bytes).unwrap(), config);
    }

    /// Field numbers, wire types and order, byte by byte.
    #[test]
    fn bytes_are_those_of_protobuf() {
        let config: TrainerConfig = serde_json::from_value(serde_json::json!({
            "opt_config": {"batch_size": 300, "algorithm": "sgd", "learning_rate": 1.0, "average_window": 0.5},
            "start_pass": -1
        }))
        .unwrap();
        let mut want = vec![0x1a, 0x1b];
        want.extend([0x18, 0xac, 0x02]); // 3: batch_size 300
        want.extend([0x22, 3, b's', b'g', b'd']); // 4: algorithm
        want.push(0x39); // 7: learning_rate
        want.extend(1.0f64.to_le_bytes());
        want.extend([0x91, 0x01]); // 18: average_window
        want.extend(0.5f64.to_le_bytes());
        want.push(0x40); // 8: start_pass, ten bytes because it is negative
        want.extend([0xff; 9]);
        want.push(1);
        assert_eq!(encode(&config).unwrap(), want);
        assert_eq!(decode(&want).unwrap(), config);
    }

    #[test]
    fn a_packed_list_and_an_unpacked_one_are_the_same() {
        let bytes = encode(&config()).unwrap();
        let packed: Vec<u8> = [
            &[0x8a, 0x01, 16][..],
            &0.25f64.to_le_bytes(),
            &0.75f64.to_le_bytes(),
        ]
        .concat();
        assert!(bytes.windows(packed.len()).any(|part| part == packed));
        let key = [0x89, 0x01];
        let unpacked = [
            &key[..],
            &0.25f64.to_le_bytes(),
            &key,
            &0.75f64.to_le_bytes(),
        ]
        .concat();
        let layer = |list: &[u8]| [b"\x0a\x01a\x12\x01b", list].concat();
        let schema = schema();
        let reader = Reader { schema: &schema };
        let read = |list: &[u8]| reader.message("LayerConfig", &layer(list), 0).unwrap();
        assert_eq!(read(&packed), read(&unpacked));
        assert_eq!(read(&packed)["neg_sampling_dist"][1], 0.75);
    }

    #[test]
    fn unknown_fields_are_skipped_and_broken_ones_are_named() {
        let mut bytes = encode(&config()).unwrap();
        bytes.extend([0xfa, 0x07, 2, 9, 9]); // 127: two bytes
        assert_eq!(decode(&bytes).unwrap(), config());
        let said = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert!(said(&bytes[..40]).contains("ends inside a field"));
        assert!(said(&[0x40, 1]).contains("TrainerConfig has no opt_config"));
        assert!(said(&[0x42, 1, 7]).contains("TrainerConfig.start_pass is not a int32"));
        assert!(said(&[0x32, 1, 0xff]).contains("TrainerConfig.save_dir is not a string"));
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        let good = encode(&config()).unwrap();
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
        for at in 0..good.len() {
            for value in [0, 1, 127, 128, 255] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = decode(&bad);
            }
        }
        // Field 24 of DataConfig is a DataConfig.
        let mut nested = vec![0x0a, 1, b'x'];
        for _ in 0..100 {
            let mut outer = vec![0x0a, 1, b'x', 0xc2, 0x01];
            write_bytes(&nested, &mut outer);
            nested = outer;
        }
        let mut whole = vec![0x12];
        write_bytes(&nested, &mut whole);
        assert_eq!(decode(&whole), Err(BinaryError::Depth));
    }
}
