//! Writes the commented `cluster.yaml`: every key is visible, set or not, with what it means.

use serde_json::Value;

use super::ClusterSpec;
use super::fields::{FIELDS, SpecField};

/// The file for this spec. Reading it back gives the same spec.
pub fn write(spec: &ClusterSpec) -> String {
    let value = serde_json::to_value(spec).expect("a spec has only text keys");
    let mut out = String::from(
        "# A Canoe cluster. `canoe cluster validate` checks this file, `canoe cluster up` makes it so.\n",
    );
    let mut section = "";
    for field in FIELDS {
        let (name, key, indent) = match field.path.split_once('.') {
            Some((name, key)) => (name, key, "  "),
            None => ("", field.path, ""),
        };
        if name != section {
            section = name;
            if !name.is_empty() {
                out.push_str(&format!("\n{name}:\n"));
            }
        }
        entry(
            &mut out,
            field,
            key,
            indent,
            value.pointer(&format!("/{}", field.path.replace('.', "/"))),
        );
    }
    out
}

/// The file `text` with another number of workers; everything else, comments included, stays.
///
/// `None` when the file has no line `count: N` that could be edited.
pub fn with_workers(text: &str, count: u32) -> Option<String> {
    let line = yaml::parse(text).ok()?.line("workers.count")?;
    let old = text.split('\n').nth(line.checked_sub(1)?)?;
    let at = old.find("count:")? + "count:".len();
    let digits = old[at..].find(|c: char| c.is_ascii_digit())? + at;
    let end = old[digits..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(old.len(), |offset| digits + offset);
    let new = format!("{}{count}{}", &old[..digits], &old[end..]);
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines[line - 1] = &new;
    Some(lines.join("\n"))
}

/// The file `text` with `path` (such as `storage.fileSystemId`) set; everything else stays.
///
/// Replaces the key's line, or its commented line, or adds one. `None` when the file is written in a
/// way that leaves no line for it (a section on one line).
pub fn with_text(text: &str, path: &str, value: &str) -> Option<String> {
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let indent = if section.is_empty() { "" } else { "  " };
    let new = format!("{indent}{key}: {}", scalar(value));
    set_line(text, path, &new, &Value::from(value))
}

/// Puts `new` in the place of the line of `path`, which must then read as `value`.
fn set_line(text: &str, path: &str, new: &str, value: &Value) -> Option<String> {
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let indent = if section.is_empty() { "" } else { "  " };
    let new = new.to_owned();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let commented = |line: &String| {
        line.starts_with(indent)
            && line
                .trim_start()
                .strip_prefix("# ")
                .is_some_and(|rest| rest.starts_with(&format!("{key}: ")))
    };
    let pointer = format!("/{}", path.replace('.', "/"));
    let before = yaml::parse(text).ok()?;
    let set = before.value.pointer(&pointer).and(before.line(path));
    let header = |line: &String| line.trim_end() == format!("{section}:");
    if let Some(line) = set {
        *lines.get_mut(line.checked_sub(1)?)? = new;
    } else if let Some(at) = lines.iter().position(commented) {
        lines[at] = new;
    } else if section.is_empty() {
        lines.push(new + "\n");
    } else {
        let at = lines.iter().position(header)?;
        lines.insert(at + 1, new);
    }
    let edited = lines.join("\n");
    let read = yaml::parse(&edited).ok()?.value;
    (read.pointer(&pointer)? == value).then_some(edited)
}

/// The file `text` with `path`, a number that it has, replaced; everything else stays.
pub fn with_number(text: &str, path: &str, value: u32) -> Option<String> {
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let indent = if section.is_empty() { "" } else { "  " };
    set_line(
        text,
        path,
        &format!("{indent}{key}: {value}"),
        &Value::from(value),
    )
}

/// The file `text` with `path` set to a table of texts; everything else stays.
pub(crate) fn with_table(
    text: &str,
    path: &str,
    table: &std::collections::BTreeMap<String, String>,
) -> Option<String> {
    let value = serde_json::to_value(table).ok()?;
    set_line(text, path, &format!("{path}: {}", flow(&value)), &value)
}

/// The text at `path`, if the file can be read and has one.
pub(crate) fn text_at(text: &str, path: &str) -> Option<String> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let document = yaml::parse(text).ok()?;
    document
        .value
        .pointer(&pointer)?
        .as_str()
        .map(str::to_owned)
}

/// The file `text` with the line of `path` commented out; as it is when there is no such line.
pub fn without(text: &str, path: &str) -> String {
    let pointer = format!("/{}", path.replace('.', "/"));
    let Ok(before) = yaml::parse(text) else {
        return text.to_owned();
    };
    let line = before.value.pointer(&pointer).and(before.line(path));
    let key = path.rsplit('.').next().unwrap_or(path);
    let edit = |(number, old): (usize, &str)| {
        let bare = old.trim_start();
        if Some(number) == line && bare.starts_with(&format!("{key}:")) {
            format!("{}# {bare}", &old[..old.len() - bare.len()])
        } else {
            old.to_owned()
        }
    };
    let lines: Vec<String> = (1..).zip(text.split('\n')).map(edit).collect();
    lines.join("\n")
}

