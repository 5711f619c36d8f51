//! The command lines of a node's two processes: pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::addresses;
use super::discover::Peers;
use super::environment::Environment;
use super::metrics::StatusPage;
use crate::local::plan::{COMMENT, ProcessCommand, TOKEN_VARIABLE};
use words::process::{ProcessId, Role};

/// Loopback ports of the status pages of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusPorts {
    pub server: u16,
    pub trainer: u16,
}

/// What a node starts.
#[derive(Debug, Clone)]
pub(crate) struct NodePlan {
    /// The canoe binary.
    pub program: PathBuf,
    /// The pod's variables.
    pub environment: Environment,
    /// All nodes.
    pub peers: Peers,
    /// Configuration file, relative to the working directory.
    pub config: PathBuf,
    /// Flags passed on to the trainer.
    pub trainer_flags: Vec<String>,
    /// Working directory of both processes.
    pub directory: PathBuf,
    /// The job's token.
    pub token: String,
    /// Whether the job has keys.
    pub tls: bool,
    /// Loopback ports of the status pages.
    pub status_ports: StatusPorts,
    /// How long a trainer waits for the others to join.
    pub patience: Duration,
}

impl NodePlan {
    /// Where models and logs go.
    pub(crate) fn output(&self) -> PathBuf {
        self.environment.job_dir().join("output")
    }

    /// Where this node's logs go.
    pub(crate) fn node_dir(&self) -> PathBuf {
        self.output().join(format!("node_{}", self.peers.own))
    }

    /// The status pages of its processes.
    pub(crate) fn status_pages(&self) -> Vec<StatusPage> {
        vec![
            StatusPage {
                process: ProcessId::pserver(self.peers.own),
                port: self.status_ports.server,
            },
            StatusPage {
                process: ProcessId::trainer(self.peers.own),
                port: self.status_ports.trainer,
            },
        ]
    }

    /// The command of a process.
    pub(crate) fn command(&self, role: Role) -> ProcessCommand {
        let args = match role {
            Role::Pserver => self.pserver_args(),
            Role::Trainer => self.trainer_args(),
        };
        let environment = BTreeMap::from([(TOKEN_VARIABLE.to_owned(), self.token.clone())]);
        ProcessCommand {
            program: self.program.clone(),
            args,
            environment,
            directory: self.directory.clone(),
        }
    }

    fn servers(&self) -> String {
        let port = self.environment.port;
        let servers: Vec<String> = self
            .peers
            .hosts
            .iter()
            .map(|host| format!("{host}:{port}"))
            .collect();
        servers.join(",")
    }

    /// The arguments of both processes.
    fn common_args(&self) -> Vec<String> {
        let environment = &self.environment;
        let mut args = vec![
            format!("--ports_num={}", environment.ports_num),
            format!(
                "--ports_num_for_sparse={}",
                environment.ports_num_for_sparse
            ),
            format!("--pservers={}", self.servers()),
            format!("--num_gradient_servers={}", environment.nodes),
            format!(
                "--snapshot_dir={}",
                self.output().join("snapshots").display()
            ),
            format!("--comment={COMMENT}"),
            format!("--record_dir={}", self.output().display()),
        ];
        if let (true, Some(folder)) = (self.tls, &environment.secret_dir) {
            for (flag, file) in [
                ("tls_ca", "ca.crt"),
                ("tls_cert", "tls.crt"),
                ("tls_key", "tls.key"),
            ] {
                args.push(format!("--{flag}={}", folder.join(file).display()));
            }
        }
        args
    }

    fn pserver_args(&self) -> Vec<String> {
        let environment = &self.environment;
        let mut args = vec!["pserver".to_owned(), format!("--port={}", environment.port)];
        args.push(format!("--nics={}", environment.nic));
        args.extend(self.common_args());
        let concerns_servers =
            |flag: &&String| flag.trim_start_matches('-').starts_with("peer_timeout=");
        args.extend(self.trainer_flags.iter().filter(concerns_servers).cloned());
        args.push(format!("--server_id={}", self.peers.own));
        args.push(format!("--status_port={}", self.status_ports.server));
        args
    }

