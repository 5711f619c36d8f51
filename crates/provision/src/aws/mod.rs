//! The real AWS: credentials by `aws-config`, requests signed and sent by ourselves.
//!
//! Why not one `aws-sdk-*` crate per service: this crate needs some forty calls of ten services, and
//! the SDK crates cost minutes of build time (see `docs/aws.md` for the measurement). Credentials are
//! another matter: profiles, SSO, roles and instance metadata work as users expect only with
//! `aws-config`, so that is used. The protocols are four: form in and XML out (CloudFormation, EC2,
//! IAM, STS, load balancers), JSON (KMS, logs, tags, quotas), paths with JSON (EKS, EFS) and paths with
//! XML (S3, Route 53). What an SDK would give beside that is here, too: one look-up of credentials
//! ([`identity`]), retries ([`retry`]), errors and clocks ([`failure`]), hosts ([`endpoint`]), proxies and
//! certificates ([`web`]).

pub mod address;
mod calls;
mod client;
mod ecr;
pub mod endpoint;
mod failure;
mod identity;
mod inspect;
mod machines;
mod pages;
mod query;
mod rest;
mod retry;
pub mod settings;
pub(crate) mod token;
mod web;

pub use client::Aws;
pub use ecr::RegistryLogin;
pub use settings::AwsSettings;
