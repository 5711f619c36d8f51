//! Layers that treat the rows of their inputs as images.

pub mod batch_norm;
pub mod bilinear;
pub mod conv;
pub mod maxout;
pub mod pool;
pub mod prior_box;
pub mod rearrange;
pub mod response_norm;
