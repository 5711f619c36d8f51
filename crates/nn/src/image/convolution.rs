//! The three products of a convolution, for a batch of images.
//!
//! A convolution multiplies the unfolded image (see [`Sliding`]) with the filters, group by group:
//! `maps = W · unfold(image)`, with `W` as `filters/groups × window/groups` for each group. Forward, both parts of
//! backward, and the transposed convolution are the three ways to solve this for one of its members:
//!
//! | | maps | image | W |
//! |---|---|---|---|
//! | [`Convolution::to_maps`] | result | given | given |
//! | [`Convolution::to_images`] | given | result (the adjoint) | given |
//! | [`Convolution::to_weight`] | given | given | result (the adjoint) |
//!
//! Images are spread over threads. A sum over images is always split into the same parts, which depend on shapes
//! only, and these are added in order: the number of threads does not change any bit.

use rayon::prelude::*;

use super::sliding::Sliding;
use crate::product::{Accumulate, MatrixView, multiply, multiply_alone};
use crate::simd;

/// Batches with fewer multiplications than this are not worth a second thread.
const PARALLEL_MULTIPLICATIONS: usize = 1 << 19;
/// Limit in floats for all parts of a sum over images together: the larger a part, the fewer there are.
const PARTIAL_FLOATS: usize = 1 << 21;
/// The most parts of a sum over images.
const MAX_PARTS: usize = 8;

/// A convolution with its scratch memory.
#[derive(Debug)]
pub struct Convolution {
    windows: Sliding,
    groups: usize,
    filters: usize,
    /// Unfolded image, one per thread.
    columns: Vec<Vec<f32>>,
    /// Sums over some of the images.
    partial: Vec<Vec<f32>>,
}

