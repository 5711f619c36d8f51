//! Changes the text of a kubeconfig line by line: what is not ours keeps its bytes, with comments, order and types.
//!
//! A kubeconfig that was read and written anew had `"1.30"` where somebody had written `1.30`. So entries that
//! change are cut out of the text or put into it, and the result must mean exactly what was asked for.

use std::ops::Range;

use serde_json::{Map, Value, json};
use yaml::Document;

use super::LISTS;

/// The value of a kubeconfig's text. JSON is read as such, since a number with a point is a number there.
pub fn parse(text: &str) -> Result<Value, yaml::YamlError> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) => yaml::parse(text).map(|document| document.value),
    }
}

/// The text of `before` changed so that it means `after`; `None` if its entries do not each begin on a line of their own.
pub fn changed(before: &str, after: &Value) -> Option<String> {
    if before.trim().is_empty() || serde_json::from_str::<Value>(before).is_ok() {
        return Some(yaml::document(after)); // there are no comments, and types are those of JSON
    }
    let document = yaml::parse(before).ok()?;
    let mut text = KubeconfigLines::new(before, &document)?;
    for (list, _) in LISTS {
        text.change_list(list, &after[list])?;
    }
    for (key, value) in after.as_object()? {
        let is_list = LISTS.iter().any(|(list, _)| list == key);
        if !is_list && document.value[key] != *value {
            text.set(key, value);
        }
    }
    let changed = text.finish();
    let means = yaml::parse(&changed).ok()?.value;
    (means == *after).then_some(changed)
}

/// A text, and what becomes of its lines.
struct KubeconfigLines<'a> {
    lines: Vec<&'a str>,
    document: &'a Document,
    content: &'a Map<String, Value>,
    /// Lines, counted from 0, and what stands in their place.
    changes: Vec<(Range<usize>, String)>,
    /// What is added at the end.
    added: String,
}

impl<'a> KubeconfigLines<'a> {
    fn new(text: &'a str, document: &'a Document) -> Option<Self> {
        Some(Self {
            lines: text.split_inclusive('\n').collect(),
            document,
            content: document.value.as_object()?,
            changes: Vec::new(),
            added: String::new(),
        })
    }

    /// The lines of a key of the outermost level, without the comments before the next one.
    fn lines_of(&self, key: &str) -> Option<Range<usize>> {
        self.content.get(key)?;
        let first = self.document.line(key)? - 1;
        let keys = self.content.keys();
        let starts = keys.filter_map(|other| Some(self.document.line(other)? - 1));
        let next = starts.filter(|start| *start > first).min();
        let end = next.unwrap_or(self.lines.len());
        Some(first..self.without_comments(first, end))
    }

    /// The end of what begins at `first`, before the comments and empty lines that precede `end`.
    fn without_comments(&self, first: usize, end: usize) -> usize {
        let says = |line: &&str| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        };
        let last = self.lines[first..end].iter().rposition(says).unwrap_or(0);
        first + last + 1
    }

    /// Writes a whole key anew, or adds it.
    fn set(&mut self, key: &str, value: &Value) {
        let text = yaml::document(&json!({key: value}));
        match self.lines_of(key) {
            Some(place) => self.changes.push((place, text)),
            None => self.added.push_str(&text),
        }
    }

    fn change_list(&mut self, list: &str, after: &Value) -> Option<()> {
        if self.document.value[list] == *after {
            return Some(());
        }
        let new = after.as_array()?;
        let old = self.document.value[list].as_array();
        let Some(old) = old.filter(|old| !old.is_empty() && !new.is_empty()) else {
            self.set(list, after);
            return Some(());
        };
        let whole = self.lines_of(list)?;
        let begins = |number: usize| Some(self.document.line(&format!("{list}[{number}]"))? - 1);
        let mut starts = (0..old.len()).map(begins).collect::<Option<Vec<_>>>()?;
        let dash = |start: &usize| self.lines[*start].trim_start().starts_with("- ");
        if !starts.iter().all(dash) {
            return None;
        }
        let first = self.lines[starts[0]];
        let indent = &first[..first.len() - first.trim_start().len()];
        starts.push(whole.end);
        let mut changes = Vec::new();
        for (entry, pair) in old.iter().zip(starts.windows(2)) {
            let place = pair[0]..self.without_comments(pair[0], pair[1]);
            match new.iter().find(|other| other["name"] == entry["name"]) {
                Some(same) if same == entry => {}
                Some(other) => changes.push((place, written(other, indent))),
                None => changes.push((place, String::new())),
            }
        }
        let is_new = |entry: &&Value| old.iter().all(|other| other["name"] != entry["name"]);
        let more: String = new
            .iter()
            .filter(is_new)
            .map(|entry| written(entry, indent))
            .collect();
        changes.push((whole.end..whole.end, more));
        self.changes.extend(changes);
        Some(())
    }

    fn finish(mut self) -> String {
        self.changes
            .sort_by_key(|(place, _)| (place.start, place.end));
        let mut text = String::new();
        let mut next = 0;
        let copy = |text: &mut String, lines: &[&str]| {
            for line in lines {
                text.push_str(line);
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
        };
        for (place, new) in &self.changes {
            copy(&mut text, &self.lines[next..place.start.max(next)]);
            text.push_str(new);
            next = next.max(place.end);
        }
        copy(&mut text, &self.lines[next..]);
        text.push_str(&self.added);
        text
    }
}

