//! Writes plain values in Python's pickle format, protocol 2, which every Python since 2.3 reads.
//!
//! v1's recommendation demo keeps its features in such a file, so that its own files work with our data and vice
//! versa. Only what can be loaded without running code is written: no classes, no references.

/// A value that Python has under the same name.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i32),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// A dictionary with names as keys.
    pub(super) fn named<const N: usize>(entries: [(&str, Value); N]) -> Self {
        Self::Dict(
            entries
                .into_iter()
                .map(|(name, value)| (Self::text(name), value))
                .collect(),
        )
    }

    pub(super) fn ints(values: impl IntoIterator<Item = u32>) -> Self {
        Self::List(
            values
                .into_iter()
                .map(|value| Self::Int(value as i32))
                .collect(),
        )
    }

    /// The bytes of a file with this value.
    pub(super) fn pickle(&self) -> Vec<u8> {
        let mut out = vec![0x80, 2];
        self.write(&mut out);
        out.push(b'.');
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.push(if *value { 0x88 } else { 0x89 }),
            Self::Int(value) => match u8::try_from(*value) {
                Ok(byte) => out.extend([b'K', byte]),
                Err(_) => {
                    out.push(b'J');
                    out.extend(value.to_le_bytes());
                }
            },
            Self::Float(value) => {
                out.push(b'G');
                out.extend(value.to_be_bytes());
            }
            Self::Text(text) => {
                out.push(b'X');
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
            Self::List(items) => {
                out.extend(b"](");
                items.iter().for_each(|item| item.write(out));
                out.push(b'e');
            }
            Self::Dict(entries) => {
                out.extend(b"}(");
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
                out.push(b'u');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn python_reads_what_is_written() {
        let value = Value::Dict(vec![
            (
                Value::Int(7),
                Value::List(vec![
                    Value::Int(-1),
                    Value::Int(300),
                    Value::Int(255),
                    Value::Bool(true),
                ]),
            ),
            (
                Value::text("é"),
                Value::named([("x", Value::Float(0.5)), ("empty", Value::List(vec![]))]),
            ),
        ]);
        let mut python = Command::new("python3")
            .args(["-c", "import pickle, sys; print(pickle.load(sys.stdin.buffer) == {7: [-1, 300, 255, True], '\\xe9': {'x': 0.5, 'empty': []}})"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        python
            .stdin
            .take()
            .unwrap()
            .write_all(&value.pickle())
            .unwrap();
        let output = python.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "True\n");
    }
}
