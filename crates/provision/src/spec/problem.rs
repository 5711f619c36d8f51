//! What is wrong with a cluster file, in one sentence with its line and the way out.

use serde::Serialize;

/// How bad a [`SpecProblem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing may be made.
    Error,
    /// Allowed, but the user should know.
    Warning,
}

/// Something wrong with a cluster file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecProblem {
    /// How bad it is.
    pub severity: Severity,
    /// Path of the field, such as `workers.count`; empty for the file as a whole.
    pub field: String,
    /// Line in the file, when it stands there.
    pub line: Option<usize>,
    /// What is wrong, with the value.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
}

impl SpecProblem {
    /// An error in `field`.
    pub fn error(field: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            field: field.to_owned(),
            line: None,
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// A warning about `field`.
    pub fn warning(field: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(field, message, remedy)
        }
    }

    /// One line of text: `cluster.yaml:12: workers.count: message; remedy`.
    pub fn text(&self, file: &str) -> String {
        let place = match self.line {
            Some(line) => format!("{file}:{line}"),
            None => file.to_owned(),
        };
        let field = if self.field.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.field)
        };
        format!("{place}: {field}{}; {}", self.message, self.remedy)
    }
}

/// Whether any of the problems is an error.
pub fn has_errors(problems: &[SpecProblem]) -> bool {
    problems
        .iter()
        .any(|problem| problem.severity == Severity::Error)
}