/// An entry of a list, as lines that begin with `indent`.
fn written(entry: &Value, indent: &str) -> String {
    let text = yaml::document(&json!([entry]));
    text.lines()
        .map(|line| format!("{indent}{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterKey, eks, merge, remove};
    use super::*;
    use crate::kubeconfig::ApiEndpoint;
    use crate::spec::ClusterSpec;

    const KEY: ClusterKey<'_> = ClusterKey {
        id: "a",
        name: "demo",
    };

    const THEIRS: &str = "\
# mine
apiVersion: v1
kind: Config
preferences: {colors: True}
clusters:
# the old one
- cluster:
    server: https://theirs
    proxy: ~
  name: theirs
  weight: 1.30
  since: 2024-01-02
contexts:
  - context: {cluster: theirs, user: theirs, namespace: \"007\"}
    name: theirs
    ports: [0x1F, 010, 1e3, .5, yes]

# who
users:
- name: theirs
  user:
    token: 12345678901234567890
current-context: theirs # for now
";

    fn ours() -> Value {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.id = Some("a".to_owned());
        let endpoint = ApiEndpoint {
            server: "https://x".to_owned(),
            certificate_authority: "Q0E=".to_owned(),
        };
        eks(&spec, &endpoint, "canoe")
    }

    fn merged(text: &str) -> String {
        let after = merge(parse(text).unwrap(), &ours(), KEY).unwrap();
        changed(text, &after).unwrap()
    }

    /// `1.30`, a date and `0x1F` became texts, and comments were lost.
    #[test]
    fn what_is_not_ours_keeps_its_bytes() {
        let text = merged(THEIRS);
        let lost = THEIRS.lines().filter(|line| !text.contains(line));
        assert_eq!(
            lost.collect::<Vec<_>>(),
            ["current-context: theirs # for now"],
            "{text}"
        );
        assert!(
            text.contains("\n- cluster:\n    certificate-authority-data"),
            "{text}"
        );
        assert!(
            text.contains("\n  - context:\n      cluster: demo"),
            "{text}"
        );
        assert_eq!(merged(&text), text, "twice is once");
        let left = remove(&parse(&text).unwrap(), KEY).unwrap();
        let back = changed(&text, &left.config).unwrap();
        let gone = THEIRS.replace("current-context: theirs # for now", "current-context: \"\"");
        assert_eq!(back, gone);
    }

    #[test]
    fn empty_and_missing_lists_are_filled_and_emptied() {
        for text in [
            "",
            "apiVersion: v1\nkind: Config\n",
            "kind: Config\nclusters: []\nusers:\ncontexts: null\ncurrent-context: \"\"",
            "{\"kind\": \"Config\", \"clusters\": [], \"ratio\": 1.5}",
        ] {
            let merged = merged(text);
            assert_eq!(
                parse(&merged).unwrap()["clusters"][0]["name"],
                "demo",
                "{merged}"
            );
            let left = remove(&parse(&merged).unwrap(), KEY).unwrap().config;
            let back = changed(&merged, &left).unwrap();
            assert_eq!(parse(&back).unwrap()["users"], json!([]), "{back}");
        }
        let number = merged("{\"kind\": \"Config\", \"ratio\": 1.5}");
        assert!(number.contains("ratio: 1.5\n"), "{number}");
    }

    #[test]
    fn what_cannot_be_changed_by_lines_is_left_alone() {
        let text = "kind: Config\nclusters: [{name: theirs, ratio: 1.5}]\n";
        let after = merge(parse(text).unwrap(), &ours(), KEY).unwrap();
        assert_eq!(changed(text, &after), None);
    }
}