fn entry(out: &mut String, field: &SpecField, key: &str, indent: &str, value: Option<&Value>) {
    if indent.is_empty() {
        out.push('\n');
    }
    for line in field.about.lines() {
        out.push_str(&format!("{indent}# {line}\n"));
    }
    match value {
        Some(value) => out.push_str(&format!("{indent}{key}: {}\n", flow(value))),
        None => out.push_str(&format!("{indent}# {key}: {}\n", field.example)),
    }
}

/// A value on one line, quoted only where YAML needs it.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(flow).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(k, v)| format!("{}: {}", scalar(k), flow(v)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// JSON strings are YAML double-quoted scalars, so quoting is always safe; plain words read better.
fn scalar(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && !["true", "false", "null", "yes", "no", "on", "off"]
            .contains(&text.to_ascii_lowercase().as_str());
    let network = text.parse::<crate::cidr::Cidr>().is_ok();
    if plain || network {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Capacity, ControlPlaneMode, Egress, read};

    #[test]
    fn what_is_written_reads_back() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        assert_eq!(read(&write(&spec)).unwrap().spec, spec);
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
        spec.workers.capacity = Capacity::Spot;
        spec.network.egress = Egress::Public;
        spec.ssh_key_name = Some("my key: #1".to_owned());
        spec.dns.external_name = Some("paddle.example.com".to_owned());
        spec.tags.insert("cost centre".to_owned(), "yes".to_owned());
        spec.tags.insert("ratio".to_owned(), "1.50".to_owned());
        assert_eq!(read(&write(&spec)).unwrap().spec, spec);
    }

    #[test]
    fn scaling_edits_one_number_and_nothing_else() {
        let text = write(&ClusterSpec::new("demo", "us-west-2"));
        let scaled = with_workers(&text, 7).unwrap();
        assert_eq!(scaled, text.replace("count: 3", "count: 7"));
        assert_eq!(
            with_workers("workers: {count: 3, max: 4} # c\r\n", 12).unwrap(),
            "workers: {count: 12, max: 4} # c\r\n"
        );
        assert_eq!(with_workers("workers: 3\n", 4), None);
    }

    #[test]
    fn setting_a_text_edits_its_line_and_nothing_else() {
        let text = write(&ClusterSpec::new("demo", "us-west-2"));
        let kept = with_text(&text, "storage.fileSystemId", "fs-0123456789abcdef0").unwrap();
        let spec = read(&kept).unwrap().spec;
        assert_eq!(
            spec.storage.file_system_id.as_deref(),
            Some("fs-0123456789abcdef0")
        );
        assert_eq!(kept.lines().count(), text.lines().count());
        let again = with_text(&kept, "storage.fileSystemId", "fs-1").unwrap();
        assert!(
            again.contains("  fileSystemId: fs-1\n") && !again.contains("fs-0123456789abcdef0")
        );
        let arn = "arn:aws:kms:us-west-2:123456789012:key/1";
        assert_eq!(
            read(&with_text(&kept, "kmsKeyArn", arn).unwrap())
                .unwrap()
                .spec
                .kms_key_arn
                .as_deref(),
            Some(arn)
        );
        let gone = without(&kept, "storage.fileSystemId");
        assert_eq!(read(&gone).unwrap().spec.storage.file_system_id, None);
        assert_eq!(without(&gone, "storage.fileSystemId"), gone);
        let bare = "storage:\n  uid: 5\n";
        assert_eq!(
            with_text(bare, "storage.fileSystemId", "fs-1").unwrap(),
            "storage:\n  fileSystemId: fs-1\n  uid: 5\n"
        );
        assert_eq!(
            with_text(bare, "kmsKeyArn", "k").unwrap(),
            "storage:\n  uid: 5\n\nkmsKeyArn: k\n"
        );
        assert_eq!(
            with_text("storage: {uid: 5}\n", "storage.fileSystemId", "fs-1"),
            None
        );
    }

    #[test]
    fn every_key_stands_in_the_file() {
        let text = write(&ClusterSpec::new("demo", "us-west-2"));
        for field in FIELDS {
            let key = field.path.rsplit('.').next().unwrap();
            assert!(
                text.contains(&format!("{key}:")),
                "{} is not in the file",
                field.path
            );
        }
        assert!(text.contains("kubernetesVersion: \"1.35\""));
        assert!(text.contains("# sshKeyName: my-key"));
    }
}
