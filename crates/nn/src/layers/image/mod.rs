//! Layers that treat the rows of their inputs as images.

pub(crate) mod batch_norm;
pub(crate) mod bilinear;
pub(crate) mod conv;
pub(crate) mod maxout;
pub(crate) mod pool;
pub(crate) mod prior_box;
pub(crate) mod rearrange;
pub(crate) mod response_norm;
