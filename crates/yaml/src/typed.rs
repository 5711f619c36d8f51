//! Turns a document into a typed structure with serde, and adds the line and a suggested key to serde's errors.

use serde::de::DeserializeOwned;
use serde_json::Value;
use words::guess;

use crate::read::{Document, YamlError};

impl Document {
    /// The content as a `T`. A key without a value (`image:`) means "not set".
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        let value = match without_nulls(self.value.clone()) {
            // A file with comments only has no keys; serde then names the first missing key.
            Value::Null => Value::Object(serde_json::Map::new()),
            value => value,
        };
        serde_path_to_error::deserialize(value).map_err(|error| self.misfit(&error))
    }

    /// serde's error, with the line of the value that it is about.
    fn misfit(&self, error: &serde_path_to_error::Error<serde_json::Error>) -> YamlError {
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        let complaint = guess::unknown_key(&error.inner().to_string());
        // serde's text names an unknown or missing key; every other error is about the value at the path.
        let owner = if complaint.starts_with("unknown field") {
            path.rfind(['.', '[']).map_or("", |end| &path[..end])
        } else {
            &path
        };
        YamlError {
            line: self.line(&path).unwrap_or(1),
            message: if owner.is_empty() {
                complaint
            } else {
                format!("{owner}: {complaint}")
            },
        }
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use crate::parse;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ship {
        name: String,
        #[serde(default)]
        seats: Option<u32>,
        #[serde(default)]
        crew: Vec<Person>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Person {
        role: String,
    }

    #[test]
    fn keys_without_a_value_are_not_set() {
        let ship: Ship = parse("name: reed\nseats:\n").unwrap().typed().unwrap();
        assert_eq!((ship.name.as_str(), ship.seats), ("reed", None));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_line() {
        for (text, told) in [
            (
                "name: reed\nsaets: 2\n",
                "line 2: unknown field `saets`: did you mean `seats`?",
            ),
            (
                "name: reed\ncrew:\n- role: cook\n- rule: mate\n",
                "line 4: crew[1]: unknown field `rule`: did you mean `role`?",
            ),
            (
                "name: reed\nseats: many\n",
                "line 2: seats: invalid type: string \"many\", expected u32",
            ),
            ("seats: 2\n", "line 1: missing field `name`"),
            ("# nothing\n", "line 1: missing field `name`"),
        ] {
            let error = parse(text).unwrap().typed::<Ship>().unwrap_err();
            assert_eq!(error.to_string(), told, "{text:?}");
        }
    }
}
