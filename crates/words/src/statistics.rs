//! Statistics of a parameter: what a page shows at the end of a pass.

use serde::{Deserialize, Serialize};

/// How the values of a parameter are distributed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParameterStatistics {
    /// The name of the parameter.
    pub name: String,
    /// How many values there are.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// Share of values that are 0.
    pub zeros: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Sum of the squares of the values.
    pub squares: f64,
    /// Counts in equal steps from `min` to `max`.
    pub histogram: Vec<u64>,
}
