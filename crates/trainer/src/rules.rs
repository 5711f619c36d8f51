//! Derives from the configuration how each parameter starts and how it changes.

use config::{OptimizationConfig, ParameterConfig};
use optim::{
    Distribution, Initial, OptimizerSettings, ParameterSettings, Rule, SettingsError, init,
};

/// The configuration asks for an update rule that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("learning settings of parameter '{parameter}'")]
pub struct RuleError {
    /// The parameter whose rule does not exist.
    pub parameter: String,
    /// What is wrong with its settings.
    #[source]
    pub source: SettingsError,
}

/// The configuration asks for an algorithm of training that does not exist.
#[derive(Debug, thiserror::Error)]
#[error(
    "settings has algorithm='{algorithm}', which does not exist; give 'sgd' (synchronous) or 'async_sgd'"
)]
pub struct UnknownAlgorithm {
    /// As the configuration has it.
    pub algorithm: String,
}

/// Whether servers apply each gradient when it arrives, instead of the sum over all trainers.
pub(crate) fn is_asynchronous(settings: &OptimizationConfig) -> Result<bool, UnknownAlgorithm> {
    match settings.algorithm.as_str() {
        "sgd" => Ok(false),
        "async_sgd" => Ok(true),
        other => Err(UnknownAlgorithm {
            algorithm: other.to_owned(),
        }),
    }
}

/// The rule of each parameter, in the model's order.
pub fn rules(
    optimization: &OptimizationConfig,
    parameters: &[ParameterConfig],
) -> Result<Vec<Rule>, RuleError> {
    let settings = settings(optimization);
    let rules = parameters
        .iter()
        .map(|parameter| rule(&settings, parameter));
    rules.collect()
}

/// The errors of all parameters whose settings give no valid rule.
pub(crate) fn refused(
    optimization: &OptimizationConfig,
    parameters: &[ParameterConfig],
) -> Vec<RuleError> {
    let settings = settings(optimization);
    let rules = parameters
        .iter()
        .map(|parameter| rule(&settings, parameter));
    rules.filter_map(Result::err).collect()
}

fn rule(settings: &OptimizerSettings, parameter: &ParameterConfig) -> Result<Rule, RuleError> {
    Rule::new(settings, &own_settings(parameter)).map_err(|source| RuleError {
        parameter: parameter.name.clone(),
        source,
    })
}

fn settings(o: &OptimizationConfig) -> OptimizerSettings {
    OptimizerSettings {
        learning_method: o.learning_method().to_owned(),
        learning_rate: o.learning_rate,
        learning_rate_schedule: o.learning_rate_schedule().to_owned(),
        learning_rate_decay_a: o.learning_rate_decay_a(),
        learning_rate_decay_b: o.learning_rate_decay_b(),
        learning_rate_args: o.learning_rate_args().to_owned(),
        ada_epsilon: o.ada_epsilon(),
        ada_rou: o.ada_rou(),
        adam_beta1: o.adam_beta1(),
        adam_beta2: o.adam_beta2(),
        adam_epsilon: o.adam_epsilon(),
        average_window: o.average_window(),
        max_average_window: o.max_average_window,
        ..OptimizerSettings::default()
    }
}

fn own_settings(p: &ParameterConfig) -> ParameterSettings {
    ParameterSettings {
        learning_rate: p.learning_rate(),
        momentum: p.momentum(),
        decay_rate: p.decay_rate(),
        decay_rate_l1: p.decay_rate_l1(),
        num_batches_regularization: p.num_batches_regularization(),
        gradient_clipping_threshold: p.gradient_clipping_threshold(),
    }
}

/// How a parameter's first values are drawn, as v1: normal, uniform, or normal with a deviation derived from
/// the number of rows (`initial_smart`).
pub fn initial(p: &ParameterConfig, seed: u64) -> Initial {
    let mean = p.initial_mean();
    let std = match (p.initial_smart(), p.dims.first()) {
        (true, Some(&rows)) if rows > 0 => 1.0 / (rows as f64).sqrt(),
        _ => p.initial_std(),
    };
    let distribution = match p.initial_strategy() {
        1 => Distribution::Uniform {
            min: mean - std,
            max: mean + std,
        },
        _ => Distribution::Normal { mean, std },
    };
    Initial {
        distribution,
        seed: init::seed(seed, &p.name),
    }
}
