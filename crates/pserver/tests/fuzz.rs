//! A bounded fuzzing of the parsers: mutations of the files in `corpus/`, from fixed seeds. `ROUNDS=n` runs longer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::snapshot::format::{FormatError, SnapshotPartReader};
use pserver::snapshot::manifest::SnapshotManifest;
use std::path::Path;
use support::noise;
use wire::data::{Reply, Request, Stamped};
use wire::frame::{FrameKind, FrameLimits, HEAD, Head};
use wire::message::{Command, Heartbeat, Hello, from_body};

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(name);
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn rounds() -> u64 {
    std::env::var("ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_000)
}

/// Changes some bytes, and sometimes cuts, repeats or lengthens.
fn mutate(bytes: &[u8], round: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for change in 0..1 + noise(&[round, 1]) % 5 {
        let at = (noise(&[round, 2, change]) % bytes.len() as u64) as usize;
        bytes[at] = match noise(&[round, 3, change]) % 4 {
            0 => 0xff,
            1 => 0,
            2 => bytes[at] ^ (1 << (noise(&[round, 4, change]) % 8)),
            _ => noise(&[round, 5, change]) as u8,
        };
    }
    match noise(&[round, 6]) % 8 {
        0 => bytes.truncate((noise(&[round, 7]) % (bytes.len() as u64 + 1)) as usize),
        1 => bytes.extend_from_within(bytes.len() / 2..),
        _ => {}
    }
    bytes
}

fn read_part(bytes: &[u8]) -> Result<usize, FormatError> {
    let mut reader = SnapshotPartReader::new(bytes, bytes.len() as u64)?;
    let mut sections = 0;
    while reader.next_section()?.is_some() {
        sections += 1;
    }
    Ok(sections)
}

#[test]
fn snapshot_parts() {
    let corpus = corpus("snapshots");
    let part = corpus
        .iter()
        .find(|bytes| bytes.starts_with(b"CANOPART"))
        .unwrap();
    assert_eq!(read_part(part).unwrap(), 2);
    for round in 0..rounds() {
        let damaged = mutate(part, round);
        let unharmed = damaged == *part;
        assert_eq!(read_part(&damaged).is_ok(), unharmed, "round {round}");
    }
}

#[test]
fn manifests() {
    let corpus = corpus("snapshots");
    let manifest = corpus.iter().find(|bytes| bytes.starts_with(b"{")).unwrap();
    serde_json::from_slice::<SnapshotManifest>(manifest).unwrap();
    for round in 0..rounds() {
        let _ = serde_json::from_slice::<SnapshotManifest>(&mutate(manifest, round));
    }
}

#[test]
fn frames() {
    for (at, frame) in corpus("frames").iter().enumerate() {
        for round in 0..rounds() / 4 {
            let bytes = mutate(frame, round * 10 + at as u64);
            let Some((head, body)) = bytes.split_first_chunk::<HEAD>() else {
                continue;
            };
            let _ = Head::decode(head, &FrameLimits::STRANGER);
            let _ = Head::decode(head, &FrameLimits::MEMBER);
            for kind in [
                FrameKind::PushDense,
                FrameKind::PushRows,
                FrameKind::PushDenseRows,
                FrameKind::PullRows,
                FrameKind::Initial,
            ] {
                let _ = Stamped::<Request>::decode(kind, body);
            }
            let _ = Stamped::<Reply>::decode(FrameKind::Values, body);
            let _ = from_body::<Hello>(FrameKind::Hello, body);
            let _ = from_body::<Heartbeat>(FrameKind::Heartbeat, body);
            let _ = from_body::<Command>(FrameKind::Command, body);
        }
    }
}
