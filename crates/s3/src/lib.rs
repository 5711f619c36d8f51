//! Object stores that speak S3, as data and models need them: list a prefix, read a range, write an object.
//!
//! Requests are blocking and signed with `aws-sigv4`. Credentials come from `aws-config`, so environment, profiles,
//! SSO, IRSA and Pod Identity work as in every AWS tool, and so do other servers (`AWS_ENDPOINT_URL_S3`, or
//! `endpoint_url` of a profile). This crate does not know what the objects are used for.
//!
//! # Map, in reading order
//!
//! - [`location`]: addresses such as `s3://bucket/key`.
//! - [`error`]: errors with their remedy.
//! - [`identity`]: credentials, region and endpoint.
//! - [`address`]: the URL of a request. Pure.
//! - [`response`]: the XML that servers send. Pure.
//! - [`client`]: the requests.

mod address;
pub mod client;
pub mod error;
mod identity;
mod location;
mod response;

pub use client::{Client, Object, ObjectReader};
pub use error::S3Error;
pub use location::Location;
