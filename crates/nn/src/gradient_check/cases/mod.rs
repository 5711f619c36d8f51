//! The cases, one file per family of layers.

pub(super) mod costs;
pub(super) mod groups;
pub(super) mod images;
pub(super) mod labels;
pub(super) mod mixed;
pub(super) mod rows;
pub(super) mod sequences;
