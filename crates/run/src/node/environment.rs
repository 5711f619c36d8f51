//! The environment variables of a pod: v1's, and the few that Canoe adds. Reports all mistakes together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::node::pod::Discovery;

/// The names of the variables.
pub mod name {
    /// Name of the Job; also of the headless Service and of the folder on the volume.
    pub const JOB_NAME: &str = "JOB_NAME";
    /// Where the volume is mounted.
    pub const JOB_PATH: &str = "JOB_PATH";
    /// Namespace of the Job; for `podlist`.
    pub const JOB_NAMESPACE: &str = "JOB_NAMESPACE";
    /// Folder of the configuration in the job's folder.
    pub const TRAIN_CONFIG_DIR: &str = "TRAIN_CONFIG_DIR";
    /// Network interface that the server listens on.
    pub const NIC: &str = "CONF_PADDLE_NIC";
    /// First port of the server.
    pub const PORT: &str = "CONF_PADDLE_PORT";
    /// Dense ports.
    pub const PORTS_NUM: &str = "CONF_PADDLE_PORTS_NUM";
    /// v1's name for the number of ports for sparse tables.
    pub const PORTS_NUM_SPARSE: &str = "CONF_PADDLE_PORTS_NUM_SPARSE";
    /// Number of nodes.
    pub const GRADIENT_NUM: &str = "CONF_PADDLE_GRADIENT_NUM";
    /// Compute threads of the trainer.
    pub const TRAINER_COUNT: &str = "TRAINER_COUNT";
    /// Set by Kubernetes in pods of an Indexed Job.
    pub(crate) const COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";
    /// Set by Kubernetes in every pod.
    pub(crate) const API_HOST: &str = "KUBERNETES_SERVICE_HOST";
    /// Set by Kubernetes in every pod.
    pub(crate) const API_PORT: &str = "KUBERNETES_SERVICE_PORT_HTTPS";
    /// The pod's own address; for `podlist`.
    pub const POD_IP: &str = "POD_IP";
    /// Folder with the job's token and keys.
    pub const SECRET_DIR: &str = "CANOE_SECRET_DIR";
    /// Folder with the configuration, if it is not on the volume.
    pub const CONFIG_DIR: &str = "CANOE_CONFIG_DIR";
    /// Local disk for the shard.
    pub const WORK_DIR: &str = "CANOE_WORK_DIR";
}

/// What a node knows about itself from its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Name of the Job.
    pub job_name: String,
    /// Where the volume is mounted.
    pub job_path: PathBuf,
    /// Where the configuration is.
    pub config_dir: PathBuf,
    /// Network interface of the server; empty for all.
    pub nic: String,
    /// First port of every server.
    pub port: u16,
    /// Dense ports of every server.
    pub ports_num: u16,
    /// Sparse ports of every server.
    pub ports_num_for_sparse: u16,
    /// Number of nodes.
    pub nodes: u32,
    /// Compute threads of the trainer.
    pub trainer_count: u32,
    /// Folder with token and keys.
    pub secret_dir: Option<PathBuf>,
    /// Local disk.
    pub work_dir: PathBuf,
    /// This pod's address, if its environment has it.
    pub own_address: Option<IpAddr>,
    /// How to find the peers.
    pub peers: Peers,
}

/// What each way to find the other nodes needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peers {
    /// The completion index is the id.
    Indexed {
        /// The completion index of the pod: its node.
        index: u32,
    },
    /// The pods are listed by the API server.
    Podlist {
        /// Host of the API server.
        host: String,
        /// The HTTPS port of the API server.
        port: u16,
        /// Where the Job is.
        namespace: String,
        /// This pod's address.
        own_ip: String,
    },
}

/// Variables that are missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variables of this pod are not those of a canoe job: {}; `canoe job render` writes a complete manifest", .problems.join("; "))]
pub struct EnvironmentError {
    /// All of them.
    pub problems: Vec<String>,
}

impl Environment {
    /// The job's folder on the volume.
    pub fn job_dir(&self) -> PathBuf {
        self.job_path.join(&self.job_name)
    }

    /// Reads the variables.
    pub fn read(
        variables: &BTreeMap<String, String>,
        discovery: Discovery,
    ) -> Result<Self, EnvironmentError> {
        let mut reader = Reader {
            variables,
            problems: Vec::new(),
        };
        let job_path = PathBuf::from(reader.text(name::JOB_PATH));
        let job_name = reader.text(name::JOB_NAME);
        let folder = reader.text(name::TRAIN_CONFIG_DIR);
        let config_dir = match variables.get(name::CONFIG_DIR) {
            Some(path) => PathBuf::from(path),
            None => job_path.join(&job_name).join(folder),
        };
        let nodes = reader.number(name::GRADIENT_NUM, 1, 1000);
        let environment = Self {
            nic: variables.get(name::NIC).cloned().unwrap_or_default(),
            port: reader.number(name::PORT, 1, u16::MAX),
            ports_num: reader.number(name::PORTS_NUM, 1, 64),
            ports_num_for_sparse: reader.number(name::PORTS_NUM_SPARSE, 0, 64),
            nodes,
            trainer_count: reader.number_or(name::TRAINER_COUNT, 1, 1, 4096),
            secret_dir: variables.get(name::SECRET_DIR).map(PathBuf::from),
            work_dir: variables
                .get(name::WORK_DIR)
                .map_or_else(|| PathBuf::from("/work"), PathBuf::from),
            own_address: variables
                .get(name::POD_IP)
                .and_then(|text| text.parse().ok()),
            peers: reader.peers(discovery, nodes),
            job_name,
            job_path,
            config_dir,
        };
        if reader.problems.is_empty() {
            Ok(environment)
        } else {
            Err(EnvironmentError {
                problems: reader.problems,
            })
        }
    }
}

