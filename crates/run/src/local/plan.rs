//! Decides what a local run starts: pure, from the folder's layout and the options to command lines.
//!
//! Ports are left open until the start, because only the kernel knows which are free; a plan and a
//! set of ports determine the arguments. The command lines are v1's. The job token is passed in the
//! environment: arguments can be read by every user of the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::layout::{FirstLine, FolderLayout, JobData};
use super::listed::OWN;
use words::process::{ProcessId, Role};

pub use words::process::TOKEN_VARIABLE;

/// The environment variable that names the folder with a node's lists of files, for a configuration that names its files
/// itself.
pub(crate) const DIVIDED_LISTS_VARIABLE: &str = "CANOE_DIVIDED_LISTS";

/// The environment variable that names the list of a trainer's data files, with their checksums when the run began.
pub const SHARD_FILES_VARIABLE: &str = "CANOE_SHARD_FILES";

/// The environment variable that names the run for servers and trainers: a resumed run has the name of the first.
pub const RUN_VARIABLE: &str = "CANOE_RUN_NAME";

/// v1's tag, by which its processes can be found in a process list.
pub(crate) const COMMENT: &str = "paddle_process_by_paddle";

/// The options of a local run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// How many nodes, each with a trainer.
    pub nodes: u32,
    /// How many parameter servers; usually one per node.
    pub servers: u32,
    /// Dense ports of each server; at least 1.
    pub ports_num: u16,
    /// Sparse ports of each server.
    pub ports_num_for_sparse: u16,
    /// `--num_passes` of the trainers, if given.
    pub num_passes: Option<u64>,
    /// Further arguments of the trainers, passed on as they are.
    pub trainer_flags: Vec<String>,
    /// Further arguments of the servers, passed on as they are.
    pub pserver_flags: Vec<String>,
    /// Further environment of all processes.
    pub environment: BTreeMap<String, String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            servers: 1,
            ports_num: 1,
            ports_num_for_sparse: 1,
            num_passes: None,
            trainer_flags: Vec::new(),
            pserver_flags: Vec::new(),
            environment: BTreeMap::new(),
        }
    }
}

/// What to start, except for the ports.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// Path of the canoe binary.
    pub program: PathBuf,
    /// The job folder's layout.
    pub layout: FolderLayout,
    /// Splits flat data; runs before everything else. `None` if the data are split already.
    pub split: Option<ProcessCommand>,
    /// Data folder of each node.
    pub shards: Vec<PathBuf>,
    /// The user's options.
    pub options: RunOptions,
    /// Shared secret of the job.
    pub token: String,
}

/// One program to run. The environment is added to the inherited one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCommand {
    /// The binary.
    pub program: PathBuf,
    /// Arguments without the program.
    pub args: Vec<String>,
    /// Added variables.
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    pub directory: PathBuf,
}

/// The ports of one node, all on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePorts {
    /// First of the server's `ports_num + ports_num_for_sparse` ports.
    pub data: u16,
    /// The server's status page.
    pub pserver_status: u16,
    /// The trainer's status page.
    pub trainer_status: u16,
}

/// Why the options do not yield a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A count is 0 that must be at least 1.
    #[error("--{flag} is 0; it must be at least 1")]
    Zero {
        /// The flag without dashes.
        flag: &'static str,
    },
    /// A passed-on flag would override what the plan decides.
    #[error("--{flag} is set by the run itself; remove it{hint}")]
    Reserved {
        /// The flag without dashes.
        flag: String,
        /// What to use instead, with a separator in front.
        hint: &'static str,
    },
}

impl RunPlan {
    /// Creates the plan. `program` is the canoe binary and `token` a secret that nobody can guess.
    pub fn new(
        program: PathBuf,
        layout: FolderLayout,
        options: RunOptions,
        token: String,
    ) -> Result<Self, PlanError> {
        if options.nodes == 0 {
            return Err(PlanError::Zero { flag: "nodes" });
        }
        if options.servers == 0 {
            return Err(PlanError::Zero { flag: "servers" });
        }
        if options.ports_num == 0 {
            return Err(PlanError::Zero { flag: "ports_num" });
        }
        refuse_reserved(&options.trainer_flags)?;
        let (split, shards) = match &layout.data {
            JobData::Shards(shards) => (None, shards.clone()),
            JobData::Listed(_) => (None, Vec::new()),
            JobData::Flat(flat) => (
                Some(ProcessCommand {
                    environment: options.environment.clone(),
                    ..split_command(&program, flat, options.nodes, &layout)
                }),
                split_shards(flat, options.nodes),
            ),
        };
        Ok(Self {
            program,
            layout,
            split,
            shards,
            options,
            token,
        })
    }

    /// Every process: servers first, each role in the order of ids.
    pub fn processes(&self) -> Vec<ProcessId> {
        (0..self.options.servers)
            .map(ProcessId::pserver)
            .chain((0..self.options.nodes).map(ProcessId::trainer))
            .collect()
    }

    /// How many neighbouring ports each server needs.
    pub fn data_ports(&self) -> u16 {
        self.options.ports_num + self.options.ports_num_for_sparse
    }

