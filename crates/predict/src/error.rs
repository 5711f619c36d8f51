//! Why a model cannot be opened or applied.

use std::io;
use std::path::PathBuf;

use trainer::data::DataError;
use trainer::merged::MergedError;
use trainer::parameter_file::ParameterFileError;
use trainer::rules::RuleError;
use trainer::saved_rows::SavedRowsError;

use crate::sample::FieldError;

/// Why a model cannot be opened or applied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum PredictError {
    /// The path is neither a pass directory nor a merged model, and has no finished pass in or below it.
    #[error(
        "{path} has no model: give a pass directory (output/pass-00000), an output folder, a job folder in which a pass has finished, or a merged model"
    )]
    NoModel {
        /// As the user named it.
        path: PathBuf,
    },
    /// The path does not exist or cannot be read.
    #[error("look for a model in {path}")]
    NoPath {
        /// As the user named it.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The directory has no file `done`.
    #[error(
        "{path} is not a complete pass directory: it has no file `done`, so it is still being written, or was copied while it was"
    )]
    Incomplete {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The pass directory does not name its configuration.
    #[error("{directory} has no path.txt that names its configuration; give it with --config")]
    NoConfiguration {
        /// Path of the pass directory.
        directory: PathBuf,
    },
    /// The configuration cannot be evaluated.
    #[error(transparent)]
    Configuration(#[from] config::ConfigError),
    /// The Python package `paddle` cannot be written to disk.
    #[error("write the Python package")]
    Package(#[from] config::python::PackageError),
    /// The configuration describes no network.
    #[error("{file} describes no network")]
    NoNetwork {
        /// Path of the configuration.
        file: PathBuf,
    },
    /// An output is a cost layer none of whose inputs is a prediction.
    #[error(
        "cost layer '{layer}' has no input that could be an output; choose layers with --output (there are {known})"
    )]
    NoOutput {
        /// Name of the cost layer.
        layer: String,
        /// Names of layers, for the message.
        known: String,
    },
    /// A layer that was asked for does not exist.
    #[error("there is no layer '{layer}'; there are {known}")]
    UnknownLayer {
        /// The name that was given.
        layer: String,
        /// Names of layers, for the message.
        known: String,
    },
    /// The types of the inputs are not known, because the configuration has no data source.
    #[error(
        "the configuration has no data source from which the types of data layer {layers} are known; give --type {layers}=TYPE, such as integer_value_sequence"
    )]
    NoTypes {
        /// Names of the data layers.
        layers: String,
    },
    /// No file was named, and the configuration has none for testing.
    #[error("the configuration has no test list; name the files to predict")]
    NoTestList,
    /// The data provider, which declares the types of the inputs, was not found in the searched folders.
    #[error(
        "name the folder that the model was trained in with --job, or give the types of the inputs with --type LAYER=TYPE ({layers}; words also need --dictionary and --unknown){searched}"
    )]
    NoProvider {
        /// Names of the data layers.
        layers: String,
        /// The folders that were searched for the provider of a merged model, after a semicolon.
        searched: String,
        /// Where it was searched.
        #[source]
        source: Box<DataError>,
    },
    /// A type or dictionary was given for a data layer that is not needed or does not exist.
    #[error("{option}: {reason}")]
    Option {
        /// The option and its value.
        option: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The network cannot be built.
    #[error("build the network")]
    Build(#[from] nn::BuildError),
    /// The data source cannot be described or read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A parameter cannot be read.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// A merged model cannot be read.
    #[error(transparent)]
    Merged(#[from] MergedError),
    /// Tables that servers saved cannot be read.
    #[error(transparent)]
    SavedRows(#[from] SavedRowsError),
    /// A learning rule does not exist; it is needed to bring rows that servers saved up to date.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The directory lacks a parameter that the outputs need.
    #[error(
        "{directory} has no parameter '{parameter}': it belongs to another configuration than {config}"
    )]
    MissingParameter {
        /// Path of the pass directory.
        directory: PathBuf,
        /// Name of the parameter.
        parameter: String,
        /// Path of the configuration.
        config: PathBuf,
    },
    /// A sample does not fit the inputs.
    #[error("{place}")]
    Sample {
        /// File and line, or the number of the sample.
        place: String,
        /// The field and what is wrong with it.
        #[source]
        source: FieldError,
    },
    /// A batch cannot be computed.
    #[error("compute {samples}")]
    Compute {
        samples: String,
        /// The layer and the reason.
        #[source]
        source: nn::ExecuteError,
    },
    /// An output is not a number.
    #[error("{place}: output '{layer}' is not finite; the parameters or the input are not usable")]
    NotFinite {
        /// Which sample.
        place: String,
        /// Name of the output layer.
        layer: String,
    },
    /// An input cannot be read.
    #[error("read {path}")]
    Read {
        /// Path of the file, or `standard input`.
        path: String,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// An output cannot be written.
    #[error("write {path}")]
    Write {
        /// Path of the file, or `standard output`.
        path: String,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// A parameter that was asked for does not exist.
    #[error("there is no parameter '{name}'; there are {known}")]
    UnknownParameter {
        /// The name that was given.
        name: String,
        /// Readable names of all, for the message.
        known: String,
    },
    /// A row that was asked for does not exist.
    #[error(
        "parameter '{parameter}' has no row '{row}': give a word of its dictionary, or a number below {rows}"
    )]
    UnknownRow {
        /// Readable name of the parameter.
        parameter: String,
        /// The word or number that was given.
        row: String,
        /// Number of rows.
        rows: usize,
    },
    /// A file with parameters of another program cannot be used.
    #[error("{path} cannot be imported: {reason}")]
    Import {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A layer cannot be expressed in ONNX.
    #[error("layer '{layer}' cannot be exported to ONNX: {reason}")]
    Onnx {
        /// Name of the layer.
        layer: String,
        /// What has no equivalent.
        reason: String,
    },
    /// A thread that computes panicked.
    #[error("a thread that computes ended unexpectedly")]
    Thread,
}