impl Convolution {
    /// A convolution with `filters` filters; `groups` divides the channels and the filters.
    pub fn new(windows: Sliding, groups: usize, filters: usize) -> Self {
        Self {
            windows,
            groups,
            filters,
            columns: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Number of values in an image.
    pub fn image_size(&self) -> usize {
        self.windows.image_size()
    }

    /// Number of values in the maps of one image.
    pub fn maps_size(&self) -> usize {
        self.filters * self.windows.positions()
    }

    /// Number of values in the filters.
    pub fn weight_size(&self) -> usize {
        self.filters * self.windows.window_size() / self.groups
    }

    /// `maps (+)= W · unfold(image)` for every image.
    pub fn to_maps(&mut self, maps: &mut [f32], images: &[f32], weight: &[f32], mode: Accumulate) {
        let (image_size, maps_size) = (self.image_size(), self.maps_size());
        let ImageShare { rows, one } = self.spread(images.len() / image_size);
        let (work, columns) = (self.work(), &mut self.columns[..]);
        maps.par_chunks_mut(rows * maps_size)
            .zip(images.par_chunks(rows * image_size))
            .zip(columns)
            .for_each(|((maps, images), columns)| {
                for (maps, image) in maps
                    .chunks_exact_mut(maps_size)
                    .zip(images.chunks_exact(image_size))
                {
                    let columns = work.unfolded(image, columns);
                    work.for_groups(|group| {
                        let out = &mut maps[group.maps.clone()];
                        let (left, right) = (
                            work.filters_of(weight, &group),
                            work.columns_of(columns, &group),
                        );
                        product(out, left, right, mode, one);
                    });
                }
            });
    }

    /// `image += fold(Wᵀ · maps)` for every image.
    pub fn to_images(&mut self, images: &mut [f32], maps: &[f32], weight: &[f32]) {
        let (image_size, maps_size) = (self.image_size(), self.maps_size());
        let ImageShare { rows, one } = self.spread(images.len() / image_size);
        let (work, columns) = (self.work(), &mut self.columns[..]);
        images
            .par_chunks_mut(rows * image_size)
            .zip(maps.par_chunks(rows * maps_size))
            .zip(columns)
            .for_each(|((images, maps), columns)| {
                for (image, maps) in images
                    .chunks_exact_mut(image_size)
                    .zip(maps.chunks_exact(maps_size))
                {
                    work.fold(image, maps, weight, columns, one);
                }
            });
    }

    /// `W (+)= Σ maps · unfold(image)ᵀ` over all images.
    pub fn to_weight(
        &mut self,
        weight: &mut [f32],
        images: &[f32],
        maps: &[f32],
        mode: Accumulate,
    ) {
        let (image_size, maps_size, weight_size) =
            (self.image_size(), self.maps_size(), self.weight_size());
        let samples = images.len() / image_size;
        if samples == 0 {
            if mode == Accumulate::Overwrite {
                weight.fill(0.0);
            }
            return;
        }
        let parts = (PARTIAL_FLOATS / weight_size.max(1))
            .clamp(1, MAX_PARTS)
            .min(samples);
        let rows = samples.div_ceil(parts);
        let parts = samples.div_ceil(rows);
        self.prepare(parts);
        let (work, columns, partial) = (self.work(), &mut self.columns[..parts], &mut self.partial);
        partial.resize_with(parts.max(partial.len()), Vec::new);
        partial[1..parts]
            .iter_mut()
            .for_each(|part| part.resize(weight_size, 0.0));
        let (_, others) = partial.split_at_mut(1);
        let mut targets: Vec<(&mut [f32], Accumulate)> = vec![(&mut *weight, mode)];
        targets.extend(
            others[..parts - 1]
                .iter_mut()
                .map(|part| (&mut part[..], Accumulate::Overwrite)),
        );
        targets
            .into_par_iter()
            .zip(images.par_chunks(rows * image_size))
            .zip(maps.par_chunks(rows * maps_size))
            .zip(columns)
            .for_each(|((((target, mut mode), images), maps), columns)| {
                for (image, maps) in images
                    .chunks_exact(image_size)
                    .zip(maps.chunks_exact(maps_size))
                {
                    work.correlate(target, image, maps, columns, mode, parts == 1);
                    mode = Accumulate::Add;
                }
            });
        for part in &self.partial[1..parts] {
            simd::vectorised(
                #[inline(always)]
                || simd::add(weight, part),
            );
        }
    }

    /// Divides images between threads, with a buffer for each.
    fn spread(&mut self, samples: usize) -> ImageShare {
        let work = samples * self.weight_size() * self.windows.positions();
        let threads = if work < PARALLEL_MULTIPLICATIONS {
            1
        } else {
            rayon::current_num_threads()
        };
        let rows = samples.div_ceil(threads).max(1);
        let parts = samples.div_ceil(rows).max(1);
        self.prepare(parts);
        ImageShare {
            rows,
            one: parts == 1,
        }
    }

    /// Allocates buffers for `parts` unfolded images.
    fn prepare(&mut self, parts: usize) {
        let size = self.windows.window_size() * self.windows.positions();
        self.columns
            .resize_with(parts.max(self.columns.len()), Vec::new);
        if !self.windows.is_identity() {
            self.columns[..parts]
                .iter_mut()
                .for_each(|columns| columns.resize(size, 0.0));
        }
    }

    fn work(&self) -> Work {
        Work {
            windows: self.windows,
            groups: self.groups,
            filters: self.filters,
        }
    }
}

/// How images are divided between threads.
struct ImageShare {
    /// Images per thread.
    rows: usize,
    /// Whether there is only one thread.
    one: bool,
}

/// The sizes of one group.
#[derive(Clone, Copy)]
struct GroupShape {
    filters: usize,
    window: usize,
    positions: usize,
}

/// The shapes, for one image.
#[derive(Clone, Copy)]
struct Work {
    windows: Sliding,
    groups: usize,
    filters: usize,
}

/// One group's ranges in the maps, the unfolded image and the filters.
struct Group {
    maps: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    weight: std::ops::Range<usize>,
}

impl Work {
    fn shape(&self) -> GroupShape {
        GroupShape {
            filters: self.filters / self.groups,
            window: self.windows.window_size() / self.groups,
            positions: self.windows.positions(),
        }
    }

    fn for_groups(&self, mut work: impl FnMut(Group)) {
        let GroupShape {
            filters,
            window,
            positions,
        } = self.shape();
        let range = |group: usize, size: usize| group * size..(group + 1) * size;
        for group in 0..self.groups {
            work(Group {
                maps: range(group, filters * positions),
                columns: range(group, window * positions),
                weight: range(group, filters * window),
            });
        }
    }

    fn filters_of<'a>(&self, weight: &'a [f32], group: &Group) -> MatrixView<'a> {
        let shape = self.shape();
        MatrixView::new(&weight[group.weight.clone()], shape.filters, shape.window)
    }

