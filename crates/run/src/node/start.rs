//! The arguments of `canoe node`: a few of its own, all others are for the trainer.
//!
//! v1's start script passed on every flag that it did not know, so this cannot be an ordinary parser: arguments
//! that are not the node's own are kept unchanged, in their order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::discover::PodSource;
use super::run::NodeStart;
use crate::node::pod::Discovery;
use crate::node::pod::HEALTH_PORT;

/// Where Kubernetes puts a pod's token and the cluster's authority.
const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Time limit of waits: machines may have to be started, images to be pulled, and data to be split.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A flag of `canoe node` with a value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag}={value}: {want} is expected")]
pub struct NodeFlagError {
    flag: String,
    value: String,
    want: &'static str,
}

impl NodeStart {
    /// Sorts the arguments after `canoe node`.
    pub fn from_arguments(
        program: PathBuf,
        variables: BTreeMap<String, String>,
        arguments: &[String],
        pods: Arc<dyn PodSource>,
    ) -> Result<Self, NodeFlagError> {
        let mut start = Self {
            program,
            variables,
            discovery: Discovery::Indexed,
            arguments: Vec::new(),
            account_dir: PathBuf::from(ACCOUNT_DIR),
            pods,
            health_port: HEALTH_PORT,
            metrics_port: 0,
            patience: PATIENCE,
            grace: Duration::from_secs(50),
        };
        for argument in arguments {
            let own = argument
                .strip_prefix("--")
                .and_then(|flag| flag.split_once('='));
            match own {
                Some((flag, value)) if start.take(flag, value)? => {}
                _ => start.arguments.push(argument.clone()),
            }
        }
        Ok(start)
    }

    /// Sets a flag of `canoe node`; `false` if it is not one of them.
    fn take(&mut self, flag: &str, value: &str) -> Result<bool, NodeFlagError> {
        let wrong = |want| NodeFlagError {
            flag: flag.to_owned(),
            value: value.to_owned(),
            want,
        };
        let seconds = || {
            value
                .parse()
                .map(Duration::from_secs)
                .map_err(|_| wrong("a number of seconds"))
        };
        match flag {
            "discovery" => {
                self.discovery = match value {
                    "indexed" => Discovery::Indexed,
                    "podlist" => Discovery::Podlist,
                    _ => return Err(wrong("indexed or podlist")),
                }
            }
            "health_port" => self.health_port = value.parse().map_err(|_| wrong("a port"))?,
            "metrics_port" => self.metrics_port = value.parse().map_err(|_| wrong("a port"))?,
            "account_dir" => self.account_dir = PathBuf::from(value),
            "patience" => self.patience = seconds()?,
            "grace" => self.grace = seconds()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::discover::{ListedPod, PodsOptions};
    use super::super::patience::NotYet;
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl PodSource for Nobody {
        fn pods(&self, _: &PodsOptions) -> Result<Vec<ListedPod>, NotYet> {
            Ok(Vec::new())
        }
    }

    fn start(arguments: &[&str]) -> Result<NodeStart, NodeFlagError> {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        NodeStart::from_arguments(
            "/bin/canoe".into(),
            BTreeMap::new(),
            &arguments,
            Arc::new(Nobody),
        )
    }

    #[test]
    fn own_flags_are_taken_and_others_passed_on() {
        let started = start(&[
            "--log_period=50",
            "--discovery=podlist",
            "--dot_period",
            "10",
            "--grace=7",
            "--config=a.py",
        ])
        .unwrap();
        assert_eq!(
            (started.discovery, started.grace),
            (Discovery::Podlist, Duration::from_secs(7))
        );
        assert_eq!(
            started.arguments,
            ["--log_period=50", "--dot_period", "10", "--config=a.py"]
        );
    }

    #[test]
    fn wrong_values_are_named() {
        let error = start(&["--discovery=magic"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--discovery=magic: indexed or podlist is expected"
        );
        assert!(start(&["--health_port=x"]).is_err() && start(&["--patience=-1"]).is_err());
    }
}
