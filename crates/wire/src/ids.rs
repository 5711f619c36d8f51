//! Ids, each with a type of its own so that two cannot be swapped.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// The id as an index into a list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A trainer of the job, 0 to N-1. Trainer 0 coordinates.
    TrainerId(u32)
);
id!(
    /// A table: its position in the list of [`crate::TableSpec`]s of the job.
    TableId(u32)
);
id!(
    /// A generation of the job. It grows with every recovery; a message with an older one is stale.
    Generation(u64)
);
id!(
    /// A step, counted from the start of the job; in values: how many have been applied.
    Step(u64)
);
