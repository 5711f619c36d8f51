//! Charts as pixels: smooth lines, dots and small letters on white, and the PNG file around them.

use std::io::Write;

use flate2::{Compression, Crc, write::ZlibEncoder};

use crate::chart::{Anchor, Chart, Paper, SIZE};

/// Pixels for one unit of a chart: screens are fine, and letters of five by seven dots want to be large.
const SCALE: f64 = 2.0;

/// The charts, one below the other, as a PNG file.
pub fn png(charts: &[Chart]) -> Vec<u8> {
    let height = SIZE.1 * charts.len().max(1) as f64;
    let mut pixels = Pixels::new((SIZE.0 * SCALE) as usize, (height * SCALE) as usize);
    for (number, chart) in charts.iter().enumerate() {
        chart.draw(&mut pixels, number as f64 * SIZE.1);
    }
    pixels.png()
}

struct Pixels {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    fn new(width: usize, height: usize) -> Pixels {
        Pixels {
            width,
            height,
            bytes: vec![255; width * height * 3],
        }
    }

    /// Lays a colour over a pixel; `cover` is from 0 to 1.
    fn blend(&mut self, x: usize, y: usize, colour: [u8; 3], cover: f64) {
        if x >= self.width || y >= self.height {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (byte, tint) in self.bytes[at..at + 3].iter_mut().zip(colour) {
            *byte = (f64::from(*byte) * (1.0 - cover) + f64::from(tint) * cover).round() as u8;
        }
    }

    /// A stroke with round ends: each pixel is covered by how near it lies.
    fn stroke(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), radius: f64, colour: [u8; 3]) {
        if ![x0, y0, x1, y1].iter().all(|place| place.is_finite()) {
            return;
        }
        let range = |a: f64, b: f64, most: usize| {
            let first = (a.min(b) - radius - 1.0).clamp(0.0, most as f64) as usize;
            let last = (a.max(b) + radius + 2.0).clamp(0.0, most as f64) as usize;
            first..last
        };
        let (dx, dy) = (x1 - x0, y1 - y0);
        let length = dx * dx + dy * dy;
        for y in range(y0, y1, self.height) {
            for x in range(x0, x1, self.width) {
                let (px, py) = (x as f64 + 0.5 - x0, y as f64 + 0.5 - y0);
                let along = if length > 0.0 {
                    ((px * dx + py * dy) / length).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let distance = (px - along * dx).hypot(py - along * dy);
                let cover = (radius + 0.5 - distance).clamp(0.0, 1.0);
                if cover > 0.0 {
                    self.blend(x, y, colour, cover);
                }
            }
        }
    }

    fn png(&self) -> Vec<u8> {
        let mut rows = Vec::with_capacity(self.bytes.len() + self.height);
        for row in self.bytes.chunks(self.width * 3) {
            rows.push(0);
            rows.extend_from_slice(row);
        }
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        // Writing to memory cannot fail.
        let data = zlib
            .write_all(&rows)
            .and_then(|()| zlib.finish())
            .unwrap_or_default();
        let mut head = Vec::new();
        head.extend_from_slice(&(self.width as u32).to_be_bytes());
        head.extend_from_slice(&(self.height as u32).to_be_bytes());
        head.extend_from_slice(&[8, 2, 0, 0, 0]);
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, body) in [(b"IHDR", &head), (b"IDAT", &data), (b"IEND", &Vec::new())] {
            let mut crc = Crc::new();
            crc.update(kind);
            crc.update(body);
            file.extend_from_slice(&(body.len() as u32).to_be_bytes());
            file.extend_from_slice(kind);
            file.extend_from_slice(body);
            file.extend_from_slice(&crc.sum().to_be_bytes());
        }
        file
    }
}

