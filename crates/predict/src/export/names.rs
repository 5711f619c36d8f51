//! Readable names of parameters, such as `fc_layer_0.weight` for v1's `___fc_layer_0__.w0`.

use std::collections::HashMap;

/// A readable name for each of v1's names. They are distinct: where two would be equal, all of these keep v1's name.
pub fn readable<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for name in names.clone() {
        *count.entry(simple(name)).or_default() += 1;
        // A readable name that is another parameter's own v1 name is not used.
        if simple(name) != name {
            *count.entry(name.to_owned()).or_default() += 1;
        }
    }
    names
        .map(|name| {
            let simple = simple(name);
            if count.get(&simple) == Some(&1) {
                simple
            } else {
                name.to_owned()
            }
        })
        .collect()
}

/// `_layer.w0` is the weight of the first input of a layer, `_layer.wbias` its bias; unnamed layers have two
/// underscores at both ends.
fn simple(name: &str) -> String {
    let Some((layer, what)) = name
        .strip_prefix('_')
        .and_then(|rest| rest.rsplit_once('.'))
    else {
        return name.to_owned();
    };
    let inner = layer.strip_prefix("__").and_then(|l| l.strip_suffix("__"));
    let layer = inner.unwrap_or(layer);
    match what {
        "wbias" => format!("{layer}.bias"),
        "w0" => format!("{layer}.weight"),
        what => match what.strip_prefix('w').map(str::parse::<u32>) {
            Some(Ok(number)) => format!("{layer}.weight{number}"),
            _ => name.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_v1_become_readable_and_stay_distinct() {
        let names = [
            "___embedding_0__.w0",
            "___fc_layer_0__.w1",
            "_hidden.wbias",
            "emb",
            "_x.w0",
            "___x__.w0",
        ];
        assert_eq!(
            readable(names.into_iter()),
            [
                "embedding_0.weight",
                "fc_layer_0.weight1",
                "hidden.bias",
                "emb",
                "_x.w0",
                "___x__.w0"
            ]
        );
    }
}