    fn columns_of<'a>(&self, columns: &'a [f32], group: &Group) -> MatrixView<'a> {
        let shape = self.shape();
        MatrixView::new(
            &columns[group.columns.clone()],
            shape.window,
            shape.positions,
        )
    }

    fn maps_of<'a>(&self, maps: &'a [f32], group: &Group) -> MatrixView<'a> {
        let shape = self.shape();
        MatrixView::new(&maps[group.maps.clone()], shape.filters, shape.positions)
    }

    /// The unfolded image, in `columns` unless it is the image itself.
    fn unfolded<'a>(&self, image: &'a [f32], columns: &'a mut [f32]) -> &'a [f32] {
        if self.windows.is_identity() {
            return image;
        }
        self.windows.unfold(image, columns);
        columns
    }

    /// `image += fold(Wᵀ · maps)`.
    fn fold(
        &self,
        image: &mut [f32],
        maps: &[f32],
        weight: &[f32],
        columns: &mut [f32],
        one: bool,
    ) {
        let direct = self.windows.is_identity();
        self.for_groups(|group| {
            let (left, right) = (
                self.filters_of(weight, &group).t(),
                self.maps_of(maps, &group),
            );
            if direct {
                product(
                    &mut image[group.columns.clone()],
                    left,
                    right,
                    Accumulate::Add,
                    one,
                );
            } else {
                product(
                    &mut columns[group.columns.clone()],
                    left,
                    right,
                    Accumulate::Overwrite,
                    one,
                );
            }
        });
        if !direct {
            simd::vectorised(
                #[inline(always)]
                || self.windows.fold_add(columns, image),
            );
        }
    }

    /// `weight (+)= maps · unfold(image)ᵀ`.
    fn correlate(
        &self,
        weight: &mut [f32],
        image: &[f32],
        maps: &[f32],
        columns: &mut [f32],
        mode: Accumulate,
        one: bool,
    ) {
        let columns = self.unfolded(image, columns);
        self.for_groups(|group| {
            let (left, right) = (
                self.maps_of(maps, &group),
                self.columns_of(columns, &group).t(),
            );
            product(&mut weight[group.weight.clone()], left, right, mode, one);
        });
    }
}