struct Reader<'a> {
    variables: &'a BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, name: &str) -> String {
        match self.variables.get(name) {
            Some(value) if !value.is_empty() => value.clone(),
            Some(_) => self.problem(format!("{name} is empty")),
            None => self.problem(format!("{name} is not set")),
        }
    }

    fn number<T>(&mut self, name: &str, least: T, most: T) -> T
    where
        T: Copy + PartialOrd + std::fmt::Display + std::str::FromStr,
    {
        let text = self.text(name);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => return number,
            _ if text.is_empty() => {}
            _ => drop(self.problem(format!(
                "{name} is {text:?}, not a number from {least} to {most}"
            ))),
        }
        least
    }

    fn number_or<T>(&mut self, name: &str, default: T, least: T, most: T) -> T
    where
        T: Copy + PartialOrd + std::fmt::Display + std::str::FromStr,
    {
        if self.variables.contains_key(name) {
            self.number(name, least, most)
        } else {
            default
        }
    }

    fn peers(&mut self, discovery: Discovery, nodes: u32) -> Peers {
        match discovery {
            Discovery::Indexed => {
                let index = self.number(name::COMPLETION_INDEX, 0, 999);
                if index >= nodes.max(1) {
                    drop(self.problem(format!(
                        "{} is {index} but there are {nodes} nodes",
                        name::COMPLETION_INDEX
                    )));
                }
                Peers::Indexed { index }
            }
            Discovery::Podlist => Peers::Podlist {
                host: self.text(name::API_HOST),
                port: self.number(name::API_PORT, 1, u16::MAX),
                namespace: self.text(name::JOB_NAMESPACE),
                own_ip: self.text(name::POD_IP),
            },
        }
    }

    fn problem(&mut self, text: String) -> String {
        self.problems.push(text);
        String::new()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn variables() -> BTreeMap<String, String> {
        let pairs = [
            ("JOB_NAME", "paddle-cluster-job"),
            ("JOB_PATH", "/home/jobpath"),
            ("JOB_NAMESPACE", "default"),
            ("TRAIN_CONFIG_DIR", "quick_start"),
            ("CONF_PADDLE_NIC", "eth0"),
            ("CONF_PADDLE_PORT", "7164"),
            ("CONF_PADDLE_PORTS_NUM", "2"),
            ("CONF_PADDLE_PORTS_NUM_SPARSE", "2"),
            ("CONF_PADDLE_GRADIENT_NUM", "3"),
            ("TRAINER_COUNT", "3"),
            ("JOB_COMPLETION_INDEX", "1"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
            ("POD_IP", "10.1.0.7"),
        ];
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn the_variables_of_the_tutorial() {
        let environment = Environment::read(&variables(), Discovery::Indexed).unwrap();
        assert_eq!(
            environment.job_dir(),
            PathBuf::from("/home/jobpath/paddle-cluster-job")
        );
        assert_eq!(
            environment.config_dir,
            PathBuf::from("/home/jobpath/paddle-cluster-job/quick_start")
        );
        assert_eq!(
            (
                environment.port,
                environment.nodes,
                environment.trainer_count
            ),
            (7164, 3, 3)
        );
        assert_eq!(environment.peers, Peers::Indexed { index: 1 });
        let podlist = Environment::read(&variables(), Discovery::Podlist).unwrap();
        assert!(matches!(podlist.peers, Peers::Podlist { port: 443, .. }));
    }

    #[test]
    fn all_missing_variables_are_reported_at_once() {
        let error = Environment::read(&BTreeMap::new(), Discovery::Indexed).unwrap_err();
        for name in [
            "JOB_NAME",
            "JOB_PATH",
            "TRAIN_CONFIG_DIR",
            "CONF_PADDLE_PORT",
            "CONF_PADDLE_PORTS_NUM",
            "CONF_PADDLE_PORTS_NUM_SPARSE",
            "CONF_PADDLE_GRADIENT_NUM",
            "JOB_COMPLETION_INDEX",
        ] {
            assert!(
                error.problems.contains(&format!("{name} is not set")),
                "{name}: {error}"
            );
        }
        let error = Environment::read(&BTreeMap::new(), Discovery::Podlist).unwrap_err();
        for name in [
            "KUBERNETES_SERVICE_HOST",
            "KUBERNETES_SERVICE_PORT_HTTPS",
            "JOB_NAMESPACE",
            "POD_IP",
        ] {
            assert!(
                error.problems.contains(&format!("{name} is not set")),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn wrong_numbers_are_shown() {
        let mut wrong = variables();
        for (name, value) in [
            ("CONF_PADDLE_PORT", "x"),
            ("CONF_PADDLE_PORTS_NUM", "0"),
            ("JOB_COMPLETION_INDEX", "3"),
            ("TRAINER_COUNT", ""),
        ] {
            wrong.insert(name.into(), value.into());
        }
        let error = Environment::read(&wrong, Discovery::Indexed).unwrap_err();
        assert_eq!(
            error.problems,
            [
                "CONF_PADDLE_PORT is \"x\", not a number from 1 to 65535",
                "CONF_PADDLE_PORTS_NUM is \"0\", not a number from 1 to 64",
                "TRAINER_COUNT is empty",
                "JOB_COMPLETION_INDEX is 3 but there are 3 nodes",
            ]
        );
    }
}
