//! A progress bar for commands that move many bytes; silent on anything but a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr that counts bytes up to `total`, or just counts if that is not known.
pub(super) fn bytes_bar(what: &str, total: Option<u64>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.set_style(style(total.is_some()));
    bar.set_message(what.to_owned());
    bar
}

/// The total became known later.
pub(super) fn set_total(bar: &ProgressBar, total: u64) {
    if bar.length() != Some(total) {
        bar.set_length(total);
        bar.set_style(style(true));
    }
}

fn style(bounded: bool) -> ProgressStyle {
    let template = if bounded {
        "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}"
    } else {
        "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}"
    };
    ProgressStyle::with_template(template).expect("the template is well formed")
}

/// A number of bytes for people: `1.5 GiB`.
pub(super) fn human_bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// How many there are of something, in words: `1 file`, `3 files`.
pub(super) fn number_of(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(number_of(1, "file"), "1 file");
        assert_eq!(number_of(0, "pod"), "0 pods");
    }
}
