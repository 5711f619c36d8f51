//! Writes JSON values as YAML that parsers of versions 1.1 and 1.2 read in the same way.
//!
//! Kubernetes tools read YAML 1.1, where `on`, `no`, `012` and `1:30` are not strings; general
//! serialisers write YAML 1.2 and may leave such words bare. Here a string is bare only if it cannot
//! be anything else in either version; texts of several lines become literal blocks, so that a
//! configuration in a ConfigMap can be read; everything else is quoted as in JSON. Keys come in the
//! order of the value's map, which is sorted: the same value gives the same bytes.

use serde_json::Value;

/// The values as a stream of YAML documents.
pub fn documents(values: &[Value]) -> String {
    let mut text = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&document(value));
    }
    text
}

/// One value as a YAML document, with a line break at the end.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    write_block(&mut text, value, 0);
    text
}

/// Writes a value that begins at the start of a line.
fn write_block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                write_key(text, key, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write_item(text, item, indent);
            }
        }
        scalar => {
            pad(text, indent);
            write_scalar(text, scalar, indent + 2);
            text.push('\n');
        }
    }
}

fn write_key(text: &mut String, key: &str, value: &Value, indent: usize) {
    pad(text, indent);
    text.push_str(&plain_or_quoted(key));
    text.push(':');
    write_after_colon(text, value, indent);
}

fn write_after_colon(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            write_block(text, value, indent + 2);
        }
        // A list stands at the indent of its key, as Kubernetes documents have it.
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_block(text, value, indent);
        }
        scalar => {
            text.push(' ');
            write_scalar(text, scalar, indent + 2);
            text.push('\n');
        }
    }
}

fn write_item(text: &mut String, item: &Value, indent: usize) {
    pad(text, indent);
    text.push('-');
    if matches!(item, Value::Array(items) if !items.is_empty()) {
        text.push('\n');
        return write_block(text, item, indent + 2);
    }
    text.push(' ');
    match item {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    pad(text, indent + 2);
                }
                text.push_str(&plain_or_quoted(key));
                text.push(':');
                write_after_colon(text, value, indent + 2);
            }
        }
        scalar => {
            write_scalar(text, scalar, indent + 2);
            text.push('\n');
        }
    }
}

fn write_scalar(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(string) if is_block(string) => write_literal(text, string, indent),
        Value::String(string) => text.push_str(&plain_or_quoted(string)),
        other => text.push_str(&other.to_string()),
    }
}

/// Several lines, each printable and not ending in a blank, the first not indented.
fn is_block(string: &str) -> bool {
    let printable = |line: &str| !line.ends_with([' ', '\t']) && line.chars().all(is_printable);
    string.trim_end_matches('\n').contains('\n')
        && !string.starts_with([' ', '\n', '\t'])
        && string.lines().all(printable)
        && !string.contains('\r')
}

/// Characters that YAML allows without an escape, except its rarer line breaks.
fn is_printable(character: char) -> bool {
    let forbidden = matches!(
        character,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    );
    (character == '\t' || !character.is_control()) && !forbidden
}

fn write_literal(text: &mut String, string: &str, indent: usize) {
    let body = string.trim_end_matches('\n');
    text.push_str(match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let kept = if string.ends_with("\n\n") {
        &string[..string.len() - 1]
    } else {
        body
    };
    for line in kept.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            pad(text, indent);
            text.push_str(line);
        }
    }
}

fn plain_or_quoted(string: &str) -> String {
    if is_plain(string) {
        return string.to_owned();
    }
    let mut text = String::from("\"");
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            character if is_printable(character) => text.push(character),
            character => text.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    text.push('"');
    text
}

/// Whether a bare word is this string in YAML 1.1 and 1.2.
fn is_plain(string: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let starts_well = string
        .starts_with(|first: char| first.is_ascii_alphabetic() || first == '/' || first == '_');
    let middle = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    starts_well
        && string.chars().all(middle)
        && !WORDS.contains(&string.to_ascii_lowercase().as_str())
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn looks_like_a_manifest() {
        let value = json!({
            "apiVersion": "v1",
            "kind": "Thing",
            "metadata": {"labels": {}, "name": "a-b.c"},
            "spec": {
                "list": [{"name": "x", "values": ["1", "--port=7164"]}, {"name": "y"}],
                "none": [],
                "number": 3,
                "switch": "on",
                "text": "line one\n  line two\n",
            },
        });
        assert_eq!(
            documents(&[value, json!({"a": true})]),
            "apiVersion: v1\n\
             kind: Thing\n\
             metadata:\n\
             \u{20} labels: {}\n\
             \u{20} name: a-b.c\n\
             spec:\n\
             \u{20} list:\n\
             \u{20} - name: x\n\
             \u{20}   values:\n\
             \u{20}   - \"1\"\n\
             \u{20}   - \"--port=7164\"\n\
             \u{20} - name: \"y\"\n\
             \u{20} none: []\n\
             \u{20} number: 3\n\
             \u{20} switch: \"on\"\n\
             \u{20} text: |\n\
             \u{20}   line one\n\
             \u{20}     line two\n\
             ---\n\
             a: true\n"
        );
    }

    #[test]
    fn words_that_yaml_1_1_takes_for_something_else_are_quoted() {
        for word in [
            "yes",
            "No",
            "ON",
            "012",
            "1:30",
            "1e3",
            "0x1F",
            "~",
            "",
            "=",
            "<<",
            "null",
            ".inf",
            "-",
            "a b",
            "#",
            "x: y",
            "2026-11-15",
        ] {
            assert!(!is_plain(word), "{word}");
        }
        for word in [
            "default",
            "fs-1.efs.amazonaws.com",
            "/home/jobpath",
            "nfs",
            "trainer_config.lr.py",
        ] {
            assert!(is_plain(word), "{word}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            ".*",
            "[a-z \\n\\t]{0,12}",
            "([a-z]{0,3}\\n){0,4}",
            Just("no".to_owned())
        ];
        let leaf = prop_oneof![
            text.prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-z/ .:#-]{0,6}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_parser_reads_what_was_written(value in any_value()) {
            let text = document(&value);
            let read = crate::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).value;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
