//! Translates the strings and numbers of a v1 configuration into a [`Rule`].
//!
//! [`OptimizerSettings`] are the fields of v1's `OptimizationConfig` that decide updates, [`ParameterSettings`] those of its
//! `ParameterConfig`, with v1's names and defaults. This crate does not know where they were read from: the trainer
//! copies them. Invalid values are refused here, before training starts.

use crate::average::Average;
use crate::method::Method;
use crate::rule::Rule;
use crate::schedule::{Schedule, Segment};

/// The settings of a job that decide updates; names and defaults are those of v1's `OptimizationConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerSettings {
    /// The method, one of [`Method::NAMES`].
    pub learning_method: String,
    /// The rate before schedule and parameter factor.
    pub learning_rate: f64,
    /// The schedule, one of [`SCHEDULES`].
    pub learning_rate_schedule: String,
    /// First constant of the schedule.
    pub learning_rate_decay_a: f64,
    /// Second constant of the schedule.
    pub learning_rate_decay_b: f64,
    /// `end:rate,end:rate,…` of the manual schedules.
    pub learning_rate_args: String,
    /// Epsilon of adagrad, adadelta, rmsprop, decayed_adagrad.
    pub ada_epsilon: f64,
    /// Decay of adadelta, rmsprop, decayed_adagrad.
    pub ada_rou: f64,
    /// First decay of adam and adamax.
    pub adam_beta1: f64,
    /// Second decay of adam and adamax.
    pub adam_beta2: f64,
    /// Added to the root in the denominator of adam.
    pub adam_epsilon: f64,
    /// Window of the model average as a fraction of all batches; zero for none.
    pub average_window: f64,
    /// Longest window in batches, if the configuration gives one.
    pub max_average_window: Option<i64>,
    /// Factor of the method add.
    pub delta_add_rate: f64,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self {
            learning_method: "momentum".to_owned(),
            learning_rate: 1e-3,
            learning_rate_schedule: "constant".to_owned(),
            learning_rate_decay_a: 0.0,
            learning_rate_decay_b: 0.0,
            learning_rate_args: String::new(),
            ada_epsilon: 1e-6,
            ada_rou: 0.95,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            average_window: 0.0,
            max_average_window: None,
            delta_add_rate: 1.0,
        }
    }
}

/// The settings of one parameter; names and defaults are those of v1's `ParameterConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSettings {
    /// Factor on the job's rate.
    pub learning_rate: f64,
    /// Momentum coefficient; 0 for none.
    pub momentum: f64,
    /// L2 regularization rate; 0 for none.
    pub decay_rate: f64,
    /// L1 regularization rate; 0 for none.
    pub decay_rate_l1: f64,
    /// Gradients are clipped to this absolute value; zero for no clipping.
    pub gradient_clipping_threshold: f64,
    /// Decay is applied once per this many batches.
    pub num_batches_regularization: i32,
}

impl Default for ParameterSettings {
    fn default() -> Self {
        Self {
            learning_rate: 1.0,
            momentum: 0.0,
            decay_rate: 0.0,
            decay_rate_l1: 0.0,
            gradient_clipping_threshold: 0.0,
            num_batches_regularization: 1,
        }
    }
}

/// The values of `learning_rate_schedule`.
pub const SCHEDULES: [&str; 8] = [
    "constant",
    "poly",
    "caffe_poly",
    "exp",
    "discexp",
    "linear",
    "manual",
    "pass_manual",
];

/// Why settings do not describe a valid rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// There is no method of this name.
    #[error("unknown learning_method {name:?}; did you mean {nearest:?}?")]
    UnknownMethod {
        /// The name in the configuration.
        name: String,
        /// The most similar known name.
        nearest: &'static str,
    },
    /// There is no schedule of this name.
    #[error("unknown learning_rate_schedule {name:?}; did you mean {nearest:?}?")]
    UnknownSchedule {
        /// The name in the configuration.
        name: String,
        /// The most similar known name.
        nearest: &'static str,
    },
    /// The segments of a manual schedule cannot be read.
    #[error(
        "learning_rate_args {text:?}: {piece:?} is not SAMPLES:RATE; write for example \"1000:1.0,2000:0.5\""
    )]
    Segments {
        /// The whole value of `learning_rate_args`.
        text: String,
        /// The segment that is wrong.
        piece: String,
    },
    /// A value is outside the range of its field.
    #[error("{field} is {value}, it must be {wanted}")]
    Value {
        /// The field's v1 name.
        field: &'static str,
        /// The value in the configuration.
        value: f64,
        /// The allowed range, as text.
        wanted: &'static str,
    },
}

