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

/// The members of an object, in their order, with the text of their values as it is. `None` if the line is no object.
pub(crate) fn members(line: &[u8]) -> Option<Vec<(String, &[u8])>> {
    fields_of(line).ok()?;
    // It is an object, so what follows only has to find where its members end.
    let inner = inner(line);
    let (mut found, mut start, mut depth, mut key) = (Vec::new(), 0, 0u32, None);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inner.iter().enumerate().chain([(inner.len(), &b',')]) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                key = serde_json::from_slice(&inner[start..at]).ok();
                start = at + 1;
            }
            b',' if depth == 0 => {
                if let Some(key) = key.take() {
                    found.push((key, inner[start..at].trim_ascii()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    Some(found)
}

/// What is between the braces of an object.
pub(crate) fn inner(object: &[u8]) -> &[u8] {
    let object = object.trim_ascii();
    let object = object.strip_prefix(b"{").unwrap_or(object);
    object.strip_suffix(b"}").unwrap_or(object).trim_ascii()
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
            field: String::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_as_they_were_written() {
        let line =
            br#" {"b": [1, {"x": "},"}], "a\u0021" :12345678901234567890123,"c":"\\\"","d":{}} "#;
        let found = members(line).unwrap();
        let texts: Vec<(&str, &str)> = found
            .iter()
            .map(|(key, value)| (key.as_str(), std::str::from_utf8(value).unwrap()))
            .collect();
        let want = [
            ("b", r#"[1, {"x": "},"}]"#),
            ("a!", "12345678901234567890123"),
            ("c", r#""\\\"""#),
            ("d", "{}"),
        ];
        assert_eq!(texts, want);
        assert_eq!(members(b"{}").unwrap(), []);
        assert_eq!(members(b"[1]"), None);
    }
}
