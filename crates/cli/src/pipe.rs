//! What happens when the reader of our output goes away, as in `canoe model show … | head`.

use std::panic;

/// The code that a shell reports for a program that SIGPIPE ended.
const BROKEN_PIPE: i32 = 141;

/// Ends the program without a word when standard output or error is closed while it prints. Rust ignores SIGPIPE, so
/// that a lost connection is an error and not a death; a failed `println!` panics instead. Whatever must not end with
/// its reader (the display of a running job, log lines) writes without `println!`.
pub(crate) fn end_quietly_when_nobody_reads() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("failed printing to std")) {
            nobody_reads();
        }
        report(info);
    }));
}

/// Ends the program because its standard output is closed.
pub(crate) fn nobody_reads() -> ! {
    #[expect(
        clippy::exit,
        reason = "there is nobody left to return an exit code to"
    )]
    std::process::exit(BROKEN_PIPE);
}
