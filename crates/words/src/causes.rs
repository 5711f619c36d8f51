//! An error with all its causes, on one line.

use std::error::Error;

/// The error's text, followed by those of its causes: `read the shard: the disk is gone`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("read the shard")]
    struct Read(#[source] std::io::Error);

    #[test]
    fn causes_follow() {
        let error = Read(std::io::Error::other("the disk is gone"));
        assert_eq!(chain(&error), "read the shard: the disk is gone");
    }
}
