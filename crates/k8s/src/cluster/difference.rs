//! Compares the objects that a submit wants with those that exist. Pure.
//!
//! A dry run cannot do this: the server refuses every change of a Job's template. Only the fields that submit
//! sets are compared; fields that the server adds by itself are no difference.

use serde_json::Value;

use crate::check::{amount, is_quantity};

/// A line for each difference; empty if everything that is wanted exists.
pub(crate) fn differences(wanted: &[Value], there: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for object in wanted {
        let same = |other: &&Value| {
            ["/kind", "/metadata/name"]
                .iter()
                .all(|pointer| other.pointer(pointer) == object.pointer(pointer))
        };
        let name = format!(
            "{} {}",
            word(&object["kind"]),
            word(&object["metadata"]["name"])
        );
        match there.iter().find(same) {
            None => found.push(format!("{name}: is not there")),
            Some(other) => compare(&name, object, other, &mut found),
        }
    }
    found
}

fn compare(path: &str, wanted: &Value, there: &Value, found: &mut Vec<String>) {
    match (wanted, there) {
        (Value::Object(fields), Value::Object(others)) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                match others.get(key) {
                    Some(other) => compare(&path, value, other, found),
                    // Servers leave out what is empty.
                    None if is_empty(value) => {}
                    None => found.push(format!("{path}: {} is wanted", short(value))),
                }
            }
        }
        (Value::Array(items), Value::Array(others)) if named(items) && named(others) => {
            compare_named(path, items, others, found);
        }
        // Queues add tolerations for the machines that they choose; an additional one never keeps a pod from running.
        (Value::Array(items), Value::Array(others)) if path.ends_with(".tolerations") => {
            let missing = items.iter().filter(|item| !others.contains(item));
            found.extend(missing.map(|item| format!("{path}: {} is wanted", short(item))));
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                compare(&format!("{path}[{index}]"), item, other, found);
            }
        }
        (Value::Array(items), Value::Array(others)) if plain(items) && plain(others) => {
            let missing = items.iter().filter(|item| !others.contains(item));
            found.extend(missing.map(|item| format!("{path}: {} is wanted", short(item))));
            let extra = others.iter().filter(|other| !items.contains(other));
            found.extend(
                extra.map(|other| format!("{path}: {} is there, but not wanted", short(other))),
            );
        }
        _ if is_same(wanted, there) => {}
        (Value::String(text), _) if text.contains('\n') => found.push(format!("{path}: differs")),
        _ => found.push(format!(
            "{path}: {} is there, {} is wanted",
            short(there),
            short(wanted)
        )),
    }
}

fn compare_named(path: &str, items: &[Value], others: &[Value], found: &mut Vec<String>) {
    for item in items {
        let path = format!("{path}[{}]", word(&item["name"]));
        match others.iter().find(|other| other["name"] == item["name"]) {
            Some(other) => compare(&path, item, other, found),
            None => found.push(format!("{path}: is not there")),
        }
    }
    let is_known = |other: &&Value| items.iter().any(|item| item["name"] == other["name"]);
    for other in others.iter().filter(|other| !is_known(other)) {
        // The Job controller sets this one; no manifest has it.
        if other["name"] != "JOB_COMPLETION_INDEX" {
            found.push(format!(
                "{path}[{}]: is there, but not wanted",
                word(&other["name"])
            ));
        }
    }
}

