//! JSON lines: one object per sample, with data layers as keys. Other keys are ignored.

use serde_json::{Map, Value};

use crate::sample::{FieldError, Filling, InputField, expected};

/// Adds the sample of a line.
pub(super) fn fill(
    line: &[u8],
    fields: &[InputField],
    filling: &mut Filling<'_>,
) -> Result<(), FieldError> {
    let object = fields_of(line)?;
    fill_object(&object, fields, filling)
}

/// The object of a line.
pub(crate) fn fields_of(line: &[u8]) -> Result<Map<String, Value>, FieldError> {
    let whole = |reason: String| FieldError {
        field: String::new(),
        reason,
    };
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(whole(
            "a sample is a JSON object with the data layers as keys".to_owned(),
        )),
        Err(error) => {
            let text = error.to_string();
            let (what, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
            let column = error.column();
            Err(whole(format!(
                "this is not JSON: {what} (character {column})"
            )))
        }
    }
}

/// Adds a sample: an object or, if the network has one input, that input's value.
pub fn fill_value(
    value: &Value,
    fields: &[InputField],
    filling: &mut Filling<'_>,
) -> Result<(), FieldError> {
    match (value, fields) {
        (Value::Object(object), [field]) if !object.contains_key(&field.slot.name) => {
            // A sparse vector may be an object itself.
            if filling.json(0, value).is_err() {
                return Err(missing(field));
            }
            filling.end();
            Ok(())
        }
        (Value::Object(object), _) => fill_object(object, fields, filling),
        (value, [_]) => {
            filling.json(0, value)?;
            filling.end();
            Ok(())
        }
        _ => Err(FieldError {
            field: "(sample)".to_owned(),
            reason: "a sample is an object with the data layers as keys".to_owned(),
        }),
    }
}

fn fill_object(
    object: &Map<String, Value>,
    fields: &[InputField],
    filling: &mut Filling<'_>,
) -> Result<(), FieldError> {
    for (input, field) in fields.iter().enumerate() {
        match object.get(&field.slot.name) {
            None | Some(Value::Null) => return Err(missing(field)),
            Some(value) => filling.json(input, value)?,
        }
    }
    filling.end();
    Ok(())
}

fn missing(field: &InputField) -> FieldError {
    FieldError {
        field: field.slot.name.clone(),
        reason: format!(
            "it is missing; it takes {}",
            expected(&field.slot, field.slot.level)
        ),
    }
}