    /// The folder of a node's logs and working directory.
    pub(crate) fn node_dir(&self, node: u32) -> PathBuf {
        self.layout.output().join(format!("node_{node}"))
    }

    /// The working directory of a node.
    pub(crate) fn work_dir(&self, node: u32) -> PathBuf {
        self.node_dir(node).join("work")
    }

    /// The log file of a process.
    pub fn log(&self, process: ProcessId) -> PathBuf {
        let name = match process.role {
            Role::Pserver => "server.log",
            Role::Trainer => "train.log",
        };
        self.node_dir(process.node).join(name)
    }

    /// The command of a process, given the ports of all nodes.
    pub fn command(&self, process: ProcessId, ports: &[NodePorts]) -> ProcessCommand {
        let args = match process.role {
            Role::Pserver => self.pserver_args(process.node, ports),
            Role::Trainer => self.trainer_args(process.node, ports),
        };
        let mut environment = self.options.environment.clone();
        environment.insert(TOKEN_VARIABLE.to_owned(), self.token.clone());
        if let JobData::Listed(_) = self.layout.data {
            environment.insert(DIVIDED_LISTS_VARIABLE.to_owned(), OWN.to_owned());
        }
        ProcessCommand {
            program: self.program.clone(),
            args,
            environment,
            directory: self.work_dir(process.node),
        }
    }

    /// Directory of the snapshots.
    pub fn snapshots(&self) -> PathBuf {
        self.layout.output().join("snapshots")
    }

    fn pserver_args(&self, node: u32, ports: &[NodePorts]) -> Vec<String> {
        let options = &self.options;
        let own = ports[node as usize];
        let mut args = vec![
            "pserver".to_owned(),
            format!("--port={}", own.data),
            format!("--ports_num={}", options.ports_num),
            format!("--ports_num_for_sparse={}", options.ports_num_for_sparse),
            "--nics=lo".to_owned(),
            format!("--num_gradient_servers={}", options.nodes),
            format!("--pservers={}", self.server_list(ports)),
            format!("--server_id={node}"),
            format!("--snapshot_dir={}", self.snapshots().display()),
            format!("--comment={COMMENT}"),
            format!("--status_port={}", own.pserver_status),
            format!("--record_dir={}", self.layout.output().display()),
        ];
        args.extend(options.pserver_flags.iter().cloned());
        args
    }

    fn trainer_args(&self, node: u32, ports: &[NodePorts]) -> Vec<String> {
        let options = &self.options;
        let mut args = vec![
            "train".to_owned(),
            format!("--config={}", self.layout.config.display()),
            format!("--save_dir={}", self.layout.output().display()),
        ];
        args.extend(
            options
                .num_passes
                .map(|passes| format!("--num_passes={passes}")),
        );
        args.extend(options.trainer_flags.iter().cloned());
        args.extend([
            "--local=0".to_owned(),
            format!("--pservers={}", self.server_list(ports)),
            format!("--ports_num={}", options.ports_num),
            format!("--ports_num_for_sparse={}", options.ports_num_for_sparse),
            format!("--num_gradient_servers={}", options.nodes),
            format!("--trainer_id={node}"),
            format!("--snapshot_dir={}", self.snapshots().display()),
            format!("--comment={COMMENT}"),
            format!("--status_port={}", ports[node as usize].trainer_status),
            format!("--record_dir={}", self.layout.output().display()),
        ]);
        args
    }

    fn server_list(&self, ports: &[NodePorts]) -> String {
        let servers: Vec<String> = ports
            .iter()
            .take(self.options.servers as usize)
            .map(|ports| format!("127.0.0.1:{}", ports.data))
            .collect();
        servers.join(",")
    }
}

/// Flags that a user must not pass on, each with what to use instead.
const RESERVED: [(&str, &str); 11] = [
    ("trainer_id", ""),
    ("pservers", ""),
    ("local", "; `canoe train` runs without servers"),
    (
        "num_gradient_servers",
        "; --nodes sets the number of trainers",
    ),
    ("port", ""),
    ("nics", ""),
    ("status_port", ""),
    ("record_dir", ""),
    ("ports_num", "; it is an option of the run"),
    ("ports_num_for_sparse", "; it is an option of the run"),
    ("comment", ""),
];

fn refuse_reserved(flags: &[String]) -> Result<(), PlanError> {
    for flag in flags {
        let name = flag.trim_start_matches('-').split('=').next().unwrap_or("");
        if let Some((name, hint)) = RESERVED
            .iter()
            .find(|(reserved, _)| flag.starts_with('-') && name == *reserved)
        {
            return Err(PlanError::Reserved {
                flag: (*name).to_owned(),
                hint,
            });
        }
    }
    Ok(())
}

/// `canoe data split` writes the shards `<id>` into the folder that it reads.
fn split_command(program: &Path, flat: &Path, nodes: u32, layout: &FolderLayout) -> ProcessCommand {
    let mut args = vec![
        "data".to_owned(),
        "split".to_owned(),
        flat.display().to_string(),
        format!("--shards={nodes}"),
    ];
    args.extend(layout.split_flags.iter().cloned());
    match layout.header {
        FirstLine::Unknown => {}
        FirstLine::Header => args.push("--header".to_owned()),
        FirstLine::Sample => args.push("--no-header".to_owned()),
    }
    ProcessCommand {
        program: program.to_owned(),
        args,
        environment: BTreeMap::new(),
        directory: flat.to_owned(),
    }
}

