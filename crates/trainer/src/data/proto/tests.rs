//! Files of v1's messages, written byte by byte here.

use std::io::Write;
use std::path::Path;

use nn::batch::{Batch, SlotData};

use super::*;
use crate::data::{DataSource, open as open_source};

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint(content.len() as u64, &mut out);
    out.extend_from_slice(content);
    out
}

fn packed(number: u8, ids: &[u32]) -> Vec<u8> {
    let mut content = Vec::new();
    ids.iter()
        .for_each(|id| varint(u64::from(*id), &mut content));
    bytes(number, &content)
}

fn floats(values: &[f32]) -> Vec<u8> {
    let content: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    bytes(1, &content)
}

/// `is_beginning`, vector slots, ids; then whatever else.
fn sample(beginning: bool, vectors: &[Vec<u8>], ids: &[u32], more: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0x08, u8::from(beginning)];
    vectors.iter().for_each(|slot| out.extend(bytes(2, slot)));
    out.extend(packed(3, ids));
    more.iter().for_each(|piece| out.extend_from_slice(piece));
    out
}

/// A file with a header of (type, dimension) and samples.
fn file(slots: &[(u8, u8)], samples: &[Vec<u8>]) -> Vec<u8> {
    let header: Vec<u8> = slots
        .iter()
        .flat_map(|(kind, dim)| bytes(1, &[0x08, *kind, 0x10, *dim]))
        .collect();
    let mut out = Vec::new();
    for message in std::iter::once(&header).chain(samples) {
        varint(message.len() as u64, &mut out);
        out.extend_from_slice(message);
    }
    out
}

struct Job {
    directory: tempfile::TempDir,
    config: DataConfig,
    inputs: Vec<DataInput>,
}

