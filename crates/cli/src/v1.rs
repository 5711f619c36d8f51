//! v1's sub-commands, translated to ours: under the name `paddle`, or after `canoe paddle`.

use std::path::Path;

use clap::CommandFactory;

/// v1's sub-commands.
const COMMANDS: [&str; 7] = [
    "train",
    "pserver",
    "merge_model",
    "dump_config",
    "make_diagram",
    "version",
    "usage",
];

/// A sub-command of v1 cannot be translated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misused {
    /// It lacks arguments.
    #[error("usage: paddle {0}")]
    Arguments(&'static str),
    /// Neither v1 nor canoe has it.
    #[error("paddle: there is no command '{typed}'{meant}; v1's commands are {}", COMMANDS.join(", "))]
    Unknown {
        typed: String,
        /// Empty, or a guess in parentheses.
        meant: String,
    },
}

fn is_paddle(args: &[String]) -> bool {
    let program = args.first().map(Path::new);
    program
        .and_then(Path::file_name)
        .is_some_and(|name| name == "paddle")
}

/// A command as the user typed it: `paddle train` or `canoe train`.
pub(crate) fn typed(command: &str) -> String {
    let args: Vec<String> = std::env::args().take(2).collect();
    match is_paddle(&args) || args.get(1).is_some_and(|word| word == "paddle") {
        true => format!("paddle {command}"),
        false => format!("canoe {command}"),
    }
}

/// The arguments, program name first, with the sub-commands that have other names in v1 replaced.
pub(crate) fn translate(args: Vec<String>) -> Result<Vec<String>, Misused> {
    let named = is_paddle(&args);
    let theirs = match args.get(1).map(String::as_str) {
        _ if named => &args[1..],
        Some("paddle") => &args[2..],
        _ => return Ok(args),
    };
    let rest = theirs.get(1..).unwrap_or_default();
    let translated: Vec<String> = match theirs.first().map(String::as_str) {
        Some("dump_config") if rest.is_empty() => {
            return Err(Misused::Arguments(
                "dump_config CONFIG [ARGUMENTS] [--whole] [--binary]",
            ));
        }
        Some("make_diagram") if rest.is_empty() => {
            return Err(Misused::Arguments(
                "make_diagram CONFIG OUT.dot [ARGUMENTS]",
            ));
        }
        Some("dump_config") => dump(rest),
        Some("make_diagram") => diagram(rest),
        Some("version") => vec!["--version".to_owned()],
        // v1 kept every pass and never ended early; flags that follow win.
        Some("train") => {
            let flags = ["train", "--keep=all", "--patience=0"].map(str::to_owned);
            flags.into_iter().chain(rest.iter().cloned()).collect()
        }
        Some("pserver" | "merge_model" | "usage") => theirs.to_vec(),
        Some(word) if !is_ours(word, named) => {
            return Err(Misused::Unknown {
                typed: word.to_owned(),
                meant: words::guess::nearest(word, COMMANDS)
                    .map(|name| format!(" (did you mean '{name}'?)"))
                    .unwrap_or_default(),
            });
        }
        _ if named => theirs.to_vec(),
        _ => return Ok(args),
    };
    Ok(std::iter::once("canoe".to_owned())
        .chain(translated)
        .collect())
}

/// Whether a word is a command or an option of canoe itself, or of `canoe paddle`.
fn is_ours(word: &str, named: bool) -> bool {
    let program = crate::Cli::command();
    let level = if named {
        Some(&program)
    } else {
        program.find_subcommand("paddle")
    };
    word == "help"
        || word.starts_with('-')
        || level.is_some_and(|level| level.find_subcommand(word).is_some())
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
        translate(words).map_or_else(|error| error.to_string(), |words| words.join(" "))
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
            ("paddle job ls", "canoe job ls"),
            (
                "paddle make_diagram",
                "usage: paddle make_diagram CONFIG OUT.dot [ARGUMENTS]",
            ),
            (
                "canoe paddle tran",
                "paddle: there is no command 'tran' (did you mean 'train'?); v1's commands are train, pserver, merge_model, dump_config, make_diagram, version, usage",
            ),
        ] {
            assert_eq!(said(typed), want);
        }
    }
}
