//! v1's sub-commands, translated to ours: under the name `paddle`, or after `canoe paddle`.

use std::path::Path;

/// The arguments, program name first, with the sub-commands that have other names in v1 replaced.
pub(crate) fn translate(args: Vec<String>) -> Vec<String> {
    let program = args.first().map(Path::new);
    let named = program
        .and_then(Path::file_name)
        .is_some_and(|name| name == "paddle");
    let theirs = match args.get(1).map(String::as_str) {
        _ if named => &args[1..],
        Some("paddle") => &args[2..],
        _ => return args,
    };
    let rest = theirs.get(1..).unwrap_or_default();
    let translated: Vec<String> = match theirs.first().map(String::as_str) {
        Some("dump_config") => dump(rest),
        Some("make_diagram") => diagram(rest),
        Some("version") => vec!["--version".to_owned()],
        // v1 kept every pass and never ended early; flags that follow win.
        Some("train") => {
            let flags = ["train", "--keep=all", "--patience=0"].map(str::to_owned);
            flags.into_iter().chain(rest.iter().cloned()).collect()
        }
        Some("pserver" | "merge_model" | "usage") => theirs.to_vec(),
        _ if named => theirs.to_vec(),
        _ => return args,
    };
    std::iter::once("canoe".to_owned())
        .chain(translated)
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(' ').map(str::to_owned)
}

/// `CONFIG [ARGS] [--whole | --binary]`: in v1 the second word was the configuration's arguments.
fn dump(rest: &[String]) -> Vec<String> {
    let mut out: Vec<String> = words("config dump").collect();
    let mut plain = rest.iter().filter(|word| !word.starts_with("--"));
    out.extend(plain.next().cloned());
    out.extend(plain.next().map(|args| format!("--config-args={args}")));
    let flags = rest.iter().filter(|word| word.starts_with("--"));
    out.extend(flags.cloned());
    out
}

/// `CONFIG OUT.dot [ARGS]`: the drawing is written, not printed.
fn diagram(rest: &[String]) -> Vec<String> {
    let mut out: Vec<String> = words("config diagram --output=dot").collect();
    out.extend(rest.first().cloned());
    out.extend(rest.get(1).map(|file| format!("--to={file}")));
    out.extend(rest.get(2).map(|args| format!("--config-args={args}")));
    out
}

#[cfg(test)]
mod tests {
    use super::translate;

    fn said(line: &str) -> String {
        let words = line.split_whitespace().map(str::to_owned).collect();
        translate(words).join(" ")
    }

    #[test]
    fn v1_commands_keep_working() {
        for (typed, want) in [
            (
                "/usr/bin/paddle train --config=c.py",
                "canoe train --keep=all --patience=0 --config=c.py",
            ),
            (
                "canoe paddle train --config=c.py",
                "canoe train --keep=all --patience=0 --config=c.py",
            ),
            (
                "paddle dump_config c.py is_predict=1 --whole",
                "canoe config dump c.py --config-args=is_predict=1 --whole",
            ),
            (
                "canoe paddle dump_config c.py --binary",
                "canoe config dump c.py --binary",
            ),
            (
                "paddle make_diagram c.py net.dot is_predict=1",
                "canoe config diagram --output=dot c.py --to=net.dot --config-args=is_predict=1",
            ),
            ("paddle version", "canoe --version"),
            (
                "paddle usage -l train.log -e 0",
                "canoe usage -l train.log -e 0",
            ),
            (
                "paddle merge_model --model_dir=d",
                "canoe merge_model --model_dir=d",
            ),
            ("paddle --help", "canoe --help"),
            ("paddle", "canoe"),
            ("canoe paddle", "canoe paddle"),
            ("canoe paddle link bin", "canoe paddle link bin"),
            ("canoe dump_config c.py", "canoe dump_config c.py"),
        ] {
            assert_eq!(said(typed), want);
        }
    }
}
