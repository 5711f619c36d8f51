//! Command-line flags as v1's programs accepted them: `--name=value` or `--name value`, booleans as 0/1/true/false,
//! the last of two wins, an unknown one is an error.
//!
//! [`FlagTable`] lists the flags of a program; [`Flags`] has the values that were typed, or the defaults. A flag of v1
//! that has no effect here is still accepted, because users have it in their scripts, and prints a warning with the
//! reason.

use std::collections::BTreeMap;

use crate::gflags;
use crate::table::wrapped;

/// What a flag's value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagKind {
    /// 0, 1, true, false, yes, no; alone means true.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Anything.
    Text,
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Form of the value.
    pub kind: FlagKind,
    /// Value if the flag is not given.
    pub default: &'static str,
    /// One line for `--help`.
    pub help: &'static str,
    /// Why the flag has no effect here, if so.
    pub ignored: Option<&'static str>,
}

/// The flags of one program.
pub(crate) type FlagTable = &'static [Flag];

/// A flag that has an effect.
pub(crate) const fn flag(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        help,
        ignored: None,
    }
}

/// A flag of v1 that is accepted and has no effect, with the reason.
pub(crate) const fn ignored(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    why: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        help: "",
        ignored: Some(why),
    }
}

/// Why an argument was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FlagError {
    /// No flag of this name.
    #[error("unknown flag --{name}{}", nearest.map(|n| format!("; did you mean --{n}?")).unwrap_or_default())]
    Unknown {
        /// As typed.
        name: String,
        /// The flag whose name is closest.
        nearest: Option<&'static str>,
    },
    /// The value has the wrong form.
    #[error("--{name}={value}: {expected} is expected")]
    BadValue {
        /// The flag.
        name: &'static str,
        /// As typed.
        value: String,
        /// The valid values, in words.
        expected: &'static str,
    },
    /// `--name` at the end of the line, for a flag that needs a value.
    #[error("--{name} needs a value")]
    MissingValue {
        /// The flag.
        name: &'static str,
    },
    /// An argument that is not a flag.
    #[error("unexpected argument '{0}': flags have the form --name=value")]
    Positional(String),
    /// `--flagfile`, `--fromenv` or `--undefok` names a file, a variable or a flag that cannot be used.
    #[error("{0}")]
    Indirect(String),
}

/// Values of all flags of a table.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    table: Vec<FlagTable>,
    typed: BTreeMap<&'static str, String>,
    /// Names of the typed flags, as often as they were typed.
    order: Vec<&'static str>,
}

impl Flags {
    /// Parses arguments (without the program's name) against the flags of `tables`, those in files and in the
    /// environment included (see [`crate::gflags`]).
    pub(crate) fn parse(tables: &[FlagTable], args: &[String]) -> Result<Flags, FlagError> {
        let expanded = gflags::expand(args, &gflags::Outside::default())?;
        Flags::parse_plain(tables, &expanded.args, &expanded.undefined_ok)
    }

    fn parse_plain(
        tables: &[FlagTable],
        args: &[String],
        undefined_ok: &[String],
    ) -> Result<Flags, FlagError> {
        let mut flags = Flags {
            table: tables.to_vec(),
            typed: BTreeMap::new(),
            order: Vec::new(),
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let Some(body) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                return Err(FlagError::Positional(arg.clone()));
            };
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            let (flag, value) = match flags.resolve(name, value, &mut rest) {
                Err(FlagError::Unknown { name, .. }) if undefined_ok.contains(&name) => continue,
                other => other?,
            };
            check(flag, &value)?;
            flags.typed.insert(flag.name, value);
            flags.order.push(flag.name);
        }
        Ok(flags)
    }

    fn resolve(
        &self,
        name: &str,
        value: Option<String>,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> Result<(&'static Flag, String), FlagError> {
        let normal = name.replace('-', "_");
        if let Some(flag) = self.find(&normal) {
            let value = match (value, flag.kind) {
                (Some(value), _) => value,
                (None, FlagKind::Bool) => "true".to_owned(),
                (None, _) => rest
                    .next()
                    .cloned()
                    .ok_or(FlagError::MissingValue { name: flag.name })?,
            };
            return Ok((flag, value));
        }
        let negated = normal.strip_prefix("no").and_then(|n| self.find(n));
        match negated {
            Some(flag) if flag.kind == FlagKind::Bool && value.is_none() => {
                Ok((flag, "false".to_owned()))
            }
            _ => Err(FlagError::Unknown {
                name: name.to_owned(),
                nearest: self.nearest(&normal),
            }),
        }
    }

    fn find(&self, name: &str) -> Option<&'static Flag> {
        self.all().find(|f| f.name == name)
    }

    /// All flags, in the order of the tables.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Flag> + use<'_> {
        self.table.iter().copied().flatten()
    }

    fn nearest(&self, name: &str) -> Option<&'static str> {
        words::guess::nearest(name, self.all().map(|flag| flag.name))
    }

    /// Whether the flag was typed.
    pub(crate) fn given(&self, name: &str) -> bool {
        self.typed.contains_key(name)
    }

    /// Whether the flag was typed, and `other` not after it.
    pub(crate) fn given_after(&self, name: &str, other: &str) -> bool {
        let last = |wanted: &str| self.order.iter().rposition(|name| *name == wanted);
        last(name) > last(other)
    }

    /// The flag's value as text.
    ///
    /// # Panics
    /// If the tables have no such flag, which is a mistake in this program and not in its input.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.typed.get(name) {
            Some(value) => value,
            None => self
                .find(name)
                .map(|f| f.default)
                .expect("flags are asked for by names that are in their table"),
        }
    }

    /// The flag's value as a boolean.
    pub(crate) fn bool(&self, name: &str) -> bool {
        parse_bool(self.text(name)).unwrap_or(false)
    }

    /// The flag's value as a whole number; its form was checked when it was parsed.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The flag's value as a number.
    pub(crate) fn float(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// A sentence for each flag that was typed and has no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.typed
            .keys()
            .filter_map(|name| Some((name, self.find(name)?.ignored?)))
            .map(|(name, why)| format!("--{name} has no effect: {why}"))
            .collect()
    }

    /// The table for `--help`, with lines of at most `width` columns, if that is given.
    pub(crate) fn help(&self, width: Option<usize>) -> String {
        let mut out = String::new();
        for flag in self.all().filter(|f| f.ignored.is_none()) {
            let head = format!("  --{}={}", flag.name, flag.default);
            out.push_str(&entry(&head, flag.help, width));
        }
        let mut accepted = self.all().filter(|f| f.ignored.is_some()).peekable();
        if accepted.peek().is_some() {
            out.push_str("\nAccepted from v1 command lines, without effect:\n\n");
        }
        for flag in accepted {
            let head = format!("  --{}", flag.name);
            let why = flag.ignored.unwrap_or_default();
            out.push_str(&entry(&head, why, width));
        }
        out
    }
}

