//! Handles output that cannot be written: its reader has closed the pipe, as in `canoe model show … | head`, or the disk
//! is full.

use std::io::{self, Write as _};
use std::panic;

/// The code that a shell reports for a program that SIGPIPE ended.
const BROKEN_PIPE: i32 = 141;

/// Ends the program when standard output or error cannot be written: silently if its reader has closed it, with the
/// reason otherwise. Rust ignores SIGPIPE, so that a lost connection is an error and does not kill the process; a
/// failed `println!` panics instead. Output whose reader may leave without ending the program (the display of a running
/// job, log lines) is written without `println!`.
pub(crate) fn end_quietly_when_nobody_reads() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        match text.and_then(|text| failed_print(text)) {
            Some(reason) if is_broken_pipe(reason) => nobody_reads(),
            Some(reason) => not_written(reason),
            None => report(info),
        }
    }));
}

/// Why a `println!` failed, from the text of its panic.
fn failed_print(panic: &str) -> Option<&str> {
    let rest = panic.strip_prefix("failed printing to std")?;
    rest.split_once(": ").map(|(_, reason)| reason)
}

fn is_broken_pipe(reason: &str) -> bool {
    reason == io::Error::from_raw_os_error(libc::EPIPE).to_string()
}

/// Writes bytes to standard output; ends the program silently if its reader has closed it.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    quietly(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Passes the result of a write to standard output on; ends the program silently if its reader has closed it.
pub(crate) fn quietly(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => nobody_reads(),
        other => other,
    }
}

/// Ends the program because its standard output is closed.
pub(crate) fn nobody_reads() -> ! {
    #[expect(
        clippy::exit,
        reason = "there is nobody left to return an exit code to"
    )]
    std::process::exit(BROKEN_PIPE);
}

/// Ends the program because its output cannot be written.
pub(crate) fn not_written(reason: &str) -> ! {
    // Standard error may be what cannot be written.
    let _ = writeln!(io::stderr(), "canoe: write the output: {reason}");
    #[expect(
        clippy::exit,
        reason = "called where a command cannot return: a panic hook, and the end of main"
    )]
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_broken_pipe() {
        let said = |code| {
            let error = io::Error::from_raw_os_error(code);
            format!("failed printing to stdout: {error}")
        };
        let broken = said(libc::EPIPE);
        assert!(is_broken_pipe(failed_print(&broken).unwrap()));
        let full = said(libc::ENOSPC);
        assert!(!is_broken_pipe(failed_print(&full).unwrap()));
        assert!(failed_print(&full).unwrap().starts_with("No space left"));
        assert_eq!(failed_print("index out of bounds"), None);
    }
}