    fn trainer_args(&self) -> Vec<String> {
        let environment = &self.environment;
        let mut args = vec!["train".to_owned()];
        args.push(format!("--trainer_count={}", environment.trainer_count));
        args.push(format!("--save_dir={}", self.output().display()));
        args.push(format!("--join_timeout={}", self.patience.as_secs()));
        args.extend(self.trainer_flags.iter().cloned());
        args.push(format!("--config={}", self.config.display()));
        args.extend(["--local=0".to_owned(), "--use_gpu=0".to_owned()]);
        args.extend(self.common_args());
        if environment.own_address.is_some() {
            args.push(format!(
                "--address_dir={}",
                addresses::folder(&self.output(), &self.token).display()
            ));
        }
        args.push(format!("--trainer_id={}", self.peers.own));
        args.push(format!("--status_port={}", self.status_ports.trainer));
        args
    }
}

/// A node's own flags and those that it passes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// `--config`, if given.
    pub config: Option<PathBuf>,
    /// Everything else, for the trainer.
    pub trainer_flags: Vec<String>,
}

impl Arguments {
    /// Sorts the arguments after the node's own flags; `--config` decides which file is looked for.
    pub fn sort(arguments: &[String]) -> Self {
        let mut sorted = Self {
            config: None,
            trainer_flags: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let flag = argument.trim_start_matches('-');
            match flag.strip_prefix("config=") {
                Some(path) => sorted.config = Some(PathBuf::from(path)),
                None if flag == "config" => sorted.config = rest.next().map(PathBuf::from),
                None => sorted.trainer_flags.push(argument.clone()),
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::super::discover;
    use super::super::environment::tests::variables;
    use super::*;
    use crate::node::pod::Discovery;

    fn plan(tls: bool) -> NodePlan {
        let mut environment = Environment::read(&variables(), Discovery::Indexed).unwrap();
        environment.secret_dir = Some("/etc/canoe/secret".into());
        NodePlan {
            program: "/usr/bin/canoe".into(),
            peers: discover::indexed(&environment.job_name, 3, 1),
            environment,
            config: "trainer_config.lr.py".into(),
            trainer_flags: vec!["--num_passes=10".into()],
            directory: "/scratch/node".into(),
            token: "secret".into(),
            tls,
            status_ports: StatusPorts {
                server: 9001,
                trainer: 9002,
            },
            patience: Duration::from_secs(3600),
        }
    }

    #[test]
    fn command_lines_of_a_node() {
        let server = plan(false).command(Role::Pserver).args.join(" ");
        assert_eq!(
            server,
            "pserver --port=7164 --nics=eth0 --ports_num=2 --ports_num_for_sparse=2 \
             --pservers=paddle-cluster-job-0.paddle-cluster-job:7164,paddle-cluster-job-1.paddle-cluster-job:7164,\
             paddle-cluster-job-2.paddle-cluster-job:7164 --num_gradient_servers=3 \
             --snapshot_dir=/home/jobpath/paddle-cluster-job/output/snapshots --comment=paddle_process_by_paddle \
             --record_dir=/home/jobpath/paddle-cluster-job/output --server_id=1 --status_port=9001"
        );
        let trainer = plan(false).command(Role::Trainer);
        let text = trainer.args.join(" ");
        assert!(text.starts_with(
            "train --trainer_count=3 --save_dir=/home/jobpath/paddle-cluster-job/output --join_timeout=3600 --num_passes=10 \
             --config=trainer_config.lr.py --local=0 --use_gpu=0 --ports_num=2"
        ));
        assert!(
            text.ends_with("--trainer_id=1 --status_port=9002"),
            "{text}"
        );
        let folder = " --address_dir=/home/jobpath/paddle-cluster-job/output/addresses/";
        assert!(text.contains(folder), "{text}");
        assert_eq!(trainer.environment[TOKEN_VARIABLE], "secret");
        assert!(!text.contains("secret --") && !text.contains("tls"));
    }

    #[test]
    fn keys_are_passed_by_their_place() {
        let args = plan(true).command(Role::Trainer).args;
        assert!(
            args.contains(&"--tls_key=/etc/canoe/secret/tls.key".to_owned()),
            "{args:?}"
        );
    }

    #[test]
    fn the_configuration_is_found_among_the_arguments() {
        let sort = |arguments: &[&str]| {
            Arguments::sort(
                &arguments
                    .iter()
                    .map(|a| (*a).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let sorted = sort(&["--log_period=50", "--config=a.py", "--dot_period", "10"]);
        assert_eq!(sorted.config, Some("a.py".into()));
        assert_eq!(
            sorted.trainer_flags,
            ["--log_period=50", "--dot_period", "10"]
        );
        assert_eq!(sort(&["--config", "b.py"]).config, Some("b.py".into()));
        assert_eq!(sort(&[]).config, None);
    }
}
