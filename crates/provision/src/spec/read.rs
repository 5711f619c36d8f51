//! Text to [`ClusterSpec`]: keys and types by the table of fields, then meaning by [`check`].
//!
//! All problems are reported together, sorted by line, because a user who has to run a command five
//! times to learn of five typos is badly served.

use serde_json::Value;

use super::fields::{self, FIELDS, GROUP_KEYS, SpecField, ValueKind};
use super::{ClusterSpec, SpecProblem, check, has_errors};
use crate::names::nearest;
use yaml::Document;

/// A cluster file that can be used.
#[derive(Debug)]
pub struct UsableSpec {
    /// What it says.
    pub spec: ClusterSpec,
    /// What may be wrong with it.
    pub warnings: Vec<SpecProblem>,
}

/// Reads a cluster file. `Err` carries every problem, warnings included.
pub fn read(text: &str) -> Result<UsableSpec, Vec<SpecProblem>> {
    let document = yaml::parse(text).map_err(|error| {
        let mut problem = SpecProblem::error("", error.message, "correct the YAML at this line");
        problem.line = Some(error.line);
        vec![problem]
    })?;
    let mut problems = shape(&document.value);
    if !problems.is_empty() {
        return Err(placed(problems, &document));
    }
    let spec: ClusterSpec =
        serde_json::from_value(without_nulls(document.value.clone())).map_err(|error| {
            vec![SpecProblem::error(
                "",
                error.to_string(),
                "compare with `canoe cluster init`'s file",
            )]
        })?;
    problems = placed(check::check(&spec), &document);
    if has_errors(&problems) {
        Err(problems)
    } else {
        Ok(UsableSpec {
            spec,
            warnings: problems,
        })
    }
}

fn placed(mut problems: Vec<SpecProblem>, document: &Document) -> Vec<SpecProblem> {
    for problem in &mut problems {
        problem.line = document.line(&problem.field);
    }
    problems.sort_by_key(|problem| (problem.line.unwrap_or(0), problem.field.clone()));
    problems
}

/// A key without a value (`sshKeyName:`) means "not set".
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k, without_nulls(v)))
                .collect(),
        ),
        other => other,
    }
}

fn shape(value: &Value) -> Vec<SpecProblem> {
    let Some(top) = value.as_object() else {
        return vec![SpecProblem::error(
            "",
            "the file has no keys",
            "write one with `canoe cluster init NAME`",
        )];
    };
    let mut problems = Vec::new();
    let sections = fields::sections();
    for (key, value) in top {
        if let Some(field) = fields::find(key) {
            check_kind(field, value, &mut problems);
        } else if sections.contains(&key.as_str()) {
            section(key, value, &mut problems);
        } else {
            let known = FIELDS
                .iter()
                .map(|f| f.path)
                .filter(|p| !p.contains('.'))
                .chain(sections.iter().copied());
            problems.push(unknown(key, key, known));
        }
    }
    for field in FIELDS.iter().filter(|field| field.required) {
        let pointer = format!("/{}", field.path.replace('.', "/"));
        if value.pointer(&pointer).is_none_or(Value::is_null) {
            let remedy = format!("add {}: {}", field.path, field.example);
            problems.push(SpecProblem::error(field.path, "is missing", remedy));
        }
    }
    problems
}

fn section(name: &str, value: &Value, problems: &mut Vec<SpecProblem>) {
    if value.is_null() {
        return;
    }
    let Some(entries) = value.as_object() else {
        problems.push(SpecProblem::error(
            name,
            "must hold keys",
            "indent its keys below it",
        ));
        return;
    };
    let prefix = format!("{name}.");
    for (key, value) in entries {
        let path = format!("{prefix}{key}");
        match fields::find(&path) {
            Some(field) => check_kind(field, value, problems),
            None => {
                let known = FIELDS
                    .iter()
                    .filter_map(|field| field.path.strip_prefix(prefix.as_str()));
                problems.push(unknown(&path, key, known));
            }
        }
    }
}

fn unknown<'a>(path: &str, key: &str, known: impl Iterator<Item = &'a str>) -> SpecProblem {
    let remedy = match nearest(key, known) {
        Some(name) => format!("did you mean {name}?"),
        None => "remove it; `canoe cluster schema` lists every key".to_owned(),
    };
    SpecProblem::error(path, "is not a key of this file", remedy)
}

fn check_kind(field: &SpecField, value: &Value, problems: &mut Vec<SpecProblem>) {
    if value.is_null() && !field.required {
        return;
    }
    if let (ValueKind::Groups, Some(groups)) = (field.kind, value.as_array()) {
        for (index, group) in groups.iter().enumerate() {
            check_group(&format!("{}[{index}]", field.path), group, problems);
        }
        return;
    }
    let fits = fits(field.kind, value);
    if fits || value.is_null() {
        return; // a missing required value is reported once, as missing
    }
    let mut remedy = format!("write {}", field.kind.words());
    if let (ValueKind::Choice(words), Some(word)) = (field.kind, value.as_str())
        && let Some(near) = nearest(word, words.iter().copied())
    {
        remedy.push_str(&format!("; did you mean {near}?"));
    }
    if matches!(field.kind, ValueKind::Text) {
        remedy.push_str(&format!(", such as {}", field.example));
    }
    problems.push(SpecProblem::error(
        field.path,
        format!("{value} does not fit"),
        remedy,
    ));
}

/// One entry of `workers.groups`.
fn check_group(path: &str, group: &Value, problems: &mut Vec<SpecProblem>) {
    let Some(entries) = group.as_object() else {
        let remedy = format!("write {}", ValueKind::Groups.words());
        problems.push(SpecProblem::error(
            path,
            format!("{group} does not fit"),
            remedy,
        ));
        return;
    };
    for (key, value) in entries {
        match GROUP_KEYS.iter().find(|(name, ..)| name == key) {
            None => problems.push(unknown(
                path,
                key,
                GROUP_KEYS.iter().map(|(name, ..)| *name),
            )),
            Some((_, kind, _)) if !fits(*kind, value) => {
                let remedy = format!("write {}", kind.words());
                problems.push(SpecProblem::error(
                    path,
                    format!("{key}: {value} does not fit"),
                    remedy,
                ));
            }
            Some(_) => {}
        }
    }
    for (name, kind, needed) in GROUP_KEYS {
        if needed && !entries.contains_key(name) {
            let remedy = format!("write {name}: {}", kind.words());
            problems.push(SpecProblem::error(
                path,
                format!("{name} is missing"),
                remedy,
            ));
        }
    }
}

fn fits(kind: ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::Text => value.is_string(),
        ValueKind::Number(low, high) => value
            .as_i64()
            .is_some_and(|number| (low..=high).contains(&number)),
        ValueKind::Switch => value.is_boolean(),
        ValueKind::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        ValueKind::List => value
            .as_array()
            .is_some_and(|items| items.iter().all(Value::is_string)),
        ValueKind::Table => value
            .as_object()
            .is_some_and(|entries| entries.values().all(Value::is_string)),
        ValueKind::Groups => value.is_array(),
    }
}