/// A product that may use all threads if the caller does not use them already.
fn product(
    out: &mut [f32],
    left: MatrixView<'_>,
    right: MatrixView<'_>,
    mode: Accumulate,
    one: bool,
) {
    if one {
        multiply(out, left, right, mode);
    } else {
        multiply_alone(out, left, right, mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Axis;
    use crate::noise::Noise;

    fn random(n: usize, seed: u64) -> Vec<f32> {
        let noise = Noise::new(seed);
        (0..n).map(|i| noise.uniform(i as u64) - 0.5).collect()
    }

    fn axis(image: usize, window: usize, stride: usize, padding: usize) -> Axis {
        Axis {
            image,
            window,
            stride,
            padding,
            outputs: (image + 2 * padding - window) / stride + 1,
        }
    }

    fn cases() -> Vec<(Sliding, usize, usize)> {
        let sliding = |channels, y, x| Sliding { channels, y, x };
        vec![
            (sliding(3, axis(6, 3, 1, 1), axis(5, 3, 1, 1)), 1, 4),
            (sliding(4, axis(7, 3, 2, 0), axis(6, 2, 2, 1)), 2, 6),
            (sliding(4, axis(3, 1, 1, 0), axis(4, 1, 1, 0)), 2, 2),
            (sliding(2, axis(5, 5, 1, 2), axis(4, 1, 3, 0)), 1, 1),
        ]
    }

    /// Calls `visit(map, image, weight)` with every triple of indices that a convolution multiplies.
    fn triples(
        s: &Sliding,
        groups: usize,
        filters: usize,
        mut visit: impl FnMut(usize, usize, usize),
    ) {
        let (per_group, channels) = (filters / groups, s.channels / groups);
        for filter in 0..filters {
            for (oy, ox) in (0..s.y.outputs).flat_map(|oy| (0..s.x.outputs).map(move |ox| (oy, ox)))
            {
                for channel in 0..channels {
                    for (wy, wx) in
                        (0..s.y.window).flat_map(|wy| (0..s.x.window).map(move |wx| (wy, wx)))
                    {
                        let (y, x) = (oy * s.y.stride + wy, ox * s.x.stride + wx);
                        if y < s.y.padding || x < s.x.padding {
                            continue;
                        }
                        let (y, x) = (y - s.y.padding, x - s.x.padding);
                        if y >= s.y.image || x >= s.x.image {
                            continue;
                        }
                        let group = filter / per_group;
                        visit(
                            (filter * s.y.outputs + oy) * s.x.outputs + ox,
                            ((group * channels + channel) * s.y.image + y) * s.x.image + x,
                            ((filter * channels + channel) * s.y.window + wy) * s.x.window + wx,
                        );
                    }
                }
            }
        }
    }

    fn assert_near(got: &[f32], want: &[f64]) {
        for (got, want) in got.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 1e-4, "{got} {want}");
        }
    }

    #[test]
    fn all_three_products_equal_nested_loops() {
        let samples = 3;
        for (s, groups, filters) in cases() {
            let mut conv = Convolution::new(s, groups, filters);
            let (i, m, w) = (conv.image_size(), conv.maps_size(), conv.weight_size());
            let (images, maps, weight) =
                (random(samples * i, 1), random(samples * m, 2), random(w, 3));
            let mut want = (vec![0.0; samples * m], vec![0.0; samples * i], vec![0.0; w]);
            for n in 0..samples {
                triples(&s, groups, filters, |map, image, k| {
                    let [x, y, z] =
                        [images[n * i + image], maps[n * m + map], weight[k]].map(f64::from);
                    want.0[n * m + map] += z * x;
                    want.1[n * i + image] += z * y;
                    want.2[k] += y * x;
                });
            }
            let mut got = vec![0.0; samples * m];
            conv.to_maps(&mut got, &images, &weight, Accumulate::Overwrite);
            assert_near(&got, &want.0);
            let mut got = vec![0.0; samples * i];
            conv.to_images(&mut got, &maps, &weight);
            assert_near(&got, &want.1);
            let mut got = vec![7.0; w];
            conv.to_weight(&mut got, &images, &maps, Accumulate::Overwrite);
            assert_near(&got, &want.2);
            conv.to_weight(&mut got, &images, &maps, Accumulate::Add);
            assert_near(&got, &want.2.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_bit() {
        let s = Sliding {
            channels: 8,
            y: axis(12, 3, 1, 1),
            x: axis(12, 3, 1, 1),
        };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut conv = Convolution::new(s, 2, 16);
                let samples = 13;
                let images = random(samples * conv.image_size(), 1);
                let weight = random(conv.weight_size(), 2);
                let mut maps = vec![0.0; samples * conv.maps_size()];
                conv.to_maps(&mut maps, &images, &weight, Accumulate::Overwrite);
                let mut back = vec![0.0; images.len()];
                conv.to_images(&mut back, &maps, &weight);
                let mut grad = vec![0.0; weight.len()];
                conv.to_weight(&mut grad, &images, &maps, Accumulate::Overwrite);
                (maps, back, grad)
            })
        };
        let one = run(1);
        assert!([2, 3, 7].into_iter().all(|threads| run(threads) == one));
    }
}
