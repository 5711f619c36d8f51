//! The text form of messages, as v1's `dump_config` printed it.
//!
//! It is printed from JSON and not from the structs, because JSON preserves whether a number was written `1` or `1.0`:
//! the protobuf library of v1's Python kept integers in fields of type double, and so its dumps have them.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::message::MessageSchema;
use crate::package::schema;

/// The text form of a message of this name, one field per line; unknown fields are left out.
pub(crate) fn text(message: &str, value: &Value) -> String {
    let mut out = String::new();
    print_fields(&schema(), message, value, 0, &mut out);
    out
}

fn print_fields(
    schema: &[MessageSchema],
    message: &str,
    value: &Value,
    indent: usize,
    out: &mut String,
) {
    let Some((_, fields)) = schema.iter().find(|(name, _)| *name == message) else {
        return;
    };
    for field in fields {
        match value.get(field.name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(values)) => {
                for value in values {
                    print(schema, (field.name, field.kind), value, indent, out);
                }
            }
            Some(value) => print(schema, (field.name, field.kind), value, indent, out),
        }
    }
}

/// Prints `name: value` or `name { … }` with its indentation and line end.
fn print(
    schema: &[MessageSchema],
    (name, kind): (&str, &str),
    value: &Value,
    indent: usize,
    out: &mut String,
) {
    let text = match value {
        Value::Object(_) => {
            let _ = writeln!(out, "{:indent$}{name} {{", "");
            print_fields(schema, kind, value, indent + 2, out);
            let _ = writeln!(out, "{:indent$}}}", "");
            return;
        }
        Value::String(text) => quoted(text),
        Value::Number(number) => number_text(kind, number),
        other => other.to_string(),
    };
    let _ = writeln!(out, "{:indent$}{name}: {text}", "");
}

fn number_text(kind: &str, number: &Number) -> String {
    match (kind, number.as_f64()) {
        _ if !number.is_f64() => number.to_string(),
        // A float prints as it was written, not as the double that is nearest to it.
        ("float", Some(value)) => {
            let written = (value as f32).to_string();
            python_float(written.parse().unwrap_or(value))
        }
        (_, Some(value)) => python_float(value),
        (_, None) => number.to_string(),
    }
}

/// A float as Python 2's `str` printed it into v1's dumps: twelve significant digits, `.0` kept.
fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0.0"
        } else {
            "0.0"
        }
        .to_owned();
    }
    let scientific = format!("{value:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..12).contains(&exponent) {
        let decimals = usize::try_from(11 - exponent).unwrap_or(0);
        let fixed = format!("{value:.decimals$}");
        let trimmed = if fixed.contains('.') {
            fixed.trim_end_matches('0')
        } else {
            &fixed
        };
        return if trimmed.ends_with('.') {
            format!("{trimmed}0")
        } else if trimmed.contains('.') {
            trimmed.to_owned()
        } else {
            format!("{trimmed}.0")
        };
    }
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A string in double quotes with C escapes; bytes outside printable ASCII in octal, as protobuf does.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_2_did() {
        let cases = [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.002, "0.002"),
            (1e-8, "1e-08"),
            (0.057735026919, "0.057735026919"),
            (0.057_735_026_918_962_574, "0.057735026919"),
            (123456789012.0, "123456789012.0"),
            (1e12, "1e+12"),
            (-2.5e-7, "-2.5e-07"),
        ];
        for (value, text) in cases {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn numbers_print_as_they_were_written() {
        let text = |kind: &str, json: &str| {
            let number: Number = serde_json::from_str(json).unwrap();
            number_text(kind, &number)
        };
        assert_eq!(text("double", "1"), "1");
        assert_eq!(text("double", "1.0"), "1.0");
        assert_eq!(text("float", "0.1"), "0.1");
        assert_eq!(
            text("uint64", "18446744073709551615"),
            "18446744073709551615"
        );
    }

    #[test]
    fn fields_print_in_the_order_of_the_message() {
        let json = r#"{"dims": [2, 3], "size": 6, "name": "w", "is_static": true}"#;
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            text("ParameterConfig", &value),
            "name: \"w\"\nsize: 6\ndims: 2\ndims: 3\nis_static: true\n"
        );
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("a\"b\\\n\u{e9}"), "\"a\\\"b\\\\\\n\\303\\251\"");
    }
}
