//! What can go wrong: a network that cannot be built, a batch that cannot be computed.

/// Why a [`crate::Network`] could not be built from its description.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No executable layer is registered under this type.
    #[error("{} cannot be executed yet", what(layer, kind))]
    UnknownType {
        /// Name of the layer.
        layer: String,
        /// Its type string.
        kind: String,
    },
    /// A layer names an input that is not defined before it.
    #[error("layer '{layer}' reads '{input}', which is not a layer defined before it")]
    UnknownInput {
        /// Name of the layer.
        layer: String,
        /// The input it names.
        input: String,
    },
    /// A layer reads a data layer that is not among the model's inputs, so no sample would reach it.
    #[error(
        "layer '{layer}' reads data layer '{input}', which is not among the inputs: name it in inputs(…), or give outputs(…) a layer above it"
    )]
    UnfedInput {
        /// Name of the layer.
        layer: String,
        /// The data layer it names.
        input: String,
    },
    /// A layer names a parameter that the model does not have.
    #[error("layer '{layer}' uses parameter '{parameter}', which the model does not define")]
    UnknownParameter {
        /// Name of the layer.
        layer: String,
        /// The parameter it names.
        parameter: String,
    },
    /// The fields of a layer contradict each other or its inputs.
    #[error("layer '{layer}' of type '{kind}': {reason}")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// Its type string.
        kind: String,
        /// What is wrong, and with which value.
        reason: String,
    },
    /// A parameter's `size` is not the product of its `dims`.
    #[error("parameter '{parameter}' has size {size} but dims {dims:?}")]
    ParameterShape {
        /// Name of the parameter.
        parameter: String,
        /// Its declared number of values.
        size: u64,
        /// Its declared dimensions.
        dims: Vec<u64>,
    },
    /// An evaluator that this build does not know, or with unusable fields.
    #[error("evaluator '{evaluator}': {reason}")]
    Evaluator {
        /// Name of the evaluator.
        evaluator: String,
        /// What is wrong.
        reason: String,
    },
}

/// What a layer is to whoever wrote the configuration.
fn what(layer: &str, kind: &str) -> String {
    if kind == "recurrent_layer_group" {
        format!("recurrent group '{layer}' can be described, but")
    } else {
        format!("layer '{layer}' of type '{kind}'")
    }
}

/// Why a batch could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The batch does not have one slot for each data layer.
    #[error("the batch has {got} slots but the network has {want} data layers")]
    SlotCount {
        /// Slots in the batch.
        got: usize,
        /// Data layers in the network.
        want: usize,
    },
    /// A layer could not use what it was given.
    #[error("layer '{layer}'")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// What it could not use.
        #[source]
        source: LayerError,
    },
    /// An evaluator could not use what it was given.
    #[error("evaluator '{evaluator}'")]
    Evaluator {
        /// Name of the evaluator.
        evaluator: String,
        /// What it could not use.
        #[source]
        source: LayerError,
    },
    /// The cost is not a finite number; the layer is the first one whose output is not.
    #[error(
        "the cost is not finite: the output of layer '{layer}' is the first with a NaN or infinity"
    )]
    NotFinite {
        /// Name of the first layer in execution order with a value that is not finite.
        layer: String,
    },
}

/// Why one layer could not use its inputs.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum LayerError {
    /// The input holds another kind of data than the layer reads.
    #[error("input {input} holds {got}, but {want} are needed")]
    Kind {
        /// Position of the input.
        input: usize,
        /// Kind the input has.
        got: &'static str,
        /// Kind the layer reads.
        want: &'static str,
    },
    /// The input's rows have another width than the layer was built for.
    #[error("input {input} has width {got}, but {want} is needed")]
    Width {
        /// Position of the input.
        input: usize,
        /// Width the input has.
        got: usize,
        /// Width the layer needs.
        want: usize,
    },
    /// Inputs that go row by row do not have the same number of rows.
    #[error(
        "input {input} has {got} rows, but {want} are needed: do all inputs have the same sequences?"
    )]
    Rows {
        /// Position of the input.
        input: usize,
        /// Rows the input has.
        got: usize,
        /// Rows the first input has.
        want: usize,
    },
    /// The layer works on sequences, the input has none.
    #[error("input {input} is not a sequence")]
    NotSequence {
        /// Position of the input.
        input: usize,
    },
    /// The layer works on nested sequences, the input has none.
    #[error("input {input} has no sub-sequences")]
    NotNested {
        /// Position of the input.
        input: usize,
    },
    /// An id that does not fit the dictionary.
    #[error("id {id} is out of range, there are only {limit}")]
    Id {
        /// The id.
        id: u32,
        /// Number of valid ids.
        limit: usize,
    },
    /// A slot whose arrays contradict each other.
    #[error("malformed data: {0}")]
    Malformed(String),
    /// Rows of a by-row parameter that the caller did not bring along.
    #[error("row {row} of parameter '{parameter}' is not among the rows that were fetched")]
    MissingRow {
        /// Name of the parameter.
        parameter: String,
        /// The row.
        row: u32,
    },
    /// A value that the layer cannot work with.
    #[error("{0}")]
    Value(String),
}
