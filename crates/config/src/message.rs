//! The vocabulary of v1's protocol buffers: presence, defaults and text form, without a protobuf runtime.
//!
//! `messages!` takes the lines of a `.proto` file almost as they are and makes plain structs of them:
//! `required T` becomes `T`, `optional T` becomes `Option<T>` (so "absent" and "default" stay different, which
//! the text form shows), `repeated T` becomes `Vec<T>`. Each optional scalar also gets a method of its own name
//! that answers the value or its default. JSON uses the proto field names and leaves absent fields out.

use std::fmt::Write;

/// A single value that the text form can print.
pub trait Value {
    /// Prints `name: value` or `name { … }` with its indentation and line end.
    fn print(&self, name: &str, indent: usize, out: &mut String);
}

/// A field of a message: a required value, an optional one, or a list.
pub trait Field {
    /// Whether the text and JSON forms leave the field out.
    fn is_absent(&self) -> bool;
    /// Prints the field, nothing if it is absent.
    fn print_field(&self, name: &str, indent: usize, out: &mut String);
}

impl<T: Value> Field for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn print_field(&self, name: &str, indent: usize, out: &mut String) {
        if let Some(value) = self {
            value.print(name, indent, out);
        }
    }
}

impl<T: Value> Field for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn print_field(&self, name: &str, indent: usize, out: &mut String) {
        for value in self {
            value.print(name, indent, out);
        }
    }
}

/// A field's name without the mark of a raw identifier.
pub(crate) fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// Writes one `name: text` line.
pub(crate) fn line(name: &str, indent: usize, text: &str, out: &mut String) {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let _ = writeln!(out, "{:indent$}{name}: {text}", "");
}

macro_rules! scalars {
    ($($t:ty => $show:expr;)*) => {$(
        impl $crate::message::Value for $t {
            fn print(&self, name: &str, indent: usize, out: &mut String) {
                let show: fn(&$t) -> String = $show;
                $crate::message::line(name, indent, &show(self), out);
            }
        }
        impl $crate::message::Field for $t {
            fn is_absent(&self) -> bool {
                false
            }
            fn print_field(&self, name: &str, indent: usize, out: &mut String) {
                $crate::message::Value::print(self, name, indent, out);
            }
        }
    )*};
}

scalars! {
    bool => |v| v.to_string();
    i32 => |v| v.to_string();
    i64 => |v| v.to_string();
    u32 => |v| v.to_string();
    u64 => |v| v.to_string();
    f32 => |v| python_float(v.to_string().parse().unwrap_or(f64::from(*v)));
    f64 => |v| python_float(*v);
    String => |v| quoted(v);
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

macro_rules! rust_type {
    (double) => {
        f64
    };
    (float) => {
        f32
    };
    (int32) => {
        i32
    };
    (int64) => {
        i64
    };
    (uint32) => {
        u32
    };
    (uint64) => {
        u64
    };
    (bool) => {
        bool
    };
    (string) => {
        String
    };
    ($message:ident) => {
        $message
    };
}

macro_rules! field_type {
    (required $t:ident) => { rust_type!($t) };
    (optional $t:ident) => { Option<rust_type!($t)> };
    (repeated $t:ident) => { Vec<rust_type!($t)> };
}

macro_rules! accessor {
    (optional string $field:ident) => { accessor!(optional string $field ""); };
    (optional string $field:ident $default:expr) => {
        /// The value, or the default of v1.
        pub fn $field(&self) -> &str {
            self.$field.as_deref().unwrap_or($default)
        }
    };
    (optional double $field:ident $($default:expr)?) => { accessor!(@scalar double $field $($default)?); };
    (optional int32 $field:ident $($default:expr)?) => { accessor!(@scalar int32 $field $($default)?); };
    (optional int64 $field:ident $($default:expr)?) => { accessor!(@scalar int64 $field $($default)?); };
    (optional uint32 $field:ident $($default:expr)?) => { accessor!(@scalar uint32 $field $($default)?); };
    (optional uint64 $field:ident $($default:expr)?) => { accessor!(@scalar uint64 $field $($default)?); };
    (optional bool $field:ident $($default:expr)?) => { accessor!(@scalar bool $field $($default)?); };
    (@scalar $t:ident $field:ident) => {
        /// The value, or zero.
        pub fn $field(&self) -> rust_type!($t) {
            self.$field.unwrap_or_default()
        }
    };
    (@scalar $t:ident $field:ident $default:expr) => {
        /// The value, or the default of v1.
        pub fn $field(&self) -> rust_type!($t) {
            self.$field.unwrap_or($default)
        }
    };
    ($($other:tt)*) => {};
}

/// One field as its `.proto` line says it, for the Python side.
pub(crate) struct FieldSchema {
    pub label: &'static str,
    pub kind: &'static str,
    pub name: &'static str,
    pub default: Option<serde_json::Value>,
}

/// One message: its name and its fields in order.
pub(crate) type MessageSchema = (&'static str, Vec<FieldSchema>);

/// Declares messages; see the head of this file.
macro_rules! messages {
    ($($(#[$doc:meta])* $Name:ident { $($label:ident $ty:ident $field:ident = $number:literal $([$default:expr])?;)* })*) => {
        /// The messages of this file, for the Python side.
        pub(crate) fn schema() -> Vec<$crate::message::MessageSchema> {
            vec![$((stringify!($Name), vec![$(
                $crate::message::FieldSchema {
                    label: stringify!($label),
                    kind: stringify!($ty),
                    name: $crate::message::plain(stringify!($field)),
                    default: None$(.or(Some(serde_json::json!($default))))?,
                },
            )*])),*]
        }
        $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        #[allow(missing_docs, non_snake_case, reason = "the fields are v1's, and so are their names")]
        pub struct $Name {
            $(
                #[serde(skip_serializing_if = "crate::message::Field::is_absent")]
                pub $field: field_type!($label $ty),
            )*
        }

        #[allow(non_snake_case, reason = "the fields are v1's, and so are their names")]
        impl $Name {
            $(accessor!($label $ty $field $($default)?);)*

            /// The text form, one field a line, as v1's `dump_config` printed it.
            pub fn to_text(&self) -> String {
                let mut out = String::new();
                self.print_fields(0, &mut out);
                out
            }

            fn print_fields(&self, indent: usize, out: &mut String) {
                $($crate::message::Field::print_field(&self.$field, stringify!($field), indent, out);)*
            }
        }

        impl $crate::message::Value for $Name {
            fn print(&self, name: &str, indent: usize, out: &mut String) {
                use std::fmt::Write;
                let _ = writeln!(out, "{:indent$}{name} {{", "");
                self.print_fields(indent + 2, out);
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }

        impl $crate::message::Field for $Name {
            fn is_absent(&self) -> bool {
                false
            }
            fn print_field(&self, name: &str, indent: usize, out: &mut String) {
                $crate::message::Value::print(self, name, indent, out);
            }
        }
        )*
    };
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
    fn single_precision_prints_as_it_was_written() {
        let mut out = String::new();
        0.1f32.print("variance", 2, &mut out);
        assert_eq!(out, "  variance: 0.1\n");
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("a\"b\\\n\u{e9}"), "\"a\\\"b\\\\\\n\\303\\251\"");
    }
}
