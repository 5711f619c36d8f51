//! Which shard a block or a row belongs to, and which service holds a row: pure functions with the same result in every
//! process.
//!
//! Tables are cut into pieces (dense: blocks of neighbouring values; sparse: rows), each piece belongs to one
//! of [`SHARDS`] logical shards, and shards are distributed over services: those of dense tables by
//! [`crate::shard_map`], those of sparse tables by [`service_of`]. A service is one port of one server.
//! The piece-to-shard half does not depend on the number of servers, so a snapshot restores on another number.

use serde::{Deserialize, Serialize};

/// Number of logical shards. Must never change: it is part of the snapshot format.
pub const SHARDS: u32 = 1024;

const SMALLEST_BLOCK: usize = 1024;
const LARGEST_BLOCK: usize = 65_536;

/// A hash of a table's name (64-bit FNV-1a, then mixed).
pub fn table_hash(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    mix(hash)
}

/// The hash of a row of a table; its upper ten bits are the shard, the 32 bits below them index inside a shard.
#[inline(always)]
pub fn row_hash(table_hash: u64, row: u32) -> u64 {
    mix(table_hash ^ u64::from(row))
}

/// The shard of a row hash.
#[inline(always)]
pub fn shard_of_hash(hash: u64) -> u32 {
    (hash >> 54) as u32
}

/// The logical shard of a row of a sparse table.
#[inline(always)]
pub fn row_shard(table_hash: u64, row: u32) -> u32 {
    shard_of_hash(row_hash(table_hash, row))
}

/// The logical shard of a block of a dense table: neighbours go to neighbouring shards, so load is even.
pub(crate) fn block_shard(table_hash: u64, block: u64) -> u32 {
    (table_hash.wrapping_add(block) % u64::from(SHARDS)) as u32
}

/// The service (0..services) that holds a shard of a sparse table.
#[inline(always)]
pub fn service_of(shard: u32, services: u32) -> u32 {
    shard % services
}

/// Values in a block of a dense table of `len` values: a power of two, about a thousandth of the table.
pub(crate) fn block_len(len: u64) -> usize {
    let ideal = (len / u64::from(SHARDS)).min(LARGEST_BLOCK as u64) as usize;
    ideal
        .next_power_of_two()
        .clamp(SMALLEST_BLOCK, LARGEST_BLOCK)
}

/// A run of values of a dense table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Index of the block in its table.
    pub index: u64,
    /// Offset of its first value in the table.
    pub start: usize,
    /// Number of values; the last block of a table may be short.
    pub len: usize,
}

/// How many servers and ports a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Server processes.
    pub servers: u32,
    /// Ports of each server for dense tables (`--ports_num`).
    pub ports: u32,
    /// Ports of each server for sparse tables (`--ports_num_for_sparse`); 0: sparse tables use the dense ports.
    pub sparse_ports: u32,
}

impl Topology {
    /// Number of services of dense tables. Service `k` is port `k % ports` of server `k / ports`.
    pub fn dense_services(&self) -> u32 {
        self.servers * self.ports
    }

    /// Number of services of sparse tables.
    pub fn sparse_services(&self) -> u32 {
        self.servers * self.sparse_width()
    }

    /// Ports of each server that hold sparse tables.
    pub(crate) fn sparse_width(&self) -> u32 {
        if self.sparse_ports == 0 {
            self.ports
        } else {
            self.sparse_ports
        }
    }

    /// All ports of a server.
    pub fn ports_of_server(&self) -> u32 {
        self.ports + self.sparse_ports
    }

    /// The dense service on `port` (0..ports_of_server) of `server`, if that port holds dense tables.
    pub fn dense_service_at(&self, server: u32, port: u32) -> Option<u32> {
        (port < self.ports).then(|| server * self.ports + port)
    }

    /// The sparse service on `port` of `server`, if that port holds sparse tables.
    pub fn sparse_service_at(&self, server: u32, port: u32) -> Option<u32> {
        if self.sparse_ports == 0 {
            self.dense_service_at(server, port)
        } else {
            (port >= self.ports).then(|| server * self.sparse_ports + (port - self.ports))
        }
    }
}

#[inline(always)]
fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_spread_evenly_whatever_their_stride() {
        for stride in [1_u32, 2, 64, 1024, 4096, 65_536] {
            let mut counts = vec![0_u32; SHARDS as usize];
            for i in 0..65_536_u32 {
                counts[row_shard(table_hash("emb"), i.wrapping_mul(stride)) as usize] += 1;
            }
            let most = counts.iter().max().unwrap();
            assert!(
                *most < 130,
                "stride {stride}: a shard got {most} of mean 64"
            );
        }
    }

    #[test]
    fn sparse_tables_share_dense_ports_when_they_have_none() {
        let shared = Topology {
            servers: 2,
            ports: 3,
            sparse_ports: 0,
        };
        assert_eq!(shared.sparse_services(), 6);
        assert_eq!(shared.sparse_service_at(1, 2), Some(5));
        let own = Topology {
            servers: 2,
            ports: 1,
            sparse_ports: 2,
        };
        assert_eq!(own.sparse_service_at(1, 0), None);
        assert_eq!(own.sparse_service_at(1, 2), Some(3));
        assert_eq!(own.dense_service_at(1, 1), None);
    }

    #[test]
    fn the_quick_start_table_is_cut_as_in_v1() {
        assert_eq!(block_len(60_002), 1024);
    }
}