fn rgb(colour: &str) -> [u8; 3] {
    let part = |at: usize| {
        colour
            .get(at..at + 2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
    };
    [1, 3, 5].map(|at| part(at).unwrap_or(0))
}

impl Paper for Pixels {
    fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let colour = rgb(colour);
        for pair in points.windows(2) {
            let scaled = |(x, y): (f64, f64)| (x * SCALE, y * SCALE);
            self.stroke(
                scaled(pair[0]),
                scaled(pair[1]),
                width * SCALE / 2.0 - 0.3,
                colour,
            );
        }
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let place = (x * SCALE, y * SCALE);
        self.stroke(place, place, 2.6 * SCALE, rgb(colour));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, colour: &str) {
        let colour = rgb(colour);
        let dot = SCALE;
        let width = text.chars().count() as f64 * 6.0 * dot;
        let left = match anchor {
            Anchor::Start => x * SCALE,
            Anchor::Middle => x * SCALE - width / 2.0,
            Anchor::End => x * SCALE - width,
        };
        let top = y * SCALE - 7.0 * dot;
        for (number, letter) in text.chars().enumerate() {
            for (column, bits) in glyph(letter).iter().enumerate() {
                for row in (0..7).filter(|row| bits >> row & 1 == 1) {
                    let px = left + (number * 6 + column) as f64 * dot;
                    let py = top + f64::from(row) * dot;
                    for (dx, dy) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        if px >= 0.0 && py >= 0.0 {
                            self.blend(px as usize + dx, py as usize + dy, colour, 1.0);
                        }
                    }
                }
            }
        }
    }
}

/// Columns of a letter from left to right, the lowest bit on top.
fn glyph(letter: char) -> [u8; 5] {
    let index = (letter as usize).wrapping_sub(' ' as usize);
    GLYPHS
        .get(index)
        .copied()
        .unwrap_or([0x7f, 0x41, 0x41, 0x41, 0x7f])
}

