//! Progress and questions of `canoe cluster`.

use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;

use provision::command::{Sink, Talk};
use provision::statuses::ResourceStatus;

/// Progress on standard error, questions on the terminal.
pub(super) struct Terminal {
    /// Every question is answered with yes.
    pub(super) yes: bool,
}

impl Sink for Terminal {
    fn talk(&mut self, talk: Talk) {
        match talk {
            Talk::Step(text) => tell(&text),
            Talk::Detail(text) => tell(&format!("  {text}")),
            Talk::Warning(text) => tell(&format!("warning: {text}")),
            Talk::Resource {
                resource,
                kind,
                status,
                elapsed,
                usual,
                ..
            } => eprintln!(
                "{}",
                resource_line(&resource, &kind, &status, elapsed, usual)
            ),
        }
    }

    fn confirm(&mut self, question: &str) -> bool {
        if self.yes {
            return true;
        }
        if !std::io::stdin().is_terminal() {
            eprintln!("{question} (no terminal to ask; pass --yes)");
            return false;
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
    }
}

/// What takes so long is worth saying beforehand.
const LONG: Duration = Duration::from_secs(60);

/// Columns that every terminal has.
const COLUMNS: usize = 80;

/// How commands for the folder of the command line begin.
static BEGINNING: OnceLock<String> = OnceLock::new();

/// Says which folder the commands in all further lines are for.
pub(super) fn begin_commands(beginning: String) {
    BEGINNING.get_or_init(|| beginning);
}

/// A text in which commands are for the folder of the command line: most texts are written without knowing it.
pub(super) fn addressed(text: &str) -> String {
    match BEGINNING.get() {
        Some(beginning) => with_beginning(text, beginning),
        None => text.to_owned(),
    }
}

fn with_beginning(text: &str, beginning: &str) -> String {
    let mut parts = text.split("`canoe cluster ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let known = part.starts_with("--dir ");
        out.push('`');
        out.push_str(if known { "canoe cluster" } else { beginning });
        out.push(' ');
        out.push_str(part);
    }
    out
}

/// A line on standard error; long ones are folded between words when a person looks.
pub(super) fn tell(line: &str) {
    eprintln!("{}", for_eyes(line, std::io::stderr().is_terminal()));
}

/// The same on standard output.
pub(super) fn show(line: &str) {
    println!("{}", for_eyes(line, std::io::stdout().is_terminal()));
}

fn for_eyes(line: &str, person: bool) -> String {
    let line = addressed(line);
    if person { folded(&line, COLUMNS) } else { line }
}

/// Folds a line between words; what follows stands four columns further right. Spaces inside the
/// first columns (tables) stay.
fn folded(line: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    let indent = line.len() - line.trim_start().len() + 4;
    for word in line.split_inclusive(' ') {
        let width = word.trim_end().chars().count();
        if used > indent && used + width > columns {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        }
        out.push_str(word);
        used += word.chars().count();
    }
    out
}

/// One resource's change: time so far, what happens, which resource, how long that usually takes.
fn resource_line(
    resource: &str,
    kind: &str,
    status: &ResourceStatus,
    elapsed: Duration,
    usual: Duration,
) -> String {
    let kind = kind.strip_prefix("AWS::").unwrap_or(kind);
    let usual = if status.is_busy() && usual >= LONG {
        format!(", usually {} s", usual.as_secs())
    } else {
        String::new()
    };
    let word = status_word(status);
    let time = elapsed.as_secs();
    format!("{time:>5} s  {word:<12} {resource} ({kind}{usual})")
}

/// AWS's status in a word; one that is not known stays as it is.
fn status_word(status: &ResourceStatus) -> &str {
    use ResourceStatus as S;
    match status {
        S::CreateInProgress => "creating",
        S::CreateComplete => "created",
        S::UpdateInProgress => "updating",
        S::UpdateComplete => "updated",
        S::UpdateCompleteCleanupInProgress => "cleaning up",
        S::DeleteInProgress => "deleting",
        S::DeleteComplete => "deleted",
        S::DeleteSkipped => "kept",
        S::RollbackInProgress | S::UpdateRollbackInProgress => "rolling back",
        S::RollbackComplete | S::UpdateRollbackComplete => "rolled back",
        failed if failed.is_failure() => "FAILED",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `run `canoe cluster up`` looked for cluster.yaml in the folder of the shell.
    #[test]
    fn commands_in_every_text_are_for_the_folder_of_the_command_line() {
        let text = "run `canoe cluster up`, or `canoe cluster --dir x down`; `canoe job get a`";
        assert_eq!(
            with_beginning(text, "canoe cluster --dir 'my cluster'"),
            "run `canoe cluster --dir 'my cluster' up`, or `canoe cluster --dir x down`; `canoe job get a`"
        );
        assert_eq!(with_beginning(text, "canoe cluster"), text);
    }

    #[test]
    fn long_lines_are_folded_between_words() {
        assert_eq!(folded("a short one", 20), "a short one");
        assert_eq!(
            folded("  warning: this line is too long", 20),
            "  warning: this line\n      is too long"
        );
        let word = "x".repeat(90);
        assert_eq!(folded(&word, 80), word, "nothing is cut");
        assert_eq!(for_eyes(&word.replace('x', "x "), false).lines().count(), 1);
    }

    #[test]
    fn resources_fit_a_terminal() {
        let timed = |status: &str, usual| {
            resource_line(
                "PrivateSubnet1RouteTable",
                "AWS::EC2::SubnetRouteTableAssociation",
                &status.into(),
                Duration::from_secs(9),
                Duration::from_secs(usual),
            )
        };
        let line = |status| timed(status, 5);
        assert_eq!(
            line("CREATE_COMPLETE"),
            "    9 s  created      PrivateSubnet1RouteTable (EC2::SubnetRouteTableAssociation)"
        );
        assert!(timed("CREATE_IN_PROGRESS", 600).ends_with("usually 600 s)"));
        assert!(line("CREATE_IN_PROGRESS").ends_with("Association)"));
        assert!(line("CREATE_FAILED").contains("FAILED"));
        assert!(line("SOMETHING_NEW").contains("SOMETHING_NEW"));
    }
}
