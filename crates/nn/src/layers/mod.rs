//! The layers, one a file, and the table from type names to them.

pub mod addto;
pub mod concat;
pub mod cos;
pub mod cost;
pub mod data;
pub mod embedding;
pub mod fc;
pub mod maxid;
pub mod mixed;
pub mod pooling;
pub mod recurrent;
pub mod tail;

use crate::error::BuildError;
use crate::layer::{Build, Layer};

/// Builds a layer from its description.
pub type Factory = fn(&mut Build<'_>) -> Result<Box<dyn Layer>, BuildError>;

/// Every type of layer that can be executed, except `data`, which the network itself reads.
pub const REGISTRY: &[(&str, Factory)] = &[
    ("addto", addto::build),
    ("average", pooling::average::build),
    ("concat", concat::build),
    ("concat2", concat::build_projections),
    ("cos", cos::build),
    ("cos_vm", cos::build_many),
    ("fc", fc::build),
    ("gated_recurrent", recurrent::gru::build),
    ("huber", cost::huber::build),
    ("lambda_cost", cost::lambda::build),
    ("lstmemory", recurrent::lstm::build),
    ("max", pooling::max::build),
    ("maxid", maxid::build),
    ("mixed", mixed::build),
    ("multi-class-cross-entropy", cost::cross_entropy::build),
    (
        "multi_binary_label_cross_entropy",
        cost::binary_cross_entropy::build,
    ),
    (
        "multi_class_cross_entropy_with_selfnorm",
        cost::self_norm::build,
    ),
    ("rank-cost", cost::rank::build),
    ("recurrent", recurrent::simple::build),
    ("seqlastins", pooling::last::build),
    ("smooth_l1", cost::smooth_l1::build),
    (
        "soft_binary_class_cross_entropy",
        cost::binary_cross_entropy::build,
    ),
    ("square_error", cost::square_error::build),
    ("sum_cost", cost::sum::build),
];

/// The builder of a layer type; `None` if it cannot be executed.
pub fn factory(kind: &str) -> Option<Factory> {
    REGISTRY
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, factory)| *factory)
}
