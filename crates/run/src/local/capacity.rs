//! Refuses more nodes than a machine can run. Pure; the refusal has the figures that justify it.

/// With more nodes per core, the nodes only take turns and the job does not become faster.
const NODES_PER_CORE: u64 = 8;

/// Memory of a node without its model and data: a server, a trainer, and Python for its data.
const NODE_BYTES: u64 = 150_000_000;

/// What a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: u64,
    /// Bytes of free memory; `None` if the system does not report it.
    pub free_memory: Option<u64>,
}

/// There are more nodes than the cores or the free memory of the machine allow.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{nodes} nodes are {processes} processes on {cores} cores and need about {needed} GB of memory besides their models{free}: \
     they would hardly make progress. Use at most --nodes {most} here, or --force"
)]
pub struct TooManyNodes {
    nodes: u32,
    processes: u64,
    cores: u64,
    needed: String,
    free: String,
    most: u64,
}

/// Checks that the machine has the cores and the memory for these nodes and servers.
pub fn check(nodes: u32, servers: u32, machine: Machine) -> Result<(), TooManyNodes> {
    let by_cores = machine.cores.max(1) * NODES_PER_CORE;
    let by_memory = machine.free_memory.map(|free| free / NODE_BYTES);
    let most = by_memory.map_or(by_cores, |most| most.min(by_cores)).max(1);
    let wanted = u64::from(nodes.max(servers));
    if wanted <= most {
        return Ok(());
    }
    let gigabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e9);
    Err(TooManyNodes {
        nodes,
        processes: u64::from(nodes) + u64::from(servers),
        cores: machine.cores,
        needed: gigabytes(wanted * NODE_BYTES),
        free: machine
            .free_memory
            .map(|free| format!(" ({} GB are free)", gigabytes(free)))
            .unwrap_or_default(),
        most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_memory_limit_the_nodes() {
        let small = Machine {
            cores: 2,
            free_memory: Some(20_000_000_000),
        };
        assert_eq!(check(16, 16, small), Ok(()));
        let error = check(500, 500, small).unwrap_err().to_string();
        for words in [
            "1000 processes on 2 cores",
            "75.0 GB",
            "20.0 GB are free",
            "--nodes 16",
            "--force",
        ] {
            assert!(error.contains(words), "{error}");
        }
        let tight = Machine {
            cores: 64,
            free_memory: Some(1_000_000_000),
        };
        assert!(
            check(7, 7, tight)
                .unwrap_err()
                .to_string()
                .contains("--nodes 6")
        );
        let unknown = Machine {
            cores: 1,
            free_memory: None,
        };
        assert_eq!(check(8, 1, unknown), Ok(()));
        assert!(check(1, 9, unknown).is_err());
    }
}
