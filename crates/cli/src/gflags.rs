//! What v1's programs understood besides their own flags, because they were linked with gflags and glog: flags from
//! files and from the environment, help under several names, and options of the log.
//!
//! `--flagfile=a,b` puts the flags of files in its place (one flag per line, `#` begins a comment, files may name
//! files); `--fromenv=a,b` those of the variables `FLAGS_a` and `FLAGS_b`, `--tryfromenv` only those that are set;
//! `--undefok=a,b` accepts flags of these names that do not exist.

use std::path::Path;

use crate::flags::FlagKind::{Bool, Int, Text};
use crate::flags::{FlagError, FlagTable, ignored};

/// How deep files of flags may name other files: a file that names itself would never end.
const DEEPEST: usize = 8;

const ONE_LOG: &str = "log lines go to standard error, and into the output folder with canoe run";
const NO_VERBOSE: &str = "there are no verbose lines; --log_period and --show_layer_stat show more";
const NO_MAIL: &str = "no mail is sent";

/// The flags of glog and gflags that are accepted.
pub(crate) const GFLAGS: FlagTable = &[
    ignored("v", Int, "0", NO_VERBOSE),
    ignored("vmodule", Text, "", NO_VERBOSE),
    ignored("logtostderr", Bool, "true", ONE_LOG),
    ignored("alsologtostderr", Bool, "false", ONE_LOG),
    ignored("colorlogtostderr", Bool, "false", ONE_LOG),
    ignored("stderrthreshold", Int, "0", ONE_LOG),
    ignored("minloglevel", Int, "0", ONE_LOG),
    ignored("log_dir", Text, "", ONE_LOG),
    ignored("log_link", Text, "", ONE_LOG),
    ignored("log_prefix", Bool, "true", ONE_LOG),
    ignored("logbuflevel", Int, "0", ONE_LOG),
    ignored("logbufsecs", Int, "30", ONE_LOG),
    ignored("max_log_size", Int, "1800", ONE_LOG),
    ignored("stop_logging_if_full_disk", Bool, "false", ONE_LOG),
    ignored("drop_log_memory", Bool, "true", ONE_LOG),
    ignored("log_backtrace_at", Text, "", NO_VERBOSE),
    ignored("symbolize_stacktrace", Bool, "true", NO_VERBOSE),
    ignored("alsologtoemail", Text, "", NO_MAIL),
    ignored("logemaillevel", Int, "999", NO_MAIL),
    ignored("logmailer", Text, "", NO_MAIL),
];

/// Names under which gflags printed help.
const HELP: [&str; 6] = [
    "helpfull",
    "helpshort",
    "helpon",
    "helpmatch",
    "helppackage",
    "helpxml",
];

/// Where flags come from besides the command line. A value, so that tests need neither files nor variables.
pub(crate) struct Outside<'a> {
    /// Reads a file of flags.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Default for Outside<'_> {
    fn default() -> Self {
        Self {
            read: &|path| std::fs::read_to_string(path),
            variable: &|name| std::env::var(name).ok(),
        }
    }
}

/// A command line in which files and variables are replaced by the flags that they contain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    /// Flags in the order in which they apply: the last of two wins.
    pub args: Vec<String>,
    /// Names of flags that need not exist.
    pub undefined_ok: Vec<String>,
}

/// Replaces `--flagfile`, `--fromenv` and their like by the flags that they stand for.
pub(crate) fn expand(args: &[String], outside: &Outside<'_>) -> Result<Expanded, FlagError> {
    let mut expanded = Expanded::default();
    add(args, outside, 0, &mut expanded)?;
    Ok(expanded)
}