impl Rule {
    /// The rule of one parameter under the settings of its job.
    pub fn new(
        job: &OptimizerSettings,
        parameter: &ParameterSettings,
    ) -> Result<Self, SettingsError> {
        finite("learning_rate", job.learning_rate)?;
        finite("learning_rate", parameter.learning_rate)?;
        positive("momentum", parameter.momentum)?;
        positive("decay_rate", parameter.decay_rate)?;
        positive("decay_rate_l1", parameter.decay_rate_l1)?;
        positive(
            "gradient_clipping_threshold",
            parameter.gradient_clipping_threshold,
        )?;
        Ok(Self {
            method: method(job)?,
            learning_rate: job.learning_rate,
            scale: parameter.learning_rate,
            schedule: schedule(job)?,
            momentum: parameter.momentum,
            l1: parameter.decay_rate_l1,
            l2: parameter.decay_rate,
            regularize_every: u32::try_from(parameter.num_batches_regularization.max(1))
                .unwrap_or(1),
            clip: parameter.gradient_clipping_threshold,
            average: average(job)?,
        })
    }
}

fn method(job: &OptimizerSettings) -> Result<Method, SettingsError> {
    let (epsilon, rho) = (job.ada_epsilon, job.ada_rou);
    let (beta1, beta2) = (job.adam_beta1, job.adam_beta2);
    let method = match job.learning_method.as_str() {
        "momentum" | "sgd" => Method::Momentum,
        "torch_momentum" => Method::TorchMomentum,
        "sparse_momentum" => Method::SparseMomentum,
        "adagrad" => Method::AdaGrad { epsilon },
        "adadelta" => Method::AdaDelta { rho, epsilon },
        "rmsprop" => Method::RmsProp { rho, epsilon },
        "decayed_adagrad" => Method::DecayedAdaGrad { rho, epsilon },
        "adam" => Method::Adam {
            beta1,
            beta2,
            epsilon: job.adam_epsilon,
        },
        "adamax" => Method::AdaMax { beta1, beta2 },
        "add" => Method::Add {
            rate: job.delta_add_rate,
        },
        name => {
            return Err(SettingsError::UnknownMethod {
                name: name.to_owned(),
                nearest: nearest(name, &Method::NAMES),
            });
        }
    };
    check_constants(&method)?;
    Ok(method)
}

fn check_constants(method: &Method) -> Result<(), SettingsError> {
    match *method {
        Method::AdaGrad { epsilon } => positive("ada_epsilon", epsilon),
        Method::AdaDelta { rho, epsilon }
        | Method::RmsProp { rho, epsilon }
        | Method::DecayedAdaGrad { rho, epsilon } => {
            positive("ada_epsilon", epsilon)?;
            fraction("ada_rou", rho)
        }
        Method::Adam {
            beta1,
            beta2,
            epsilon,
        } => {
            positive("adam_epsilon", epsilon)?;
            fraction("adam_beta1", beta1)?;
            fraction("adam_beta2", beta2)
        }
        Method::AdaMax { beta1, beta2 } => {
            fraction("adam_beta1", beta1)?;
            fraction("adam_beta2", beta2)
        }
        Method::Add { rate } => finite("delta_add_rate", rate),
        Method::Momentum | Method::TorchMomentum | Method::SparseMomentum | Method::Assign => {
            Ok(())
        }
    }
}

fn schedule(job: &OptimizerSettings) -> Result<Schedule, SettingsError> {
    let (a, b) = (job.learning_rate_decay_a, job.learning_rate_decay_b);
    finite("learning_rate_decay_a", a)?;
    finite("learning_rate_decay_b", b)?;
    Ok(match job.learning_rate_schedule.as_str() {
        "constant" => Schedule::Constant,
        "poly" => Schedule::Poly { a, b },
        "caffe_poly" => Schedule::CaffePoly { a, b },
        "exp" => {
            not_zero("learning_rate_decay_b", b)?;
            Schedule::Exp { a, b }
        }
        "discexp" => {
            not_zero("learning_rate_decay_b", b)?;
            Schedule::DiscreteExp { a, b }
        }
        "linear" => Schedule::Linear { a, b },
        "manual" => Schedule::Manual(segments(&job.learning_rate_args)?),
        "pass_manual" => Schedule::PassManual(segments(&job.learning_rate_args)?),
        name => {
            return Err(SettingsError::UnknownSchedule {
                name: name.to_owned(),
                nearest: nearest(name, &SCHEDULES),
            });
        }
    })
}

fn segments(text: &str) -> Result<Vec<Segment>, SettingsError> {
    let parse = |piece: &str| {
        let (end, rate) = piece.split_once(':')?;
        let rate: f64 = rate.trim().parse().ok()?;
        rate.is_finite().then_some(())?;
        Some(Segment {
            end: end.trim().parse().ok()?,
            rate,
        })
    };
    text.split(',')
        .map(|piece| {
            parse(piece).ok_or_else(|| SettingsError::Segments {
                text: text.to_owned(),
                piece: piece.to_owned(),
            })
        })
        .collect()
}

fn average(job: &OptimizerSettings) -> Result<Option<Average>, SettingsError> {
    positive("average_window", job.average_window)?;
    if job.average_window == 0.0 {
        return Ok(None);
    }
    let max_window = match job.max_average_window {
        Some(batches) if batches < 1 => {
            return Err(SettingsError::Value {
                field: "max_average_window",
                value: batches as f64,
                wanted: "at least 1",
            });
        }
        Some(i64::MAX) | None => None,
        Some(batches) => Some(batches.unsigned_abs()),
    };
    Ok(Some(Average {
        window: job.average_window,
        max_window,
    }))
}

