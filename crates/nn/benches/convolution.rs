//! How much slower is a convolution than its bare matrix products?
//!
//! Forward and both parts of backward of three shapes (a first layer, a middle and a deep one of an image network),
//! compared with the same number of `multiply` calls without unfolding. Best of five runs, on rayon's default pool.
//! Run with `cargo bench -p canoe-nn --bench convolution`.
//!
//! 2026-11-15, 2 shared cores: 1.41, 0.91 and 1.24 times the bare products; 56, 128 and 119 GFLOP/s.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::time::Instant;

use nn::image::{Axis, Convolution, Sliding};
use nn::product::{Accumulate, MatrixView, multiply};

fn best(mut work: impl FnMut()) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("shape                      ms/batch  GFLOP/s  bare ms  ratio");
    for (channels, side, filters, samples) in [(3, 32, 32, 64), (32, 16, 64, 64), (128, 8, 256, 32)]
    {
        let axis = Axis {
            image: side,
            window: 3,
            stride: 1,
            padding: 1,
            outputs: side,
        };
        let mut conv = Convolution::new(
            Sliding {
                channels,
                y: axis,
                x: axis,
            },
            1,
            filters,
        );
        let images = vec![0.5; samples * conv.image_size()];
        let weight = vec![0.01; conv.weight_size()];
        let mut maps = vec![0.0; samples * conv.maps_size()];
        let (mut back, mut grad) = (vec![0.0; images.len()], vec![0.0; weight.len()]);
        let ours = best(|| {
            conv.to_maps(&mut maps, &images, &weight, Accumulate::Overwrite);
            back.fill(0.0);
            conv.to_images(&mut back, &maps, &weight);
            conv.to_weight(&mut grad, &images, &maps, Accumulate::Overwrite);
        });
        let (window, positions) = (channels * 9, side * side);
        let mut columns = vec![0.1; window * positions];
        let bare = best(|| {
            for maps in maps.chunks_exact_mut(filters * positions) {
                let filters_view = MatrixView::new(&weight, filters, window);
                multiply(
                    maps,
                    filters_view,
                    MatrixView::new(&columns, window, positions),
                    Accumulate::Overwrite,
                );
                let maps = MatrixView::new(maps, filters, positions);
                multiply(&mut columns, filters_view.t(), maps, Accumulate::Overwrite);
                multiply(
                    &mut grad,
                    maps,
                    MatrixView::new(&columns, window, positions).t(),
                    Accumulate::Add,
                );
            }
        });
        let flops = 6.0 * (samples * filters * window * positions) as f64;
        let shape = format!("{samples} x {channels}x{side}x{side} -> {filters}");
        println!(
            "{shape:<26} {:8.2} {:8.1} {:8.2} {:6.2}",
            ours * 1e3,
            flops / ours / 1e9,
            bare * 1e3,
            ours / bare
        );
    }
}
