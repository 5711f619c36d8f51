//! v1's protocol buffers as plain structs: presence and defaults, without a protobuf runtime.
//!
//! `messages!` turns the lines of a `.proto` file, almost unchanged, into plain structs:
//! `required T` becomes `T`, `optional T` becomes `Option<T>` (so "absent" and "default" stay different, which
//! the text form shows), `repeated T` becomes `Vec<T>`. Each optional scalar also gets a method of its own name
//! that returns the value or its default. JSON uses the proto field names and leaves absent fields out.

/// A field of a message: a required value, an optional one, or a list.
pub trait Field {
    /// Whether JSON leaves the field out.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T> Field for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Field for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Field for bool {}
impl Field for i32 {}
impl Field for i64 {}
impl Field for u32 {}
impl Field for u64 {}
impl Field for f32 {}
impl Field for f64 {}
impl Field for String {}

/// A field's name without the `r#` of a raw identifier.
pub(crate) fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
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

/// One field as in its `.proto` line, for the Python side and for the forms of a message.
pub(crate) struct FieldSchema {
    pub label: &'static str,
    pub kind: &'static str,
    pub name: &'static str,
    pub number: u32,
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
                    number: $number,
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
        }

        impl $crate::message::Field for $Name {}
        )*
    };
}