/// Whether all elements have distinct names; several mounts of one volume do not.
fn named(items: &[Value]) -> bool {
    let mut names: Vec<&str> = items
        .iter()
        .filter_map(|item| item["name"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    !items.is_empty() && names.len() == items.len()
}

/// Whether all elements are distinct texts or numbers, so that they can be compared as sets.
fn plain(items: &[Value]) -> bool {
    let is_plain = |item: &Value| item.is_string() || item.is_number();
    let is_first = |(index, item): (usize, &Value)| !items[..index].contains(item);
    items.iter().all(is_plain) && items.iter().enumerate().all(is_first)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
    }
}

/// Whether two values are equal. Servers rewrite quantities, such as `1024Mi` as `1Gi`.
fn is_same(wanted: &Value, there: &Value) -> bool {
    if wanted == there {
        return true;
    }
    match (wanted.as_str(), there.as_str()) {
        (Some(wanted), Some(there)) if is_quantity(wanted) && is_quantity(there) => {
            amount(wanted) == amount(there)
        }
        _ => false,
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 80 {
        text.chars().take(77).collect::<String>() + "..."
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(completions: u32, memory: &str) -> Value {
        json!({
            "kind": "Job",
            "metadata": {"name": "ctr"},
            "spec": {"completions": completions, "template": {"spec": {"containers": [{
                "name": "node",
                "args": ["node"],
                "env": [{"name": "JOB_NAME", "value": "ctr"}],
                "resources": {"limits": {"memory": memory}},
            }]}}},
        })
    }

    #[test]
    fn what_a_server_adds_is_no_difference() {
        let mut there = job(3, "1Gi");
        there["spec"]["backoffLimit"] = json!(6);
        there["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        there["status"] = json!({"active": 3});
        assert_eq!(differences(&[job(3, "1024Mi")], &[there]), [""; 0]);
    }

    /// As Kueue leaves a Job that it has admitted.
    #[test]
    fn machines_that_a_queue_chose_are_no_difference() {
        let with = |selector: Value, tolerations: Value| {
            let mut job = job(3, "1Gi");
            let pod = &mut job["spec"]["template"]["spec"];
            pod["nodeSelector"] = selector;
            pod["tolerations"] = tolerations;
            job
        };
        let own = json!({"key": "own", "operator": "Exists"});
        let flavor = json!({"key": "spot", "operator": "Equal", "value": "true"});
        let arch = json!({"kubernetes.io/arch": "amd64"});
        let wanted = [with(arch, json!([own]))];
        let chosen = json!({"kubernetes.io/arch": "amd64", "pool": "spot"});
        let there = with(chosen.clone(), json!([flavor, own]));
        assert_eq!(differences(&wanted, &[there]), [""; 0]);
        assert_eq!(
            differences(&wanted, &[with(chosen, json!([flavor]))]),
            [
                "Job ctr.spec.template.spec.tolerations: {\"key\":\"own\",\"operator\":\"Exists\"} is wanted"
            ]
        );
    }

    #[test]
    fn each_difference_is_named_with_its_place() {
        let mut there = job(3, "1Gi");
        there["spec"]["template"]["spec"]["containers"][0]["env"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "OLD", "value": "1"}));
        let map = |text: &str| json!({"kind": "ConfigMap", "metadata": {"name": "ctr"}, "data": {"a.py": text}});
        let wanted = [
            job(5, "2Gi"),
            map("a\nb\n"),
            json!({"kind": "Service", "metadata": {"name": "ctr"}}),
        ];
        assert_eq!(
            differences(&wanted, &[there, map("a\nc\n")]),
            [
                "Job ctr.spec.completions: 3 is there, 5 is wanted",
                "Job ctr.spec.template.spec.containers[node].env[OLD]: is there, but not wanted",
                "Job ctr.spec.template.spec.containers[node].resources.limits.memory: \"1Gi\" is there, \"2Gi\" is wanted",
                "ConfigMap ctr.data.a.py: differs",
                "Service ctr: is not there",
            ]
        );
    }

    #[test]
    fn an_argument_more_is_named_and_not_the_whole_line() {
        let with = |args: Value| {
            let mut job = job(3, "1Gi");
            job["spec"]["template"]["spec"]["containers"][0]["args"] = args;
            job
        };
        let common = "--a-flag-that-is-so-long-that-a-line-of-eighty-characters-ends-in-it=1";
        let wanted = [with(json!(["node", common, "--grace=50"]))];
        let there = [with(json!([
            "node",
            common,
            "--grace=50",
            "--num_passes=2"
        ]))];
        let place = "Job ctr.spec.template.spec.containers[node].args";
        assert_eq!(
            differences(&wanted, &there),
            [format!(
                "{place}: \"--num_passes=2\" is there, but not wanted"
            )]
        );
        assert_eq!(
            differences(&there, &wanted),
            [format!("{place}: \"--num_passes=2\" is wanted")]
        );
    }

    #[test]
    fn quantities_are_compared_by_what_they_mean() {
        for (one, other) in [
            ("1Gi", "1024Mi"),
            ("0.5", "500m"),
            ("2000m", "2"),
            ("1k", "1000"),
            ("1Ti", "1024Gi"),
        ] {
            assert_eq!(amount(one), amount(other), "{one} {other}");
        }
        assert_ne!(amount("1G"), amount("1Gi"));
    }
}
