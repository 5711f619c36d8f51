//! The page: one document, one style sheet, one script, written by hand and embedded in the binary.
//!
//! The script never creates HTML from text: what comes from a job is inserted as text.

/// The document.
pub const HTML: &str = include_str!("page/index.html");
/// How it looks.
pub const STYLE: &str = include_str!("page/style.css");
/// What it does.
pub const SCRIPT: &str = concat!(
    include_str!("page/format.js"),
    include_str!("page/chart.js"),
    include_str!("page/panels.js"),
    include_str!("page/app.js"),
);
/// The icon in the browser's tab.
pub const ICON: &str = include_str!("page/icon.svg");
/// The page that asks for the job's token.
pub const LOGIN: &str = include_str!("page/login.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_html() {
        for text in [HTML, STYLE, SCRIPT, LOGIN] {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
        }
        for danger in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!SCRIPT.contains(danger), "{danger}");
        }
        for inline in ["onclick=", "style=", "<script>"] {
            assert!(
                !HTML.contains(inline) && !LOGIN.contains(inline),
                "{inline}: the policy forbids it"
            );
        }
    }
}
