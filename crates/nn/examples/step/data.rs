//! Generated batches with the shapes of the demos: few words make up most of a text, few movies most ratings.

use nn::noise::Noise;
use nn::{Batch, Slot, SlotData};

const BATCHES: u64 = 4;

fn batches(make: impl Fn(Noise) -> Batch) -> Vec<Batch> {
    (0..BATCHES)
        .map(|batch| make(Noise::new(9).part(batch)))
        .collect()
}

/// Draws from `0..n` with probability proportional to `1 / (i + 1)^a`.
struct Zipf(Vec<f32>);

impl Zipf {
    fn new(n: usize, a: f64) -> Self {
        let mut sums: Vec<f64> = Vec::with_capacity(n);
        for i in 0..n {
            sums.push(sums.last().unwrap_or(&0.0) + 1.0 / ((i + 1) as f64).powf(a));
        }
        let total = sums[n - 1];
        Self(sums.iter().map(|sum| (sum / total) as f32).collect())
    }

    fn draw(&self, noise: Noise, place: u64) -> u32 {
        let u = noise.uniform(place);
        self.0.partition_point(|&sum| sum < u).min(self.0.len() - 1) as u32
    }
}

fn dense(noise: Noise, rows: usize, dim: usize) -> Slot {
    Slot::plain(SlotData::Dense {
        dim,
        values: (0..rows * dim)
            .map(|i| noise.uniform(i as u64) - 0.5)
            .collect(),
    })
}

/// 1600 rows of 256 values in and out.
pub(crate) fn mlp() -> Vec<Batch> {
    batches(|noise| Batch {
        samples: 1600,
        slots: vec![
            dense(noise.part(0), 1600, 256),
            dense(noise.part(1), 1600, 256),
        ],
    })
}

/// 1600 ratings; movies, their titles and users repeat.
pub(crate) fn recommendation() -> Vec<Batch> {
    let (movies, words) = (Zipf::new(3952, 0.8), Zipf::new(4999, 1.0));
    let fixed = Noise::new(77);
    batches(|noise| {
        let samples = 1600u64;
        let users: Vec<u32> = (0..samples)
            .map(|i| (noise.part(0).bits(i) % 6040) as u32)
            .collect();
        let films: Vec<u32> = (0..samples)
            .map(|i| movies.draw(noise.part(1), i))
            .collect();
        let of_user = |limit: u64, part: u64| {
            users
                .iter()
                .map(|&u| (fixed.part(part).bits(u64::from(u)) % limit) as u32)
                .collect::<Vec<u32>>()
        };
        let (mut titles, mut offsets, mut genres) = (Vec::new(), vec![0u32], Vec::new());
        for &film in &films {
            let own = fixed.part(10).part(u64::from(film));
            titles.extend((0..5 + own.bits(0) % 11).map(|i| words.draw(own, 1 + i)));
            offsets.push(titles.len() as u32);
            genres.extend((0..18).map(|i| {
                if own.bits(100 + i).is_multiple_of(6) {
                    1.0f32
                } else {
                    0.0
                }
            }));
        }
        Batch {
            samples: samples as usize,
            slots: vec![
                Slot::plain(SlotData::Ids(films)),
                Slot::sequence(SlotData::Ids(titles), offsets),
                Slot::plain(SlotData::Dense {
                    dim: 18,
                    values: genres,
                }),
                Slot::plain(SlotData::Ids(of_user(2, 1))),
                Slot::plain(SlotData::Ids(of_user(7, 2))),
                Slot::plain(SlotData::Ids(of_user(21, 3))),
                Slot::plain(SlotData::Ids(users)),
                dense(noise.part(2), samples as usize, 1),
            ],
        }
    })
}

/// 128 texts of 20 to 140 words, of 30,000.
pub(crate) fn text() -> Vec<Batch> {
    let words = Zipf::new(30_000, 1.0);
    batches(|noise| {
        let (mut ids, mut offsets) = (Vec::new(), vec![0u32]);
        for sample in 0..128 {
            let own = noise.part(sample);
            ids.extend((0..20 + own.bits(0) % 121).map(|i| words.draw(own, 1 + i)));
            offsets.push(ids.len() as u32);
        }
        Batch {
            samples: 128,
            slots: vec![
                Slot::sequence(SlotData::Ids(ids), offsets),
                Slot::plain(SlotData::Ids((0..128).map(|i| i % 2).collect())),
            ],
        }
    })
}

/// 128 samples of 60 distinct words, of 30,000.
pub(crate) fn bag_of_words() -> Vec<Batch> {
    let words = Zipf::new(30_000, 1.1);
    batches(|noise| {
        let (mut columns, mut offsets) = (Vec::new(), vec![0u32]);
        for sample in 0..128 {
            let mut row = std::collections::BTreeSet::new();
            let mut place = 0;
            while row.len() < 60 {
                row.insert(words.draw(noise.part(sample), place));
                place += 1;
            }
            columns.extend(row);
            offsets.push(columns.len() as u32);
        }
        Batch {
            samples: 128,
            slots: vec![
                Slot::plain(SlotData::Binary { offsets, columns }),
                Slot::plain(SlotData::Ids((0..128).map(|i| i % 2).collect())),
            ],
        }
    })
}
