//! Clusters on AWS: from an account to a kubeconfig, and back to nothing.
//!
//! A cluster is described by one file, `cluster.yaml`. From it comes everything else: templates,
//! permissions, an estimate of cost, TLS assets, user data. The crate makes a kubeconfig and a volume;
//! its commands ask the cluster itself through [`k8s::cluster`].
//!
//! # Map, in reading order
//!
//! - [`spec`]: the cluster file; its keys, how it is read, checked and written.
//! - [`template`], [`user_data`], [`node`], [`kubeconfig`], [`manifests`]: what is rendered from it. Pure.
//! - [`policy`], [`cost`] (from [`prices`]), [`rules`]: what it needs, what it costs, what is wrong with it. Pure.
//! - [`credentials`], [`assets`]: TLS pairs of a self-managed cluster; the folder on disk.
//! - [`lifecycle`]: every decision of `up`, `down`, `status`, `upgrade`. Pure.
//! - [`cloud`]: the calls of AWS that are needed, as a trait; [`aws`]: the real ones; [`command`]: the commands over it.
//! - [`ownership`], [`partition`], [`statuses`], [`cidr`], [`names`], [`catalog`]: what the above stand on. [`matrix`]: cases for tests.
//!
//! # Invariants
//!
//! 1. Two renders of one file are equal byte for byte.
//! 2. Every command can be interrupted anywhere and run again.
//! 3. Nothing is changed or deleted that does not carry the cluster's id ([`ownership`]).
//! 4. No private key leaves the disk unencrypted, and none is ever printed.

pub mod assets;
pub mod aws;
pub mod catalog;
mod cidr;
pub mod cloud;
pub mod command;
pub mod cost;
pub mod credentials;
#[cfg(test)]
mod double;
pub mod kubeconfig;
pub mod lifecycle;
pub mod manifests;
pub mod matrix;
mod names;
pub mod node;
pub mod ownership;
pub mod partition;
pub mod policy;
pub mod prices;
mod rules;
pub mod spec;
pub mod statuses;
pub mod template;
pub mod user_data;
