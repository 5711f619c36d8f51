//! Started under the name `paddle`: v1's sub-commands in our words.

use std::path::Path;

/// The arguments, program name first, with the sub-commands that v1 named otherwise replaced.
pub fn translate(args: Vec<String>) -> Vec<String> {
    let program = args.first().map(Path::new);
    if program
        .and_then(Path::file_name)
        .is_none_or(|name| name != "paddle")
    {
        return args;
    }
    let rest: Vec<&str> = args.iter().skip(2).map(String::as_str).collect();
    let translated: Vec<String> = match args.get(1).map(String::as_str) {
        Some("dump_config") => config(&["config", "dump"], &rest),
        Some("make_diagram") => config(&["config", "diagram"], &rest[..rest.len().min(1)]),
        Some("version") => vec!["--version".to_owned()],
        _ => args[1..].to_vec(),
    };
    std::iter::once("canoe".to_owned())
        .chain(translated)
        .collect()
}

/// `FILE [ARGS] [--whole]`: the second word was the configuration's arguments.
fn config(command: &[&str], rest: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = command.iter().map(|s| (*s).to_owned()).collect();
    let mut words = rest.iter().filter(|word| !word.starts_with("--"));
    out.extend(words.next().map(|file| (*file).to_owned()));
    out.extend(words.next().map(|args| format!("--config-args={args}")));
    let flags = rest.iter().filter(|word| word.starts_with("--"));
    out.extend(flags.map(|flag| (*flag).to_owned()));
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
        assert_eq!(
            said("/usr/bin/paddle train --config=c.py"),
            "canoe train --config=c.py"
        );
        assert_eq!(
            said("paddle dump_config c.py is_predict=1 --whole"),
            "canoe config dump c.py --config-args=is_predict=1 --whole"
        );
        assert_eq!(
            said("paddle make_diagram c.py"),
            "canoe config diagram c.py"
        );
        assert_eq!(said("paddle version"), "canoe --version");
        assert_eq!(said("canoe dump_config c.py"), "canoe dump_config c.py");
    }
}