fn require(
    holds: bool,
    field: &'static str,
    value: f64,
    wanted: &'static str,
) -> Result<(), SettingsError> {
    if holds {
        return Ok(());
    }
    Err(SettingsError::Value {
        field,
        value,
        wanted,
    })
}

fn finite(field: &'static str, value: f64) -> Result<(), SettingsError> {
    require(value.is_finite(), field, value, "a finite number")
}

fn positive(field: &'static str, value: f64) -> Result<(), SettingsError> {
    let holds = value.is_finite() && value >= 0.0;
    require(holds, field, value, "zero or a positive number")
}

fn fraction(field: &'static str, value: f64) -> Result<(), SettingsError> {
    require(
        (0.0..1.0).contains(&value),
        field,
        value,
        "at least 0 and below 1",
    )
}

fn not_zero(field: &'static str, value: f64) -> Result<(), SettingsError> {
    require(value != 0.0, field, value, "other than zero")
}

/// The name with the smallest edit distance.
fn nearest(name: &str, names: &[&'static str]) -> &'static str {
    names
        .iter()
        .copied()
        .min_by_key(|known| distance(name, known))
        .unwrap_or_default()
}

/// Levenshtein's distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(change: impl Fn(&mut OptimizerSettings)) -> Result<Rule, SettingsError> {
        let mut job = OptimizerSettings::default();
        change(&mut job);
        Rule::new(&job, &ParameterSettings::default())
    }

    #[test]
    fn every_method_and_schedule_has_a_rule() {
        for name in Method::NAMES {
            let rule = build(|job| job.learning_method = name.to_owned()).unwrap();
            assert!(rule.slots() <= 2, "{name}");
        }
        for name in SCHEDULES {
            let rule = build(|job| {
                job.learning_rate_schedule = name.to_owned();
                job.learning_rate_decay_a = 0.5;
                job.learning_rate_decay_b = 1.0;
                job.learning_rate_args = "10:1.0, 20:0.5".to_owned();
            });
            assert!(rule.is_ok(), "{name}");
        }
    }

    #[test]
    fn slots_follow_momentum_and_average() {
        let job = OptimizerSettings {
            learning_method: "adagrad".into(),
            average_window: 0.5,
            ..OptimizerSettings::default()
        };
        let parameter = ParameterSettings {
            momentum: 0.9,
            ..ParameterSettings::default()
        };
        assert_eq!(Rule::new(&job, &parameter).unwrap().slots(), 6);
        let adam = OptimizerSettings {
            learning_method: "adam".into(),
            ..OptimizerSettings::default()
        };
        assert_eq!(Rule::new(&adam, &parameter).unwrap().slots(), 2);
    }

    #[test]
    fn errors_name_the_field_and_the_way_out() {
        let text = |change: fn(&mut OptimizerSettings)| build(change).unwrap_err().to_string();
        assert_eq!(
            text(|job| job.learning_method = "addam".into()),
            "unknown learning_method \"addam\"; did you mean \"adam\"?"
        );
        assert_eq!(
            text(|job| job.learning_rate_schedule = "polly".into()),
            "unknown learning_rate_schedule \"polly\"; did you mean \"poly\"?"
        );
        assert_eq!(
            text(|job| {
                job.learning_rate_schedule = "manual".into();
                job.learning_rate_args = "10:1.0,abc".into();
            }),
            "learning_rate_args \"10:1.0,abc\": \"abc\" is not SAMPLES:RATE; \
             write for example \"1000:1.0,2000:0.5\""
        );
        assert_eq!(
            text(|job| {
                job.learning_method = "adam".into();
                job.adam_beta2 = 1.0;
            }),
            "adam_beta2 is 1, it must be at least 0 and below 1"
        );
        assert_eq!(
            text(|job| job.learning_rate_schedule = "exp".into()),
            "learning_rate_decay_b is 0, it must be other than zero"
        );
        assert_eq!(
            text(|job| job.learning_rate = f64::NAN),
            "learning_rate is NaN, it must be a finite number"
        );
    }

    #[test]
    fn rules_and_progress_survive_serialization() {
        let mut rule = build(|job| {
            job.learning_method = "rmsprop".into();
            job.learning_rate_schedule = "pass_manual".into();
            job.learning_rate_args = "1:0.1,9:0.01".into();
            job.average_window = 0.3;
        })
        .unwrap();
        rule.clip = 25.0;
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
        let mut progress = crate::ParameterProgress::default();
        for _ in 0..20 {
            rule.begin(&mut progress, 128);
        }
        rule.finish_pass(&mut progress);
        let text = serde_json::to_string(&progress).unwrap();
        assert_eq!(
            serde_json::from_str::<crate::ParameterProgress>(&text).unwrap(),
            progress
        );
    }
}