impl Job {
    fn new(kind: &str, inputs: &[usize], files: &[(&str, Vec<u8>)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut list = String::new();
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).unwrap();
            list += &format!("{name}\n");
        }
        std::fs::write(directory.path().join("list"), list).unwrap();
        let inputs = inputs.iter().enumerate().map(|(at, size)| DataInput {
            name: format!("in{at}"),
            size: *size,
        });
        Self {
            directory,
            config: DataConfig {
                r#type: kind.to_owned(),
                files: Some("list".to_owned()),
                ..DataConfig::default()
            },
            inputs: inputs.collect(),
        }
    }

    fn open(&self) -> Result<DataSource, DataError> {
        let options = DataOptions {
            seed: 1,
            trainer: 0,
            training: false,
            batch_size: 4,
            directory: self.directory.path().to_owned(),
            config_directory: None,
            python: Path::new("python3").to_owned(),
            package: Path::new(".").to_owned(),
            python_path: None,
            workers: None,
            needed: None,
        };
        open_source(&self.config, &self.inputs, &options)
    }

    fn batches(&self) -> Result<Vec<Batch>, DataError> {
        let mut source = self.open()?;
        source.start_pass(0, 0);
        let mut batches = Vec::new();
        while let Some(batch) = source.next_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    }

    fn failure(&self) -> String {
        let error = self.batches().unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

const ALL: [(u8, u8); 4] = [(0, 2), (1, 9), (2, 9), (3, 3)];

fn four_slots(number: u32) -> Vec<u8> {
    let sparse = [floats(&[0.5]), packed(2, &[number + 3])].concat();
    let vectors = [
        floats(&[number as f32, 1.0]),
        packed(2, &[number, 8]),
        sparse,
    ];
    sample(true, &vectors, &[number], &[])
}

#[test]
fn samples_of_every_kind_are_read_and_constants_appended() {
    let first = file(&ALL, &[four_slots(0), four_slots(1)]);
    let second = gzip(&file(&ALL, &[four_slots(2)]));
    let mut job = Job::new("proto", &[2, 9, 9, 3, 1], &[("a", first), ("b.gz", second)]);
    job.config.constant_slots = vec![1.5];
    let batches = job.batches().unwrap();
    assert_eq!((batches.len(), batches[0].samples), (1, 3));
    let slots = &batches[0].slots;
    assert!(slots.iter().all(|slot| slot.sequences.is_none()));
    let dense = SlotData::Dense {
        dim: 2,
        values: vec![0.0, 1.0, 1.0, 1.0, 2.0, 1.0],
    };
    assert_eq!(slots[0].data, dense);
    let binary = SlotData::Binary {
        offsets: vec![0, 2, 4, 6],
        columns: vec![0, 8, 1, 8, 2, 8],
    };
    assert_eq!(slots[1].data, binary);
    let sparse = SlotData::Sparse {
        offsets: vec![0, 1, 2, 3],
        columns: vec![3, 4, 5],
        values: vec![0.5; 3],
    };
    assert_eq!(slots[2].data, sparse);
    assert_eq!(slots[3].data, SlotData::Ids(vec![0, 1, 2]));
    let constant = SlotData::Dense {
        dim: 1,
        values: vec![1.5; 3],
    };
    assert_eq!(slots[4].data, constant);
}

/// A batch has at most so many frames; a sequence that is longer is a batch of its own.
#[test]
fn frames_form_sequences_and_batches_count_frames() {
    let frame = |beginning, id| sample(beginning, &[packed(2, &[id])], &[id], &[]);
    let lengths = [2, 2, 1, 6, 3];
    let mut samples = Vec::new();
    for length in lengths {
        samples.extend((0..length).map(|at| frame(at == 0, at)));
    }
    let job = Job::new(
        "proto",
        &[9, 7],
        &[("a", file(&[(1, 9), (3, 7)], &samples))],
    );
    let batches = job.batches().unwrap();
    let starts = |batch: &Batch| batch.slots[1].sequences.as_deref().unwrap().to_vec();
    let starts: Vec<Vec<u32>> = batches.iter().map(starts).collect();
    assert_eq!(starts, [vec![0, 2, 4], vec![0, 1], vec![0, 6], vec![0, 3]]);
    assert_eq!(batches[3].slots[1].data, SlotData::Ids(vec![0, 1, 2]));
    assert_eq!(batches[3].slots[0].sequences.as_deref().unwrap(), [0, 3]);
}

#[test]
fn sparse_ids_are_sequences_in_proto_sequence() {
    let slots = [(1, 9), (1, 9), (3, 3)];
    let nested = |lengths: &[u32]| bytes(5, &[vec![0x08, 1], packed(2, lengths)].concat());
    let two = |ids: &[u32]| [packed(2, ids), packed(2, &[1, 2, 3])];
    let samples = [
        sample(true, &two(&[5, 6]), &[1], &[nested(&[1, 2])]),
        sample(true, &two(&[]), &[u32::MAX], &[nested(&[3])]),
    ];
    let job = Job::new(
        "proto_sequence",
        &[9, 9, 3],
        &[("a", file(&slots, &samples))],
    );
    let batches = job.batches().unwrap();
    let read = &batches[0].slots;
    assert_eq!(read[0].data, SlotData::Ids(vec![5, 6, u32::MAX]));
    assert_eq!(read[0].sequences.as_deref().unwrap(), [0, 2, 3]);
    assert_eq!(read[1].sequences.as_deref().unwrap(), [0, 3, 6]);
    assert_eq!(read[1].subsequences.as_deref().unwrap(), [0, 1, 3, 6]);
    assert_eq!(read[2].data, SlotData::Ids(vec![1, u32::MAX]));
    assert_eq!(read[2].sequences.as_deref().unwrap(), [0, 1, 2]);
}

#[test]
fn mistakes_are_named() {
    let index = |id| sample(true, &[], &[id], &[]);
    let cases = [
        (
            vec![(3, 3)],
            vec![index(3)],
            "sample 1: slot in0 has the value 3, it must be below 3",
        ),
        (
            vec![(3, 3)],
            vec![sample(false, &[], &[0], &[])],
            "begins inside a sequence",
        ),
        (
            vec![(0, 2), (3, 3)],
            vec![index(0)],
            "does not have the slots of the header",
        ),
        (
            vec![(0, 2), (3, 3)],
            vec![sample(true, &[floats(&[1.0])], &[0], &[])],
            "a vector does not have the form of its slot",
        ),
        (
            vec![(5, 3)],
            vec![],
            "slots of type Other(5) are not supported",
        ),
        (vec![(3, 3), (0, 2)], vec![], "vectors have to come first"),
        (vec![], vec![], "does not begin with a header of slots"),
        (vec![(3, 3)], vec![vec![0x1a, 9]], "end inside a field"),
    ];
    for (slots, samples, want) in cases {
        let sizes: Vec<usize> = slots
            .iter()
            .map(|slot: &(u8, u8)| usize::from(slot.1))
            .collect();
        let job = Job::new("proto", &sizes, &[("a", file(&slots, &samples))]);
        let got = job.failure();
        assert!(got.contains(want), "expected {want}, got {got}");
    }
    let whole = file(&[(3, 3)], &[index(1)]);
    let cut = whole[..whole.len() - 1].to_vec();
    assert!(Job::new("proto", &[3], &[("a", cut)]).batches().is_err());
    let other = file(&[(3, 4)], &[index(1)]);
    let job = Job::new("proto", &[3], &[("a", whole), ("b", other)]);
    assert!(job.failure().contains("not those of the first file"));
}

#[test]
fn no_changed_byte_panics() {
    let good = file(&ALL, &[four_slots(0), four_slots(1)]);
    for at in 0..good.len() {
        for value in [0, 1, 127, 255] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = Job::new("proto", &[2, 9, 9, 3], &[("a", bad)]).batches();
        }
    }
}
