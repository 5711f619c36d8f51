//! Sorts the row ids of a request by service and shard, so that a server goes through its shards once.

use crate::data::Ticket;
use crate::shard::{SHARDS, row_shard, service_of};

/// The ids of one request of one table in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct OrderedIds {
    /// The ids in the caller's order.
    asked: Vec<u32>,
    /// The ids by service, then shard, then ascending.
    pub(super) ids: Vec<u32>,
    /// `places[i]`: the index of `ids[i]` in the caller's list.
    pub(super) places: Vec<u32>,
    /// `ids[bounds[k]..bounds[k + 1]]` go to service k.
    pub(super) bounds: Vec<usize>,
    /// A ticket from each service for the rows of the last pull.
    pub(super) tickets: Vec<Option<Ticket>>,
    shards: Vec<u16>,
}

impl OrderedIds {
    /// Accepts a strictly ascending list of ids below `rows`. Returns true if it is the same list as before.
    pub(super) fn set(
        &mut self,
        table_hash: u64,
        ids: &[u32],
        rows: u64,
        services: u32,
    ) -> Result<bool, String> {
        if self.bounds.len() == services as usize + 1 && self.asked == ids {
            return Ok(true);
        }
        if let Some(at) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(format!(
                "row ids must ascend strictly: {} stands before {}",
                ids[at],
                ids[at + 1]
            ));
        }
        if let Some(last) = ids.last().filter(|last| u64::from(**last) >= rows) {
            return Err(format!("row {last} is outside of the table's {rows} rows"));
        }
        self.asked.clear();
        self.asked.extend_from_slice(ids);
        self.sort(table_hash, services);
        self.tickets.clear();
        self.tickets.resize(services as usize, None);
        Ok(false)
    }

    /// Counting sort by (service, shard); stable, so ids ascend inside a shard.
    fn sort(&mut self, table_hash: u64, services: u32) {
        let count = self.asked.len();
        self.shards.clear();
        self.shards.extend(
            self.asked
                .iter()
                .map(|id| row_shard(table_hash, *id) as u16),
        );
        let mut sizes = vec![0_u32; SHARDS as usize];
        for shard in &self.shards {
            sizes[*shard as usize] += 1;
        }
        let mut next = vec![0_u32; SHARDS as usize];
        self.bounds.clear();
        self.bounds.push(0);
        let mut at = 0;
        for service in 0..services {
            for shard in (0..SHARDS).filter(|shard| service_of(*shard, services) == service) {
                next[shard as usize] = at;
                at += sizes[shard as usize];
            }
            self.bounds.push(at as usize);
        }
        self.ids.resize(count, 0);
        self.places.resize(count, 0);
        for (place, (id, shard)) in self.asked.iter().zip(&self.shards).enumerate() {
            let slot = next[*shard as usize] as usize;
            next[*shard as usize] += 1;
            self.ids[slot] = *id;
            self.places[slot] = place as u32;
        }
    }

    /// Forgets the tickets (a new generation).
    pub(super) fn forget(&mut self) {
        self.tickets.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_id_goes_to_its_service_in_shard_order(set in prop::collection::btree_set(0_u32..5000, 0..400), services in 1_u32..9) {
            let ids: Vec<u32> = set.into_iter().collect();
            let mut group = OrderedIds::default();
            prop_assert_eq!(group.set(5, &ids, 5000, services), Ok(false));
            prop_assert_eq!(group.set(5, &ids, 5000, services), Ok(true));
            for k in 0..services as usize {
                let part = &group.ids[group.bounds[k]..group.bounds[k + 1]];
                let keys: Vec<(u32, u32)> = part.iter().map(|id| (row_shard(5, *id), *id)).collect();
                prop_assert!(keys.is_sorted());
                prop_assert!(keys.iter().all(|(shard, _)| shard % services == k as u32));
            }
            for (id, place) in group.ids.iter().zip(&group.places) {
                prop_assert_eq!(*id, ids[*place as usize]);
            }
        }
    }

    #[test]
    fn repeated_descending_and_foreign_ids_are_refused() {
        for ids in [vec![1, 1], vec![2, 1], vec![10]] {
            assert!(
                OrderedIds::default().set(5, &ids, 10, 2).is_err(),
                "{ids:?}"
            );
        }
    }
}