fn split_shards(flat: &Path, nodes: u32) -> Vec<PathBuf> {
    (0..nodes).map(|id| flat.join(id.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(data: JobData) -> FolderLayout {
        FolderLayout {
            job: "/job".into(),
            config_dir: "/job/q".into(),
            config: "trainer_config.lr.py".into(),
            data,
            header: FirstLine::Unknown,
            split_flags: Vec::new(),
        }
    }

    fn plan(options: RunOptions) -> Result<RunPlan, PlanError> {
        let shards = (0..options.nodes)
            .map(|id| format!("/job/data/{id}").into())
            .collect();
        RunPlan::new(
            "/bin/canoe".into(),
            layout(JobData::Shards(shards)),
            options,
            "secret".into(),
        )
    }

    fn ports(nodes: u16) -> Vec<NodePorts> {
        let port = |node| NodePorts {
            data: 1000 + 10 * node,
            pserver_status: 2000 + node,
            trainer_status: 3000 + node,
        };
        (0..nodes).map(port).collect()
    }

    #[test]
    fn command_lines_are_those_of_v1() {
        let options = RunOptions {
            nodes: 2,
            servers: 2,
            ports_num: 2,
            num_passes: Some(10),
            trainer_flags: vec![
                "--trainer_count=3".into(),
                "--log_period".into(),
                "50".into(),
            ],
            ..RunOptions::default()
        };
        let plan = plan(options).unwrap();
        let server = plan.command(ProcessId::pserver(1), &ports(2));
        assert_eq!(
            server.args.join(" "),
            "pserver --port=1010 --ports_num=2 --ports_num_for_sparse=1 --nics=lo --num_gradient_servers=2 \
             --pservers=127.0.0.1:1000,127.0.0.1:1010 --server_id=1 --snapshot_dir=/job/output/snapshots \
             --comment=paddle_process_by_paddle --status_port=2001 --record_dir=/job/output"
        );
        let trainer = plan.command(ProcessId::trainer(1), &ports(2));
        assert_eq!(
            trainer.args.join(" "),
            "train --config=trainer_config.lr.py --save_dir=/job/output --num_passes=10 --trainer_count=3 --log_period 50 \
             --local=0 --pservers=127.0.0.1:1000,127.0.0.1:1010 --ports_num=2 --ports_num_for_sparse=1 \
             --num_gradient_servers=2 --trainer_id=1 --snapshot_dir=/job/output/snapshots --comment=paddle_process_by_paddle --status_port=3001 --record_dir=/job/output"
        );
        assert_eq!(trainer.directory, Path::new("/job/output/node_1/work"));
        assert_eq!(
            plan.log(ProcessId::pserver(1)),
            Path::new("/job/output/node_1/server.log")
        );
        assert_eq!(
            plan.log(ProcessId::trainer(0)),
            Path::new("/job/output/node_0/train.log")
        );
        assert_eq!(plan.data_ports(), 3);
    }

    #[test]
    fn the_token_is_in_the_environment_and_in_no_argument() {
        let plan = plan(RunOptions {
            nodes: 2,
            servers: 2,
            ..RunOptions::default()
        })
        .unwrap();
        for process in plan.processes() {
            let command = plan.command(process, &ports(2));
            assert_eq!(command.environment[TOKEN_VARIABLE], "secret");
            assert!(command.args.iter().all(|arg| !arg.contains("secret")));
        }
    }

    #[test]
    fn flat_data_are_split_by_the_same_binary() {
        let options = RunOptions {
            nodes: 3,
            servers: 3,
            ..RunOptions::default()
        };
        let flat = layout(JobData::Flat("/job/data".into()));
        let plan = RunPlan::new("/bin/canoe".into(), flat, options, String::new()).unwrap();
        let split = plan.split.as_ref().unwrap();
        assert_eq!(split.args.join(" "), "data split /job/data --shards=3");
        assert_eq!(plan.shards[2], Path::new("/job/data/2"));
    }

    #[test]
    fn impossible_options_are_refused() {
        assert!(
            plan(RunOptions {
                nodes: 0,
                servers: 0,
                ..RunOptions::default()
            })
            .unwrap_err()
            .to_string()
            .contains("--nodes is 0")
        );
        assert!(
            plan(RunOptions {
                ports_num: 0,
                ..RunOptions::default()
            })
            .unwrap_err()
            .to_string()
            .contains("--ports_num")
        );
        for flag in ["--trainer_id=3", "--local=1", "-pservers=x", "--nics"] {
            let options = RunOptions {
                trainer_flags: vec![flag.into()],
                ..RunOptions::default()
            };
            assert!(
                matches!(plan(options), Err(PlanError::Reserved { .. })),
                "{flag}"
            );
        }
    }
}
