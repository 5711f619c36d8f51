//! Progress and questions of `canoe cluster`.

use std::io::IsTerminal as _;
use std::time::Duration;

use provision::command::{Sink, Talk};

/// Progress on standard error, questions on the terminal.
pub(super) struct Terminal {
    /// Every question is answered with yes.
    pub(super) yes: bool,
}

impl Sink for Terminal {
    fn talk(&mut self, talk: Talk) {
        match talk {
            Talk::Step(text) => eprintln!("{text}"),
            Talk::Detail(text) => eprintln!("  {text}"),
            Talk::Warning(text) => eprintln!("warning: {text}"),
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

/// One resource's change: time so far, what happens, which resource, how long that usually takes.
fn resource_line(
    resource: &str,
    kind: &str,
    status: &str,
    elapsed: Duration,
    usual: Duration,
) -> String {
    let kind = kind.strip_prefix("AWS::").unwrap_or(kind);
    let usual = if status.ends_with("_IN_PROGRESS") {
        format!(", usually {} s", usual.as_secs())
    } else {
        String::new()
    };
    let word = status_word(status);
    let time = elapsed.as_secs();
    format!("{time:>5} s  {word:<12} {resource} ({kind}{usual})")
}

/// AWS's status in a word; one that is not known stays as it is.
fn status_word(status: &str) -> &str {
    match status {
        "CREATE_IN_PROGRESS" => "creating",
        "CREATE_COMPLETE" => "created",
        "UPDATE_IN_PROGRESS" => "updating",
        "UPDATE_COMPLETE" => "updated",
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS" => "cleaning up",
        "DELETE_IN_PROGRESS" => "deleting",
        "DELETE_COMPLETE" => "deleted",
        "DELETE_SKIPPED" => "kept",
        "ROLLBACK_IN_PROGRESS" | "UPDATE_ROLLBACK_IN_PROGRESS" => "rolling back",
        "ROLLBACK_COMPLETE" | "UPDATE_ROLLBACK_COMPLETE" => "rolled back",
        failed if failed.ends_with("_FAILED") => "FAILED",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_fit_a_terminal() {
        let line = |status| {
            resource_line(
                "PrivateSubnet1RouteTable",
                "AWS::EC2::SubnetRouteTableAssociation",
                status,
                Duration::from_secs(9),
                Duration::from_secs(5),
            )
        };
        assert_eq!(
            line("CREATE_COMPLETE"),
            "    9 s  created      PrivateSubnet1RouteTable (EC2::SubnetRouteTableAssociation)"
        );
        assert!(line("CREATE_IN_PROGRESS").ends_with("usually 5 s)"));
        assert!(line("CREATE_FAILED").contains("FAILED"));
        assert!(line("SOMETHING_NEW").contains("SOMETHING_NEW"));
    }
}
