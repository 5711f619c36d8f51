//! Roles and processes: a node runs one trainer and one server, each a process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a process does in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A parameter server: holds a part of the model.
    Pserver,
    /// Reads a shard of the data and computes gradients.
    Trainer,
}

impl Role {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Role::Pserver => "server",
            Role::Trainer => "trainer",
        }
    }
}

/// One process of the job: the role and the id of its node, which a restart keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Server or trainer.
    pub role: Role,
    /// The node, counted from 0; v1's trainer id.
    pub node: u32,
}

impl ProcessId {
    /// The parameter server of a node.
    pub const fn pserver(node: u32) -> Self {
        Self {
            role: Role::Pserver,
            node,
        }
    }

    /// The trainer of a node.
    pub const fn trainer(node: u32) -> Self {
        Self {
            role: Role::Trainer,
            node,
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Pserver => "pserver",
            Role::Trainer => "trainer",
        };
        write!(f, "{role} {}", self.node)
    }
}

/// The name for which the certificates of servers are made: trainers connect to addresses that no certificate could
/// list, so all servers of a job share this one.
pub const SERVER_NAME: &str = "pserver";

/// The environment variable through which servers and trainers receive the job token. No other process may see it.
pub const TOKEN_VARIABLE: &str = "CANOE_JOB_TOKEN";
