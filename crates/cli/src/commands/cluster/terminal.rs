//! Progress and questions of `canoe cluster`.

use std::io::IsTerminal as _;

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
            } => {
                eprintln!(
                    "  {:>5} s  {status:<28} {resource} ({kind}, usually {} s)",
                    elapsed.as_secs(),
                    usual.as_secs()
                );
            }
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
