//! Lines of text: the one input of the network.

use crate::sample::{FieldError, Filling};

/// Adds the sample of a line.
pub(super) fn fill(line: &[u8], filling: &mut Filling<'_>) -> Result<(), FieldError> {
    filling.text(0, super::utf8(line)?)?;
    filling.end();
    Ok(())
}