#[rustfmt::skip]
const GLYPHS: [[u8; 5]; 95] = [
    [0x00, 0x00, 0x00, 0x00, 0x00], [0x00, 0x00, 0x5f, 0x00, 0x00], [0x00, 0x07, 0x00, 0x07, 0x00], [0x14, 0x7f, 0x14, 0x7f, 0x14],
    [0x24, 0x2a, 0x7f, 0x2a, 0x12], [0x23, 0x13, 0x08, 0x64, 0x62], [0x36, 0x49, 0x55, 0x22, 0x50], [0x00, 0x05, 0x03, 0x00, 0x00],
    [0x00, 0x1c, 0x22, 0x41, 0x00], [0x00, 0x41, 0x22, 0x1c, 0x00], [0x14, 0x08, 0x3e, 0x08, 0x14], [0x08, 0x08, 0x3e, 0x08, 0x08],
    [0x00, 0x50, 0x30, 0x00, 0x00], [0x08, 0x08, 0x08, 0x08, 0x08], [0x00, 0x60, 0x60, 0x00, 0x00], [0x20, 0x10, 0x08, 0x04, 0x02],
    [0x3e, 0x51, 0x49, 0x45, 0x3e], [0x00, 0x42, 0x7f, 0x40, 0x00], [0x42, 0x61, 0x51, 0x49, 0x46], [0x21, 0x41, 0x45, 0x4b, 0x31],
    [0x18, 0x14, 0x12, 0x7f, 0x10], [0x27, 0x45, 0x45, 0x45, 0x39], [0x3c, 0x4a, 0x49, 0x49, 0x30], [0x01, 0x71, 0x09, 0x05, 0x03],
    [0x36, 0x49, 0x49, 0x49, 0x36], [0x06, 0x49, 0x49, 0x29, 0x1e], [0x00, 0x36, 0x36, 0x00, 0x00], [0x00, 0x56, 0x36, 0x00, 0x00],
    [0x08, 0x14, 0x22, 0x41, 0x00], [0x14, 0x14, 0x14, 0x14, 0x14], [0x00, 0x41, 0x22, 0x14, 0x08], [0x02, 0x01, 0x51, 0x09, 0x06],
    [0x32, 0x49, 0x79, 0x41, 0x3e], [0x7e, 0x11, 0x11, 0x11, 0x7e], [0x7f, 0x49, 0x49, 0x49, 0x36], [0x3e, 0x41, 0x41, 0x41, 0x22],
    [0x7f, 0x41, 0x41, 0x22, 0x1c], [0x7f, 0x49, 0x49, 0x49, 0x41], [0x7f, 0x09, 0x09, 0x09, 0x01], [0x3e, 0x41, 0x49, 0x49, 0x7a],
    [0x7f, 0x08, 0x08, 0x08, 0x7f], [0x00, 0x41, 0x7f, 0x41, 0x00], [0x20, 0x40, 0x41, 0x3f, 0x01], [0x7f, 0x08, 0x14, 0x22, 0x41],
    [0x7f, 0x40, 0x40, 0x40, 0x40], [0x7f, 0x02, 0x0c, 0x02, 0x7f], [0x7f, 0x04, 0x08, 0x10, 0x7f], [0x3e, 0x41, 0x41, 0x41, 0x3e],
    [0x7f, 0x09, 0x09, 0x09, 0x06], [0x3e, 0x41, 0x51, 0x21, 0x5e], [0x7f, 0x09, 0x19, 0x29, 0x46], [0x46, 0x49, 0x49, 0x49, 0x31],
    [0x01, 0x01, 0x7f, 0x01, 0x01], [0x3f, 0x40, 0x40, 0x40, 0x3f], [0x1f, 0x20, 0x40, 0x20, 0x1f], [0x3f, 0x40, 0x38, 0x40, 0x3f],
    [0x63, 0x14, 0x08, 0x14, 0x63], [0x07, 0x08, 0x70, 0x08, 0x07], [0x61, 0x51, 0x49, 0x45, 0x43], [0x00, 0x7f, 0x41, 0x41, 0x00],
    [0x02, 0x04, 0x08, 0x10, 0x20], [0x00, 0x41, 0x41, 0x7f, 0x00], [0x04, 0x02, 0x01, 0x02, 0x04], [0x40, 0x40, 0x40, 0x40, 0x40],
    [0x00, 0x01, 0x02, 0x04, 0x00], [0x20, 0x54, 0x54, 0x54, 0x78], [0x7f, 0x48, 0x44, 0x44, 0x38], [0x38, 0x44, 0x44, 0x44, 0x20],
    [0x38, 0x44, 0x44, 0x48, 0x7f], [0x38, 0x54, 0x54, 0x54, 0x18], [0x08, 0x7e, 0x09, 0x01, 0x02], [0x0c, 0x52, 0x52, 0x52, 0x3e],
    [0x7f, 0x08, 0x04, 0x04, 0x78], [0x00, 0x44, 0x7d, 0x40, 0x00], [0x20, 0x40, 0x44, 0x3d, 0x00], [0x7f, 0x10, 0x28, 0x44, 0x00],
    [0x00, 0x41, 0x7f, 0x40, 0x00], [0x7c, 0x04, 0x18, 0x04, 0x78], [0x7c, 0x08, 0x04, 0x04, 0x78], [0x38, 0x44, 0x44, 0x44, 0x38],
    [0x7c, 0x14, 0x14, 0x14, 0x08], [0x08, 0x14, 0x14, 0x18, 0x7c], [0x7c, 0x08, 0x04, 0x04, 0x08], [0x48, 0x54, 0x54, 0x54, 0x20],
    [0x04, 0x3f, 0x44, 0x40, 0x20], [0x3c, 0x40, 0x40, 0x20, 0x7c], [0x1c, 0x20, 0x40, 0x20, 0x1c], [0x3c, 0x40, 0x30, 0x40, 0x3c],
    [0x44, 0x28, 0x10, 0x28, 0x44], [0x0c, 0x50, 0x50, 0x50, 0x3c], [0x44, 0x64, 0x54, 0x4c, 0x44], [0x00, 0x08, 0x36, 0x41, 0x00],
    [0x00, 0x00, 0x7f, 0x00, 0x00], [0x00, 0x41, 0x36, 0x08, 0x00], [0x10, 0x08, 0x08, 0x10, 0x08],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_cover_what_they_touch() {
        let mut pixels = Pixels::new(20, 10);
        pixels.stroke((2.0, 5.0), (18.0, 5.0), 1.0, [0, 0, 0]);
        let at = |x: usize, y: usize| pixels.bytes[(y * 20 + x) * 3];
        assert!(at(10, 4) < 128 && at(10, 5) < 128);
        assert_eq!((at(10, 0), at(10, 9)), (255, 255));
        pixels.stroke((f64::NAN, 0.0), (1.0, 1.0), 1.0, [0; 3]);
        pixels.stroke((-1e9, -1e9), (1e9, 1e9), 1.0, [0; 3]);
    }

    #[test]
    fn a_file_has_head_data_and_end() {
        let file = png(&[]);
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"));
        // The checksum of the empty last part is known.
        assert!(file.ends_with(b"IEND\xae\x42\x60\x82"));
        assert_eq!(glyph('A'), [0x7e, 0x11, 0x11, 0x11, 0x7e]);
        assert_eq!(glyph('é')[0], 0x7f);
    }
}
