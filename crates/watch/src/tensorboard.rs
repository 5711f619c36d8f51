//! Event files that TensorBoard reads: records with checksums around protobuf messages, both written by hand.
//!
//! A record is its length (8 bytes), a checksum of the length, the message, and a checksum of the message. Only one
//! message is needed, `Event` with its summary of scalars and histograms.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use words::statistics::ParameterStatistics;

/// Writes one event file.
#[derive(Debug)]
pub struct EventFile {
    file: BufWriter<File>,
}

impl EventFile {
    /// Creates a file in a folder; TensorBoard finds it by its name.
    pub fn create(folder: &Path, t: f64, host: &str) -> io::Result<EventFile> {
        std::fs::create_dir_all(folder)?;
        let mut number = 0;
        let file = loop {
            let name = format!("events.out.tfevents.{:010}.{host}.{number}", t as u64);
            match File::create_new(folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1
                }
                file => break file?,
            }
        };
        let mut file = EventFile {
            file: BufWriter::new(file),
        };
        let mut event = head(t, 0);
        string(&mut event, 3, "brain.Event:2");
        file.record(&event)?;
        Ok(file)
    }

    /// Writes scalar values at a step.
    pub fn scalars(&mut self, t: f64, step: u64, values: &[(&str, f64)]) -> io::Result<()> {
        let mut summary = Vec::new();
        for (tag, number) in values {
            let mut value = Vec::new();
            string(&mut value, 1, tag);
            key(&mut value, 2, FIXED32);
            value.extend_from_slice(&(*number as f32).to_le_bytes());
            bytes(&mut summary, 1, &value);
        }
        self.summary(t, step, &summary)
    }

    /// Writes histograms of parameter values at a step.
    pub fn histograms(
        &mut self,
        t: f64,
        step: u64,
        parameters: &[ParameterStatistics],
    ) -> io::Result<()> {
        let mut summary = Vec::new();
        for parameter in parameters
            .iter()
            .filter(|p| p.count > 0 && p.mean.is_finite())
        {
            let mut value = Vec::new();
            string(&mut value, 1, &parameter.name);
            bytes(&mut value, 5, &histogram(parameter));
            bytes(&mut summary, 1, &value);
        }
        self.summary(t, step, &summary)
    }

    /// Training continues from this step: TensorBoard discards what the files have for later steps.
    pub fn continues_from(&mut self, t: f64, step: u64) -> io::Result<()> {
        let mut session = Vec::new();
        key(&mut session, 1, VARINT);
        varint(&mut session, 1);
        let mut event = head(t, step);
        bytes(&mut event, 7, &session);
        self.record(&event)
    }

    /// Makes readers see what was written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn summary(&mut self, t: f64, step: u64, summary: &[u8]) -> io::Result<()> {
        let mut event = head(t, step);
        bytes(&mut event, 5, summary);
        self.record(&event)
    }

    fn record(&mut self, message: &[u8]) -> io::Result<()> {
        self.file.write_all(&framed(message))
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend_from_slice(&masked(checksum(&length)).to_le_bytes());
    record.extend_from_slice(message);
    record.extend_from_slice(&masked(checksum(message)).to_le_bytes());
    record
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

fn head(t: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, t);
    key(&mut event, 2, VARINT);
    varint(&mut event, step);
    event
}

fn histogram(parameter: &ParameterStatistics) -> Vec<u8> {
    let mut out = Vec::new();
    let count = parameter.count as f64;
    for (field, number) in [
        (1, parameter.min),
        (2, parameter.max),
        (3, count),
        (4, parameter.mean * count),
        (5, parameter.squares),
    ] {
        double(&mut out, field, number);
    }
    let bins = parameter.histogram.len().max(1) as f64;
    let step = (parameter.max - parameter.min) / bins;
    let limits = (1..=parameter.histogram.len()).map(|bin| {
        // Even if all values are equal, the limits of the buckets must increase.
        let limit = parameter.min + step * bin as f64;
        if step > 0.0 {
            limit
        } else {
            limit + f64::EPSILON * bin as f64
        }
    });
    packed(&mut out, 6, limits);
    packed(
        &mut out,
        7,
        parameter.histogram.iter().map(|count| *count as f64),
    );
    out
}

fn key(out: &mut Vec<u8>, field: u8, kind: u8) {
    out.push(field << 3 | kind);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn double(out: &mut Vec<u8>, field: u8, value: f64) {
    key(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    key(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn string(out: &mut Vec<u8>, field: u8, value: &str) {
    bytes(out, field, value.as_bytes());
}

fn packed(out: &mut Vec<u8>, field: u8, values: impl Iterator<Item = f64>) {
    let values: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
    bytes(out, field, &values);
}

/// CRC-32C (Castagnoli), bit-reversed, as the format demands.
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let fold = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8;
    !bytes.iter().fold(!0, fold)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Checksums are stored masked, because checksums of data that contain checksums are weak.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn a_file_is_a_row_of_framed_messages() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let mut file = EventFile::create(folder.path(), 1.5, "host").unwrap();
            file.scalars(2.0, 300, &[("cost", 0.5)]).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        names.sort();
        assert_eq!(names.len(), 2);
        let mut rest = &std::fs::read(&names[0]).unwrap()[..];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            assert_eq!(framed(&rest[12..12 + length]), rest[..16 + length]);
            messages.push(rest[12..12 + length].to_vec());
            rest = &rest[16 + length..];
        }
        assert_eq!(messages.len(), 2);
        assert!(messages[0].ends_with(b"\x1a\x0dbrain.Event:2"));
        // time, step 300, summary { value { tag "cost" simple_value 0.5 } }
        let want = b"\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04cost\x15\0\0\0\x3f";
        assert_eq!(messages[1], want);
    }
}
