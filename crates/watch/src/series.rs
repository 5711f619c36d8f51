//! A curve: points in the order of training, a bound on their number, and thinning for a screen.

use serde::Serialize;

/// Beyond this number, points are merged in pairs: memory stays bounded however long a job runs.
const MOST: usize = 200_000;

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Sequence number of this point among all of the job, in the order of arrival.
    pub order: u64,
    /// Samples that the trainer had seen.
    pub samples: f64,
    /// Seconds since 1970.
    pub t: f64,
    /// The cost, or the value of an evaluator.
    pub value: f64,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// The trainer's node.
    pub node: u32,
    /// `cost`, or the name of an evaluator.
    pub metric: String,
    /// Whether it is measured on test data.
    pub test: bool,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartAxis {
    /// Samples.
    Samples,
    /// Time.
    Time,
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub struct Series {
    points: Vec<Point>,
}

impl Series {
    /// All points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Appends a point.
    pub fn push(&mut self, point: Point) {
        self.points.push(point);
        if self.points.len() > MOST {
            self.points = self
                .points
                .chunks(2)
                .map(|pair| pair[pair.len() - 1])
                .collect();
        }
    }

    /// Training rolled back: points after this many samples are no longer part of the model's history.
    pub(crate) fn cut_after(&mut self, samples: f64) {
        self.points.retain(|point| point.samples <= samples);
    }

    /// Points after the one with this sequence number.
    pub fn since(&self, order: u64) -> &[Point] {
        let from = self.points.partition_point(|point| point.order <= order);
        &self.points[from..]
    }

    /// At most about `3 × buckets` points between `from` and `to` on an axis: the smallest, the largest and the last of
    /// each bucket. One point on either side is kept, so that lines continue beyond the edges.
    pub(crate) fn thinned(
        &self,
        axis: ChartAxis,
        range: Option<(f64, f64)>,
        buckets: usize,
    ) -> Vec<Point> {
        let place = |point: &Point| match axis {
            ChartAxis::Samples => point.samples,
            ChartAxis::Time => point.t,
        };
        let points = match range {
            None => &self.points[..],
            Some((from, to)) => {
                let first = self.points.partition_point(|point| place(point) < from);
                let last = self.points.partition_point(|point| place(point) <= to);
                let end = (last + 1).min(self.points.len());
                &self.points[first.saturating_sub(1).min(end)..end]
            }
        };
        thin(points, place, buckets.max(1))
    }
}

fn thin(points: &[Point], place: impl Fn(&Point) -> f64, buckets: usize) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= 3 * buckets {
        return points.to_vec();
    }
    let start = place(first);
    let step = (place(last) - start) / buckets as f64;
    let bucket = |point: &Point| {
        if step > 0.0 {
            ((place(point) - start) / step) as usize
        } else {
            0
        }
    };
    let mut thinned = vec![*first];
    for part in points[1..].chunk_by(|a, b| bucket(a) == bucket(b)) {
        let by_value = |a: &&Point, b: &&Point| a.value.total_cmp(&b.value);
        let ends = [
            part.iter().min_by(by_value),
            part.iter().max_by(by_value),
            part.last(),
        ];
        let mut kept: Vec<Point> = ends.into_iter().flatten().copied().collect();
        kept.sort_by_key(|point| point.order);
        kept.dedup_by_key(|point| point.order);
        thinned.append(&mut kept);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: u64) -> Series {
        let mut series = Series::default();
        for order in 1..=count {
            series.push(Point {
                order,
                samples: order as f64 * 10.0,
                t: order as f64,
                value: if order == count / 2 {
                    100.0
                } else {
                    (order % 7) as f64
                },
            });
        }
        series
    }

    #[test]
    fn thinning_keeps_ends_and_peaks() {
        let series = series(100_000);
        let thinned = series.thinned(ChartAxis::Samples, None, 500);
        assert!(thinned.len() <= 1600, "{}", thinned.len());
        assert_eq!(thinned[0], series.points()[0]);
        assert_eq!(thinned.last(), series.points().last());
        assert!(thinned.iter().any(|point| point.value == 100.0));
        assert!(thinned.windows(2).all(|pair| pair[0].order < pair[1].order));
        let zoomed = series.thinned(ChartAxis::Time, Some((1000.0, 1100.0)), 500);
        let ends = (zoomed[0].t, zoomed[zoomed.len() - 1].t);
        assert_eq!((zoomed.len(), ends), (103, (999.0, 1101.0)));
        assert!(series.thinned(ChartAxis::Time, Some((5.0, 1.0)), 500).len() <= 2);
        assert!(
            Series::default()
                .thinned(ChartAxis::Time, None, 5)
                .is_empty()
        );
    }

    #[test]
    fn points_are_bounded_and_told_from_a_number_on() {
        let mut series = series(MOST as u64 + 1);
        assert_eq!(series.points().len(), MOST / 2 + 1);
        assert_eq!(series.since(MOST as u64).len(), 1);
        series.cut_after(100.0);
        assert_eq!(series.points().len(), 5);
    }
}