fn add(
    args: &[String],
    outside: &Outside<'_>,
    depth: usize,
    to: &mut Expanded,
) -> Result<(), FlagError> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let body = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
        let (name, value) = body
            .map(|body| body.split_once('=').unwrap_or((body, "")))
            .unwrap_or_default();
        if HELP.contains(&name) {
            to.args.push("--help".to_owned());
            continue;
        }
        if !["flagfile", "fromenv", "tryfromenv", "undefok"].contains(&name) {
            to.args.push(arg.clone());
            continue;
        }
        let value = match (arg.contains('='), rest.as_slice().first()) {
            (false, Some(next)) => {
                rest.next();
                next.as_str()
            }
            (true, _) => value,
            (false, None) => {
                return Err(FlagError::Indirect(format!("--{name} needs a value")));
            }
        };
        let items = value
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        for item in items {
            match name {
                "flagfile" => add_file(item, outside, depth, to)?,
                "undefok" => to.undefined_ok.push(item.to_owned()),
                _ => add_variable(item, name == "fromenv", outside, to)?,
            }
        }
    }
    Ok(())
}

fn add_file(
    name: &str,
    outside: &Outside<'_>,
    depth: usize,
    to: &mut Expanded,
) -> Result<(), FlagError> {
    if depth == DEEPEST {
        let text =
            format!("--flagfile={name}: files of flags name each other more than {DEEPEST} deep");
        return Err(FlagError::Indirect(text));
    }
    let text = (outside.read)(Path::new(name))
        .map_err(|error| FlagError::Indirect(format!("--flagfile={name}: {error}")))?;
    let mut flags = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with('-') {
            let text = format!(
                "{name}:{}: '{line}' is not a flag; lines that name programs are not supported",
                number + 1
            );
            return Err(FlagError::Indirect(text));
        }
        flags.push(line.to_owned());
    }
    add(&flags, outside, depth + 1, to)
}

fn add_variable(
    name: &str,
    needed: bool,
    outside: &Outside<'_>,
    to: &mut Expanded,
) -> Result<(), FlagError> {
    let variable = format!("FLAGS_{name}");
    match (outside.variable)(&variable) {
        Some(value) => to.args.push(format!("--{name}={value}")),
        None if needed => {
            let text = format!("--fromenv={name}: the variable {variable} is not set");
            return Err(FlagError::Indirect(text));
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside() -> Outside<'static> {
        Outside {
            read: &|path| match path.to_str() {
                Some("a.flags") => {
                    Ok("# passes\n--num_passes=3\n\n  --flagfile=b.flags\n".to_owned())
                }
                Some("b.flags") => Ok("--local=0\n".to_owned()),
                Some("self.flags") => Ok("--flagfile=self.flags".to_owned()),
                Some("programs.flags") => Ok("paddle_*\n--x=1".to_owned()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            },
            variable: &|name| (name == "FLAGS_seed").then(|| "7".to_owned()),
        }
    }

    fn expanded(line: &str) -> Result<Expanded, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        expand(&args, &outside()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_and_variables_stand_where_they_are_named() {
        let line = "--num_passes=1 --flagfile=a.flags --local=1 --fromenv=seed --tryfromenv=port";
        let want = "--num_passes=1 --num_passes=3 --local=0 --local=1 --seed=7";
        assert_eq!(expanded(line).unwrap().args.join(" "), want);
        assert_eq!(expanded("--flagfile b.flags").unwrap().args, ["--local=0"]);
        assert_eq!(expanded("--helpshort").unwrap().args, ["--help"]);
        let undefined = expanded("--undefok=a,b --a=1").unwrap();
        assert_eq!(undefined.undefined_ok, ["a", "b"]);
        assert_eq!(undefined.args, ["--a=1"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (line, want) in [
            ("--flagfile=none", "--flagfile=none: entity not found"),
            ("--flagfile=self.flags", "more than 8 deep"),
            (
                "--flagfile=programs.flags",
                "programs.flags:1: 'paddle_*' is not a flag",
            ),
            ("--fromenv=port", "FLAGS_port is not set"),
            ("--flagfile", "--flagfile needs a value"),
        ] {
            let error = expanded(line).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