/// One entry of the help: a flag and its meaning. The meaning is wrapped in its own column; after a long flag, it begins
/// on the next line.
fn entry(head: &str, text: &str, width: Option<usize>) -> String {
    const COLUMN: usize = 39;
    let text = wrapped(text, COLUMN, width);
    if width.is_some() && head.chars().count() >= COLUMN {
        return format!("{head}\n{:COLUMN$}{text}\n", "");
    }
    format!("{head:38} {text}\n")
}

fn check(flag: &Flag, value: &str) -> Result<(), FlagError> {
    let (fine, expected) = match flag.kind {
        FlagKind::Bool => (parse_bool(value).is_some(), "0, 1, true, false, yes or no"),
        FlagKind::Int => (value.parse::<i64>().is_ok(), "a whole number"),
        FlagKind::Float => (value.parse::<f64>().is_ok_and(f64::is_finite), "a number"),
        FlagKind::Text => (true, ""),
    };
    if fine {
        return Ok(());
    }
    Err(FlagError::BadValue {
        name: flag.name,
        value: value.to_owned(),
        expected,
    })
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Some(true),
        "0" | "false" | "f" | "no" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: FlagTable = &[
        flag("num_passes", FlagKind::Int, "100", "passes to run"),
        flag("local", FlagKind::Bool, "true", "no parameter servers"),
        flag("checkgrad_eps", FlagKind::Float, "1e-5", "step"),
        flag("config", FlagKind::Text, "", "file"),
        ignored("gpu_id", FlagKind::Int, "0", "there is no GPU code"),
    ];

    fn parse(args: &[&str]) -> Result<Flags, FlagError> {
        let args: Vec<String> = args.iter().map(|s| (*s).to_owned()).collect();
        Flags::parse(&[TABLE], &args)
    }

    #[test]
    fn both_spellings_and_the_last_wins() {
        let flags = parse(&[
            "--num_passes=3",
            "--config",
            "a.py",
            "--num-passes=5",
            "--local=0",
        ])
        .unwrap();
        assert_eq!(flags.int("num_passes"), 5);
        assert_eq!(flags.text("config"), "a.py");
        assert!(!flags.bool("local"));
        assert_eq!(flags.float("checkgrad_eps"), 1e-5);
        assert!(flags.given("config") && !flags.given("gpu_id"));
    }

    #[test]
    fn booleans_stand_alone_and_are_negated() {
        assert!(parse(&["--local"]).unwrap().bool("local"));
        assert!(!parse(&["--nolocal"]).unwrap().bool("local"));
    }

    #[test]
    fn an_unknown_flag_names_the_nearest() {
        let error = parse(&["--num_pass=3"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown flag --num_pass; did you mean --num_passes?"
        );
        let error = parse(&["--zzzzzzzzzz=3"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown flag --zzzzzzzzzz");
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(
            parse(&["--num_passes=many"]).unwrap_err().to_string(),
            "--num_passes=many: a whole number is expected"
        );
        assert!(parse(&["--local=maybe"]).is_err());
        assert!(matches!(
            parse(&["--config"]),
            Err(FlagError::MissingValue { name: "config" })
        ));
        assert!(matches!(parse(&["train"]), Err(FlagError::Positional(_))));
    }

    #[test]
    fn flags_without_effect_say_why() {
        let flags = parse(&["--gpu_id=1"]).unwrap();
        assert_eq!(
            flags.warnings(),
            ["--gpu_id has no effect: there is no GPU code"]
        );
        let help = flags.help(None);
        assert!(help.contains("without effect"), "{help}");
        assert!(
            help.lines()
                .any(|l| l.contains("--gpu_id  ") && l.ends_with("no GPU code"))
        );
        let narrow = flags.help(Some(60));
        assert!(narrow.lines().all(|l| l.chars().count() <= 60), "{narrow}");
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&narrow), words(&help), "no word is broken or lost");
    }
}
