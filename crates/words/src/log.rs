//! Log lines: how important one is, and what it is about.
//!
//! v1 printed the file and line of its own source before each log line, and users' scripts match them. Code that logs
//! names only the topic of a line; [`Topic::v1_source`] is the one table from topics to v1's files and lines.

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal progress, or a change of state.
    Info,
    /// Unexpected, but the process continues.
    Warning,
    /// A person has to act.
    Error,
}

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The command line of the process.
    CommandLine,
    /// A flag of v1 that has no effect here, or a different one.
    Flag,
    /// The Python interpreter.
    Python,
    /// A parameter server.
    Server,
    /// The record cannot be written.
    Record,
    /// The job had ended before this process joined.
    JobEnded,
    /// Initial values are drawn.
    Initialize,
    /// All initial values have been set.
    Initialized,
    /// Parameters are read from a pass directory.
    Loading,
    /// Part of a saved model cannot be used.
    LoadingIncomplete,
    /// Optimizer state of an earlier run is missing or does not fit.
    Resume,
    /// Cost and evaluators after some batches.
    Progress,
    /// Cost and evaluators of a pass.
    PassEnd,
    /// Distribution of the values of parameters.
    ParameterStatistics,
    /// Statistics of a layer's output.
    LayerStatistics,
    /// The error of a layer is clipped.
    ErrorClipping,
    /// The gradient of a parameter is clipped.
    GradientClipping,
    /// A printing evaluator.
    Printer,
    /// The result of a test.
    Test,
    /// The result of a test over all trainers.
    DistributedTest,
    /// Predictions are written.
    Prediction,
    /// A pass directory is written.
    Saving,
    /// A pass is better than all before.
    Best,
    /// Training ends early, because nothing improves.
    EarlyEnd,
    /// Training rolls back to an earlier position.
    RollBack,
    /// Results of `--job=checkgrad`.
    GradientCheck,
    /// `--job=time`.
    Timing,
}

impl Topic {
    /// The file and line of v1's source that printed such a line; for lines that v1 did not have, the closest one.
    pub fn v1_source(self) -> &'static str {
        match self {
            Self::CommandLine => "Util.cpp:130",
            Self::Flag => "Flags.cpp:1",
            Self::Python => "PythonUtil.cpp:130",
            Self::Server => "ParameterServerController.cpp:80",
            Self::Record => "Trainer.cpp:90",
            Self::JobEnded => "Trainer.cpp:110",
            Self::Initialize => "GradientMachine.cpp:86",
            Self::Initialized => "GradientMachine.cpp:93",
            Self::Loading => "ParamUtil.cpp:60",
            Self::LoadingIncomplete => "ParamUtil.cpp:70",
            Self::Resume => "Trainer.cpp:120",
            Self::Progress => "TrainerInternal.cpp:165",
            Self::PassEnd => "TrainerInternal.cpp:181",
            Self::ParameterStatistics => "TrainerInternal.cpp:270",
            Self::LayerStatistics => "Layer.cpp:330",
            Self::ErrorClipping => "Layer.cpp:362",
            Self::GradientClipping => "FirstOrderOptimizer.cpp:311",
            Self::Printer => "Evaluator.cpp:995",
            Self::Test => "Tester.cpp:115",
            Self::DistributedTest => "Tester.cpp:251",
            Self::Prediction => "Tester.cpp:200",
            Self::Saving => "ParamUtil.cpp:110",
            Self::Best => "Trainer.cpp:140",
            Self::EarlyEnd => "Trainer.cpp:145",
            Self::RollBack => "Trainer.cpp:200",
            Self::GradientCheck => "Trainer.cpp:315",
            Self::Timing => "TrainerBenchmark.cpp:60",
        }
    }
}
