//! Clusters on AWS: from an account to a kubeconfig, and back to nothing.
//!
//! A cluster is described by one file, `cluster.yaml`. From it comes everything else: templates,
//! permissions, an estimate of cost, TLS assets, user data. Nothing here knows what a training job
//! is; the crate ends with a kubeconfig and a volume.
//!
//! # Map, in reading order
//!
//! - [`spec`]: the cluster file; its keys, how it is read, checked and written.
//! - [`cidr`], [`names`], [`catalog`], [`yaml`]: what the checks stand on.

pub mod assets;
pub mod catalog;
pub mod cidr;
pub mod cloud;
pub mod command;
pub mod cost;
pub mod credentials;
pub mod kubeconfig;
pub mod lifecycle;
pub mod manifests;
pub mod matrix;
pub mod names;
pub mod policy;
pub mod rules;
pub mod spec;
pub mod template;
pub mod user_data;
pub mod yaml;
