//! Learning rate schedules: the rate as a function of samples and passes.
//!
//! With `r` the configured rate, `n` the samples of all trainers up to and including the current batch, `a` and `b`
//! the two decay constants:
//!
//! | name | rate |
//! |---|---|
//! | constant | `r` |
//! | poly | `r * (1 + a*n)^-b` |
//! | caffe_poly | `r * (1 - n/a)^b`, 0 when `n > a` |
//! | exp | `r * a^(n/b)` |
//! | discexp | `r * a^floor(n/b)` |
//! | linear | `max(r - a*n, b)` |
//! | manual | `r * rate_i` for the first segment `i` with `n <= end_i`, else the last |
//! | pass_manual | the same with the pass number, from 0, in place of `n` |
//!
//! Deviation from v1: every method follows its schedule (v1's AdaGrad, Adam and Adamax did not).

use serde::{Deserialize, Serialize};

/// How the learning rate changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// It does not change.
    Constant,
    /// Falls with a power of the samples.
    Poly {
        /// Growth of the base per sample.
        a: f64,
        /// The exponent; the rate falls if it is positive.
        b: f64,
    },
    /// Reaches zero after `a` samples.
    CaffePoly {
        /// Number of samples after which the rate is zero.
        a: f64,
        /// The exponent; 1 is a straight line.
        b: f64,
    },
    /// Falls by the factor `a` every `b` samples, continuously.
    Exp {
        /// Factor every `b` samples.
        a: f64,
        /// Samples after which the rate is multiplied by `a`.
        b: f64,
    },
    /// Falls by the factor `a` every `b` samples, in steps.
    DiscreteExp {
        /// Factor every `b` samples.
        a: f64,
        /// Samples per step.
        b: f64,
    },
    /// Falls by `a` per sample down to `b`.
    Linear {
        /// Decrease per sample.
        a: f64,
        /// The smallest rate.
        b: f64,
    },
    /// Factors by segments of samples.
    Manual(Vec<Segment>),
    /// Factors by segments of passes.
    PassManual(Vec<Segment>),
}

/// One segment of a manual schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The last sample count or pass of the segment.
    pub end: u64,
    /// The factor on the configured rate.
    pub rate: f64,
}

impl Schedule {
    /// The rate at `samples` samples in pass `pass`, starting from `rate`.
    pub fn rate(&self, rate: f64, samples: u64, pass: u64) -> f64 {
        let n = samples as f64;
        match self {
            Self::Constant => rate,
            Self::Poly { a, b } => rate * libm::pow(1.0 + a * n, -b),
            Self::CaffePoly { a, .. } if n > *a => 0.0,
            Self::CaffePoly { a, b } => rate * libm::pow(1.0 - n / a, *b),
            Self::Exp { a, b } => rate * libm::pow(*a, n / b),
            Self::DiscreteExp { a, b } => rate * libm::pow(*a, libm::floor(n / b)),
            Self::Linear { a, b } => (rate - a * n).max(*b),
            Self::Manual(segments) => rate * factor(segments, samples),
            Self::PassManual(segments) => rate * factor(segments, pass),
        }
    }
}

fn factor(segments: &[Segment], at: u64) -> f64 {
    let found = segments.iter().find(|segment| at <= segment.end);
    found.or(segments.last()).map_or(1.0, |s| s.rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) {
        assert!(
            (got - want).abs() <= 1e-12 * want.abs(),
            "{got} is not {want}"
        );
    }

    #[test]
    fn each_schedule_at_a_few_points() {
        close(Schedule::Constant.rate(0.1, 1000, 5), 0.1);
        let poly = Schedule::Poly { a: 0.5, b: 2.0 };
        close(poly.rate(0.1, 6, 0), 0.1 / 16.0);
        close(Schedule::Poly { a: 0.0, b: 0.0 }.rate(0.1, 6, 0), 0.1);
        let caffe = Schedule::CaffePoly { a: 100.0, b: 2.0 };
        close(caffe.rate(0.2, 50, 0), 0.05);
        close(caffe.rate(0.2, 100, 0), 0.0);
        close(caffe.rate(0.2, 101, 0), 0.0);
        let exp = Schedule::Exp { a: 0.25, b: 100.0 };
        close(exp.rate(1.0, 150, 0), 0.125);
        let stairs = Schedule::DiscreteExp { a: 0.25, b: 100.0 };
        close(stairs.rate(1.0, 150, 0), 0.25);
        close(stairs.rate(1.0, 99, 0), 1.0);
        let linear = Schedule::Linear { a: 0.01, b: 0.3 };
        close(linear.rate(1.0, 50, 0), 0.5);
        close(linear.rate(1.0, 5000, 0), 0.3);
    }

    #[test]
    fn manual_segments_include_their_end_and_the_last_continues() {
        let segments = vec![
            Segment { end: 10, rate: 1.0 },
            Segment { end: 20, rate: 0.5 },
        ];
        let manual = Schedule::Manual(segments.clone());
        close(manual.rate(2.0, 10, 0), 2.0);
        close(manual.rate(2.0, 11, 0), 1.0);
        close(manual.rate(2.0, 99, 0), 1.0);
        let passes = Schedule::PassManual(segments);
        close(passes.rate(2.0, 99, 10), 2.0);
        close(passes.rate(2.0, 0, 11), 1.0);
    }
}
