//! Which servers hold tables, and which service holds each block of a dense table: a pure function of the job with the
//! same result in every process.
//!
//! A trainer and a server that exchange anything in a step exchange a packet each way, and a packet costs as much as
//! some ten kilobytes do. So a small model is not spread over all servers. The *holders* are as many as make the step
//! shortest: with `T` trainers, `B` bytes and `S` holders, the host of a holder handles `T` packets of `B / S` bytes as a
//! server and `S` packets as a trainer, which is least where `S * S` is `T * B` divided by the bytes that cost as much as a
//! packet ([`PACKET`]). The other servers hold nothing and take no part in steps. Rows of sparse tables are on all
//! servers, because their number is not known before they are used; so in a job with such a table every server holds part
//! of it, and every trainer exchanges a packet with every server anyway.
//!
//! A large table is cut evenly among the services of the holders; a small one is stored whole on the service that holds
//! the least so far, and the largest tables are placed first.

use crate::shard::{Block, SHARDS, Topology, block_len, block_shard};
use crate::spec::TableSpec;

/// Bytes that cost about as much CPU time as a packet does by itself; also the largest part of a table that is not cut
/// over all services.
const PACKET: u64 = 64 << 10;

/// Bytes of a value.
const VALUE: u64 = 4;

/// Which services hold which blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMap {
    holders: u32,
    /// For each table, the services of its blocks: a block of shard `s` is on the one at `s` modulo their number. Empty
    /// for a sparse table.
    homes: Vec<Vec<u32>>,
}

impl ShardMap {
    /// The map of a job.
    pub fn new(tables: &[TableSpec], topology: &Topology, trainers: u32) -> Self {
        let holders = holders(tables, topology, trainers);
        let services = holders * topology.ports;
        let dense = tables.iter().enumerate().filter(|(_, table)| !table.sparse);
        let mut largest: Vec<(usize, u64)> = dense.map(|(at, table)| (at, table.len())).collect();
        largest.sort_by_key(|(at, len)| (std::cmp::Reverse(*len), *at));
        let all: u64 = largest.iter().map(|(_, len)| len).sum();
        let share = (all / u64::from(services)).clamp(1, PACKET / VALUE);
        let mut loads = vec![0_u64; services as usize];
        let mut homes = vec![Vec::new(); tables.len()];
        for (at, len) in largest {
            let blocks = len.div_ceil(block_len(len) as u64);
            let most = blocks.min(u64::from(services.min(SHARDS)));
            let width = len.div_ceil(share).clamp(1, most.max(1)) as usize;
            homes[at] = place(&tables[at], width, &mut loads);
        }
        Self { holders, homes }
    }

    /// How many servers hold something: the first ones.
    pub fn holders(&self) -> u32 {
        self.holders
    }

    /// Whether a server holds something, and so takes part in steps.
    pub fn holds(&self, server: u32) -> bool {
        server < self.holders
    }

    /// The blocks of a dense table that a service holds, in order.
    pub fn blocks<'a>(
        &'a self,
        table: usize,
        spec: &TableSpec,
        service: u32,
    ) -> impl Iterator<Item = Block> + 'a {
        let homes = &self.homes[table];
        let hash = spec.hash();
        blocks(spec.len()).filter(move |block| {
            let shard = block_shard(hash, block.index) as usize;
            !homes.is_empty() && homes[shard % homes.len()] == service
        })
    }

    /// A hash of the map, below 2^53. Servers with another map hold other blocks.
    pub fn fingerprint(&self) -> u64 {
        let text = format!("{} {:?}", self.holders, self.homes);
        crate::shard::table_hash(&text) >> 11
    }
}

/// How many servers hold tables.
fn holders(tables: &[TableSpec], topology: &Topology, trainers: u32) -> u32 {
    if tables.iter().any(|table| table.sparse) {
        return topology.servers.max(1);
    }
    let bytes: u128 = tables.iter().map(|t| u128::from(t.len() * VALUE)).sum();
    let work = u128::from(trainers) * bytes;
    let packet = u128::from(PACKET) * u128::from(topology.ports.max(1));
    let enough = |servers: &u32| u128::from(*servers).pow(2) * packet >= work;
    let most = topology.servers.max(1);
    (1..most).find(enough).unwrap_or(most)
}

/// All blocks of a table of `len` values.
fn blocks(len: u64) -> impl Iterator<Item = Block> {
    let block = block_len(len) as u64;
    (0..len.div_ceil(block)).map(move |index| Block {
        index,
        start: (index * block) as usize,
        len: block.min(len - index * block) as usize,
    })
}

