//! Errors: a network that cannot be built, a batch that cannot be computed.

/// Why a [`crate::Network`] could not be built from its description.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No executable layer is registered under this type.
    #[error("layer '{layer}' of type '{kind}' cannot be executed yet")]
    UnknownType {
        /// Name of the layer.
        layer: String,
        /// Its v1 type, such as `fc`.
        kind: String,
    },
    /// A layer names an input that is not defined before it.
    #[error("layer '{layer}' reads '{input}', which is not a layer defined before it")]
    UnknownInput {
        /// Name of the layer.
        layer: String,
        /// Name of the missing input.
        input: String,
    },
    /// A layer reads a data layer that is not among the model's inputs, so no sample would reach it.
    #[error(
        "layer '{layer}' reads data layer '{input}', which is not among the inputs: name it in inputs(…), or give outputs(…) a layer above it"
    )]
    UnfedInput {
        /// Name of the layer.
        layer: String,
        /// Name of the data layer.
        input: String,
    },
    /// A layer names a parameter that the model does not have.
    #[error("layer '{layer}' uses parameter '{parameter}', which the model does not define")]
    UnknownParameter {
        /// Name of the layer.
        layer: String,
        /// Name of the missing parameter.
        parameter: String,
    },
    /// The fields of a layer contradict each other or its inputs.
    #[error("layer '{layer}' of type '{kind}': {reason}")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// Its v1 type, such as `fc`.
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
    /// An evaluator of unknown type, or with invalid fields.
    #[error("evaluator '{evaluator}': {reason}")]
    Evaluator {
        /// Name of the evaluator.
        evaluator: String,
        /// The field that is wrong, and why.
        reason: String,
    },
}

/// Why a batch could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The batch does not have one slot per data layer.
    #[error("the batch has {got} slots but the network has {want} data layers")]
    SlotCount {
        /// Number of slots in the batch.
        got: usize,
        /// Number of data layers in the network.
        want: usize,
    },
    /// The inputs of a layer do not fit it.
    #[error("layer '{layer}'")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// The input that does not fit, and why.
        #[source]
        source: LayerError,
    },
    /// The inputs of an evaluator do not fit it.
    #[error("evaluator '{evaluator}'")]
    Evaluator {
        /// Name of the evaluator.
        evaluator: String,
        /// The input that does not fit, and why.
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
        /// Index of the input, from 0.
        input: usize,
        /// Kind the input has.
        got: &'static str,
        /// Kind the layer reads.
        want: &'static str,
    },
    /// The input's rows have another width than the layer was built for.
    #[error("input {input} has width {got}, but {want} is needed")]
    Width {
        /// Index of the input, from 0.
        input: usize,
        /// Width the input has.
        got: usize,
        /// Width the layer needs.
        want: usize,
    },
    /// Inputs that are combined row by row do not have the same number of rows.
    #[error(
        "input {input} has {got} rows, but {want} are needed: do all inputs have the same sequences?"
    )]
    Rows {
        /// Index of the input, from 0.
        input: usize,
        /// Rows the input has.
        got: usize,
        /// Rows the first input has.
        want: usize,
    },
    /// The layer works on sequences, the input has none.
    #[error("input {input} is not a sequence")]
    NotSequence {
        /// Index of the input, from 0.
        input: usize,
    },
    /// The layer works on nested sequences, the input has none.
    #[error("input {input} has no sub-sequences")]
    NotNested {
        /// Index of the input, from 0.
        input: usize,
    },
    /// An id is not below the number of ids.
    #[error("id {} is out of range, there are only {limit}", id.cast_signed())]
    Id {
        /// The id that was read; data have it as a signed integer of 32 bits.
        id: u32,
        /// Number of valid ids.
        limit: usize,
    },
    /// The arrays of a slot contradict each other; the text names them.
    #[error("malformed data: {0}")]
    Malformed(String),
    /// A row of a by-row parameter that the caller did not provide.
    #[error("row {row} of parameter '{parameter}' is not among the rows that were fetched")]
    MissingRow {
        /// Name of the parameter.
        parameter: String,
        /// Index of the row, from 0.
        row: u32,
    },
    /// A layer inside a recurrent group could not use its inputs.
    #[error("layer '{layer}' of the group")]
    Inner {
        /// Name of the layer.
        layer: String,
        /// The input that does not fit, and why.
        #[source]
        source: Box<LayerError>,
    },
    /// A value that the layer cannot use; the text names it and the reason.
    #[error("{0}")]
    Value(String),
}
