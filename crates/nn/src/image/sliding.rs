//! Windows that slide over an image, and the matrix with one column per position of the window.
//!
//! [`Sliding::unfold`] writes the pixels in the window: row `(channel, y, x)` of the matrix holds, for every position
//! of the window, the pixel at `(y, x)` inside it; pixels outside the image are 0. [`Sliding::fold_add`] is its
//! adjoint: every entry is added to the pixel it came from.

use std::ops::Range;

/// Windows along one axis of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Size of the image in pixels.
    pub image: usize,
    /// Size of the window in pixels.
    pub window: usize,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Zero pixels before (and after) the image.
    pub padding: usize,
    /// Number of windows.
    pub outputs: usize,
}

impl Axis {
    /// Whether every field that must not be zero is not.
    pub(crate) fn is_valid(&self) -> bool {
        self.image > 0 && self.window > 0 && self.stride > 0 && self.outputs > 0
    }

    /// Index in the image of pixel `offset` of window `output`; `None` if outside.
    fn pixel(&self, output: usize, offset: usize) -> Option<usize> {
        let place = (output * self.stride + offset).checked_sub(self.padding)?;
        (place < self.image).then_some(place)
    }

    /// The windows whose pixel `offset` is inside the image.
    fn windows_with(&self, offset: usize) -> Range<usize> {
        let first = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.image + self.padding)
            .saturating_sub(offset)
            .div_ceil(self.stride);
        let end = end.min(self.outputs);
        first.min(end)..end
    }

    /// The pixels of the image that a window covers.
    pub fn inside(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let end = (start + self.window)
            .saturating_sub(self.padding)
            .min(self.image);
        start.saturating_sub(self.padding).min(end)..end
    }

    /// Number of pixels of a window that are in the image or its padding.
    pub fn covered(&self, output: usize) -> usize {
        let start = output * self.stride;
        self.window
            .min((self.image + 2 * self.padding).saturating_sub(start))
    }

    /// `out[w] = line[pixel offset of window w]`, 0 outside the image.
    fn gather(&self, line: &[f32], offset: usize, out: &mut [f32]) {
        let windows = self.windows_with(offset);
        out[..windows.start].fill(0.0);
        out[windows.end..].fill(0.0);
        if windows.is_empty() {
            return;
        }
        let start = windows.start * self.stride + offset - self.padding;
        if self.stride == 1 {
            let length = windows.len();
            out[windows].copy_from_slice(&line[start..start + length]);
        } else {
            let pixels = line[start..].iter().step_by(self.stride);
            out[windows]
                .iter_mut()
                .zip(pixels)
                .for_each(|(out, pixel)| *out = *pixel);
        }
    }

    /// `line[pixel offset of window w] += values[w]`, for windows inside the image.
    #[inline(always)]
    fn scatter_add(&self, line: &mut [f32], offset: usize, values: &[f32]) {
        let windows = self.windows_with(offset);
        if windows.is_empty() {
            return;
        }
        let start = windows.start * self.stride + offset - self.padding;
        if self.stride == 1 {
            crate::simd::add(&mut line[start..], &values[windows]);
        } else {
            let pixels = line[start..].iter_mut().step_by(self.stride);
            pixels
                .zip(&values[windows])
                .for_each(|(pixel, value)| *pixel += value);
        }
    }
}

/// Windows over all channels of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    /// Channels of the image.
    pub channels: usize,
    /// The vertical axis.
    pub y: Axis,
    /// The horizontal axis.
    pub x: Axis,
}

/// A value of every window, by its position inside.
#[derive(Clone, Copy)]
struct WindowValue {
    channel: usize,
    y: usize,
    x: usize,
}

impl Sliding {
    /// Number of values in an image.
    pub fn image_size(&self) -> usize {
        self.channels * self.y.image * self.x.image
    }

    /// Number of values in a window: rows of the unfolded matrix.
    pub(crate) fn window_size(&self) -> usize {
        self.channels * self.y.window * self.x.window
    }

    /// Number of windows: columns of the unfolded matrix.
    pub fn positions(&self) -> usize {
        self.y.outputs * self.x.outputs
    }

    /// Whether the unfolded matrix is the image itself.
    pub(crate) fn is_identity(&self) -> bool {
        let same = |axis: &Axis| {
            axis.window == 1 && axis.stride == 1 && axis.padding == 0 && axis.outputs == axis.image
        };
        same(&self.y) && same(&self.x)
    }

    /// Which values of the windows a row of the unfolded matrix has.
    #[inline(always)]
    fn value_of_row(&self, row: usize) -> WindowValue {
        let rest = row / self.x.window;
        WindowValue {
            channel: rest / self.y.window,
            y: rest % self.y.window,
            x: row % self.x.window,
        }
    }

    /// Index in the image of each value in a window, window by window; `None` outside the image.
    pub fn places(&self) -> Vec<Option<usize>> {
        let mut places = Vec::with_capacity(self.positions() * self.window_size());
        for position in 0..self.positions() {
            let (oy, ox) = (position / self.x.outputs, position % self.x.outputs);
            for row in 0..self.window_size() {
                let WindowValue { channel, y, x } = self.value_of_row(row);
                let pixel = self.y.pixel(oy, y).zip(self.x.pixel(ox, x));
                places.push(pixel.map(|(y, x)| (channel * self.y.image + y) * self.x.image + x));
            }
        }
        places
    }