/// Puts a table on the `width` services that hold the least so far, its largest part on the one with the least.
fn place(table: &TableSpec, width: usize, loads: &mut [u64]) -> Vec<u32> {
    let mut parts = vec![0_u64; width];
    for block in blocks(table.len()) {
        let shard = block_shard(table.hash(), block.index) as usize;
        parts[shard % width] += block.len as u64;
    }
    let mut least: Vec<usize> = (0..loads.len()).collect();
    least.sort_by_key(|service| (loads[*service], *service));
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by_key(|part| (std::cmp::Reverse(parts[*part]), *part));
    let mut homes = vec![0; width];
    for (part, service) in order.into_iter().zip(least) {
        homes[part] = service as u32;
        loads[service] += parts[part];
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(name: &str, rows: u64, cols: u32, sparse: bool) -> TableSpec {
        TableSpec {
            name: name.to_owned(),
            rows,
            cols,
            sparse,
            rule: String::new(),
            initial: String::new(),
            values: None,
        }
    }

    fn topology(servers: u32, ports: u32) -> Topology {
        Topology {
            servers,
            ports,
            sparse_ports: 0,
        }
    }

    #[test]
    fn a_small_model_is_on_few_servers_and_a_large_one_on_all() {
        let holders = |len, servers, trainers| {
            ShardMap::new(
                &[table("w", len, 1, false)],
                &topology(servers, 1),
                trainers,
            )
            .holders()
        };
        assert_eq!(holders(100, 50, 200), 2);
        assert_eq!(holders(60_132, 8, 8), 6);
        assert_eq!(holders(60_132, 32, 32), 11);
        assert_eq!(holders(60_132, 50, 200), 28);
        assert_eq!(holders(25_000_000, 50, 2), 50);
        assert_eq!(holders(60_132, 2, 2), 2);
    }

    #[test]
    fn rows_are_on_all_servers() {
        let tables = [table("w", 3, 1, false), table("emb", 9, 1, true)];
        let map = ShardMap::new(&tables, &topology(4, 1), 2);
        assert_eq!(map.holders(), 4);
        assert!(map.holds(3));
        assert_eq!((0..4).flat_map(|k| map.blocks(1, &tables[1], k)).count(), 0);
    }

    #[test]
    fn a_job_without_tables_has_one_holder() {
        assert_eq!(ShardMap::new(&[], &topology(4, 2), 3).holders(), 1);
    }

    #[test]
    fn small_tables_are_whole() {
        let tables: Vec<TableSpec> = (0..40)
            .map(|at| table(&format!("bias{at}"), 2_000, 1, false))
            .collect();
        let map = ShardMap::new(&tables, &topology(4, 1), 4);
        assert_eq!(map.holders(), 4);
        assert!(map.homes.iter().all(|homes| homes.len() == 1));
        for service in 0..4 {
            let whole = map.homes.iter().filter(|homes| homes[0] == service);
            assert_eq!(whole.count(), 10);
        }
    }

    #[test]
    fn maps_that_differ_have_different_fingerprints() {
        let tables = [table("w", 60_002, 1, false)];
        let two = ShardMap::new(&tables, &topology(2, 1), 2);
        let three = ShardMap::new(&tables, &topology(3, 1), 2);
        assert_ne!(two.fingerprint(), three.fingerprint());
        assert!(two.fingerprint() < 1 << 53);
    }

    proptest! {
        #[test]
        fn every_block_has_one_owner_and_the_load_is_even(
            lens in prop::collection::vec(prop_oneof![1_u64..5_000, 5_000_u64..300_000], 1..12),
            servers in 1_u32..40,
            ports in 1_u32..4,
            trainers in 1_u32..300,
        ) {
            let tables: Vec<TableSpec> = lens
                .iter()
                .enumerate()
                .map(|(at, len)| table(&format!("t{at}"), *len, 1, false))
                .collect();
            let topology = topology(servers, ports);
            let map = ShardMap::new(&tables, &topology, trainers);
            prop_assert_eq!(&map, &ShardMap::new(&tables, &topology, trainers));
            let mut loads = vec![0_u64; topology.dense_services() as usize];
            let mut parts = Vec::new();
            for (at, spec) in tables.iter().enumerate() {
                let mut owned: Vec<Block> = Vec::new();
                for service in 0..topology.dense_services() {
                    let own: Vec<Block> = map.blocks(at, spec, service).collect();
                    let part: u64 = own.iter().map(|block| block.len as u64).sum();
                    prop_assert!(part == 0 || map.holds(service / ports));
                    loads[service as usize] += part;
                    parts.push(part);
                    owned.extend(own);
                }
                owned.sort_by_key(|block| block.start);
                let mut next = 0;
                for block in &owned {
                    prop_assert_eq!(block.start, next);
                    next += block.len;
                }
                prop_assert_eq!(next as u64, spec.len());
            }
            // As with any list of parts that go where there is least, largest first: nobody has more than an even share
            // and the largest part.
            let services = u64::from(map.holders() * ports);
            let all: u64 = lens.iter().sum();
            let most = loads.iter().max().unwrap();
            let part = parts.iter().max().unwrap();
            prop_assert!(*most <= all / services + part, "{} of {}, part {}", most, all, part);
        }
    }
}