    /// Writes the unfolded matrix of an image.
    pub(crate) fn unfold(&self, image: &[f32], columns: &mut [f32]) {
        let (lines, width) = (self.y.image, self.x.image);
        for (row, out) in columns.chunks_exact_mut(self.positions()).enumerate() {
            let WindowValue { channel, y, x } = self.value_of_row(row);
            for (position, out) in out.chunks_exact_mut(self.x.outputs).enumerate() {
                match self.y.pixel(position, y) {
                    Some(line) => {
                        let start = (channel * lines + line) * width;
                        self.x.gather(&image[start..start + width], x, out);
                    }
                    None => out.fill(0.0),
                }
            }
        }
    }

    /// Adds every entry of an unfolded matrix to the pixel it came from.
    #[inline(always)]
    pub(crate) fn fold_add(&self, columns: &[f32], image: &mut [f32]) {
        let (lines, width) = (self.y.image, self.x.image);
        for (row, values) in columns.chunks_exact(self.positions()).enumerate() {
            let WindowValue { channel, y, x } = self.value_of_row(row);
            for (position, values) in values.chunks_exact(self.x.outputs).enumerate() {
                if let Some(line) = self.y.pixel(position, y) {
                    let start = (channel * lines + line) * width;
                    self.x
                        .scatter_add(&mut image[start..start + width], x, values);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    fn geometries() -> Vec<Sliding> {
        let axis = |image, window, stride, padding, outputs| Axis {
            image,
            window,
            stride,
            padding,
            outputs,
        };
        let (plain, padded) = (axis(5, 3, 1, 0, 3), axis(4, 3, 1, 1, 4));
        let (strided, wide) = (axis(7, 3, 2, 1, 4), axis(3, 5, 3, 2, 1));
        let beyond = axis(6, 2, 3, 0, 3); // the last window is outside
        [
            (plain, padded),
            (strided, plain),
            (padded, wide),
            (beyond, strided),
            (axis(4, 1, 1, 0, 4), axis(2, 1, 1, 0, 2)),
        ]
        .map(|(y, x)| Sliding { channels: 2, y, x })
        .to_vec()
    }

    /// The pixels in the window at an output position, straight from the definition.
    fn seen(s: &Sliding, image: &[f32], value: WindowValue, (oy, ox): (usize, usize)) -> f32 {
        let y = (oy * s.y.stride + value.y) as isize - s.y.padding as isize;
        let x = (ox * s.x.stride + value.x) as isize - s.x.padding as isize;
        if y < 0 || x < 0 || y >= s.y.image as isize || x >= s.x.image as isize {
            return 0.0;
        }
        image[(value.channel * s.y.image + y as usize) * s.x.image + x as usize]
    }

    fn random(n: usize, seed: u64) -> Vec<f32> {
        let noise = Noise::new(seed);
        (0..n).map(|i| noise.uniform(i as u64) - 0.5).collect()
    }

    #[test]
    fn unfolding_equals_its_definition() {
        for s in geometries() {
            let image = random(s.image_size(), 1);
            let mut columns = vec![9.0; s.window_size() * s.positions()];
            s.unfold(&image, &mut columns);
            let mut entries = columns.iter();
            let places = s.places();
            for row in 0..s.window_size() {
                for position in 0..s.positions() {
                    let at = (position / s.x.outputs, position % s.x.outputs);
                    let want = seen(&s, &image, s.value_of_row(row), at);
                    assert_eq!(*entries.next().unwrap(), want, "{s:?}");
                    let place = places[position * s.window_size() + row];
                    assert_eq!(place.map_or(0.0, |place| image[place]), want, "{s:?}");
                }
            }
        }
    }

    #[test]
    fn folding_is_the_adjoint_of_unfolding() {
        for s in geometries() {
            let (image, weights) = (
                random(s.image_size(), 2),
                random(s.window_size() * s.positions(), 3),
            );
            let mut columns = vec![0.0; weights.len()];
            s.unfold(&image, &mut columns);
            let mut folded = vec![0.0; image.len()];
            s.fold_add(&weights, &mut folded);
            let dot = |a: &[f32], b: &[f32]| {
                a.iter()
                    .zip(b)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum::<f64>()
            };
            assert!(
                (dot(&columns, &weights) - dot(&image, &folded)).abs() < 1e-5,
                "{s:?}"
            );
        }
    }

    #[test]
    fn parts_of_windows_are_counted() {
        let axis = Axis {
            image: 5,
            window: 3,
            stride: 3,
            padding: 1,
            outputs: 3,
        };
        assert_eq!([0, 1, 2].map(|w| axis.inside(w)), [0..2, 2..5, 5..5]);
        assert_eq!([0, 1, 2].map(|w| axis.covered(w)), [3, 3, 1]);
    }
}
