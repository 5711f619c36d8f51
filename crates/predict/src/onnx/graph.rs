//! A graph under construction: operations, constants, and sequences, which ONNX does not have.
//!
//! A sequence input is ragged: the rows of all samples one after another, and the number of rows of each sample. Where an
//! operation needs sequences side by side they are padded (`[samples, longest, width]`), and what it makes is cut into
//! rows again. Rows behind the end of a sequence are zeros.

use super::proto::{
    AttributeProto, Dimension, GraphProto, NodeProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};

const FLOAT: i32 = 1;
const INT64: i32 = 7;

/// A setting of an operation.
pub(super) enum Attribute<'a> {
    Float(&'a str, f32),
    Int(&'a str, i64),
    Ints(&'a str, &'a [i64]),
    Text(&'a str, &'a str),
    Texts(&'a str, &'a [&'a str]),
}

/// The type of an input or output.
#[derive(Clone, Copy)]
pub(super) enum Element {
    Float,
    Int,
}

/// Names of what describes the sequences of an input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    /// Rows of each sample, int64.
    pub lengths: String,
    /// Which places of the padded form are rows: `[samples, longest]`, bool.
    pub mask: String,
    /// The row of each place; behind the end, the number of all rows.
    index: String,
    /// Sample and position of each row: `[rows, 2]`.
    places: String,
    /// The longest sequence, at least 1.
    pub longest: String,
}

#[derive(Default)]
pub(super) struct OnnxGraph {
    made: GraphProto,
    names: usize,
    layer: String,
}

impl OnnxGraph {
    /// Names the layer that the next operations belong to.
    pub(super) fn enter(&mut self, layer: &str) {
        layer.clone_into(&mut self.layer);
    }

    fn fresh(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{}/{what}_{}", self.layer, self.names)
    }

    /// Adds an operation with one result, and returns the result's name.
    pub(super) fn op(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: &[Attribute<'_>],
    ) -> String {
        let output = self.fresh(kind);
        self.op_to(kind, inputs, attributes, &output);
        output
    }

    /// As [`OnnxGraph::op`], with a name for the result.
    pub(super) fn op_to(
        &mut self,
        kind: &str,
        inputs: &[&str],
        settings: &[Attribute<'_>],
        to: &str,
    ) {
        self.made.node.push(NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![to.to_owned()],
            name: format!("{to}:{kind}"),
            op_type: kind.to_owned(),
            attribute: settings.iter().map(attribute).collect(),
        });
    }

    /// Adds a constant of floats.
    pub(super) fn floats(&mut self, what: &str, shape: &[usize], values: &[f32]) -> String {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(what, shape, FLOAT, bytes)
    }

    /// Adds a constant of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant("ints", &[values.len()], INT64, bytes)
    }

    /// Adds a single integer.
    pub(super) fn int(&mut self, value: i64) -> String {
        self.constant("int", &[], INT64, value.to_le_bytes().to_vec())
    }

    fn constant(&mut self, what: &str, shape: &[usize], data_type: i32, raw: Vec<u8>) -> String {
        let name = self.fresh(what);
        self.made.initializer.push(TensorProto {
            dims: shape.iter().map(|size| *size as i64).collect(),
            data_type,
            name: name.clone(),
            raw_data: raw,
        });
        name
    }

    /// Declares an input; a dimension without a number has a name.
    pub(super) fn input(&mut self, name: &str, element: Element, shape: &[Result<usize, &str>]) {
        self.made.input.push(info(name, element, shape));
    }

    /// Declares an output that an operation has made under another name.
    pub(super) fn output(
        &mut self,
        name: &str,
        from: &str,
        element: Element,
        shape: &[Result<usize, &str>],
    ) {
        self.op_to("Identity", &[from], &[], name);
        self.made.output.push(info(name, element, shape));
    }

    /// What describes sequences with these lengths.
    pub(super) fn sequence(&mut self, lengths: &str) -> Sequence {
        let (zero, one) = (self.int(0), self.int(1));
        let first = self.ints(&[0]);
        let second = self.ints(&[1]);
        let longest = self.op("ReduceMax", &[lengths], &[Attribute::Int("keepdims", 0)]);
        let longest = self.op("Max", &[&longest, &one], &[]);
        let positions = self.op("Range", &[&zero, &longest, &one], &[]);
        let positions = self.op("Unsqueeze", &[&positions, &first], &[]);
        let column = self.op("Unsqueeze", &[lengths, &second], &[]);
        let mask = self.op("Less", &[&positions, &column], &[]);
        let starts = self.op(
            "CumSum",
            &[lengths, &zero],
            &[Attribute::Int("exclusive", 1)],
        );
        let starts = self.op("Unsqueeze", &[&starts, &second], &[]);
        let rows = self.op("Add", &[&starts, &positions], &[]);
        let all = self.op("ReduceSum", &[lengths], &[Attribute::Int("keepdims", 0)]);
        let index = self.op("Where", &[&mask, &rows, &all], &[]);
        let places = self.op("NonZero", &[&mask], &[]);
        let places = self.op("Transpose", &[&places], &[Attribute::Ints("perm", &[1, 0])]);
        Sequence {
            lengths: lengths.to_owned(),
            mask,
            index,
            places,
            longest,
        }
    }

    /// Rows side by side: `[samples, longest, width]`, zeros behind the ends.
    pub(super) fn padded(&mut self, rows: &str, width: usize, sequence: &Sequence) -> String {
        let zeros = self.floats("zeros", &[1, width], &vec![0.0; width]);
        let rows = self.op("Concat", &[rows, &zeros], &[Attribute::Int("axis", 0)]);
        self.op(
            "Gather",
            &[&rows, &sequence.index],
            &[Attribute::Int("axis", 0)],
        )
    }

    /// The rows of a padded form, one after another.
    pub(super) fn rows(&mut self, padded: &str, sequence: &Sequence) -> String {
        self.op("GatherND", &[padded, &sequence.places], &[])
    }

    /// For each row the number of its sample.
    pub(super) fn samples(&mut self, sequence: &Sequence) -> String {
        let first = self.int(0);
        self.op(
            "Gather",
            &[&sequence.places, &first],
            &[Attribute::Int("axis", 1)],
        )
    }

    /// The mask as `[samples, longest, 1]`.
    pub(super) fn wide_mask(&mut self, sequence: &Sequence) -> String {
        let axis = self.ints(&[2]);
        self.op("Unsqueeze", &[&sequence.mask, &axis], &[])
    }

    /// The finished graph.
    pub(super) fn finish(mut self, name: &str) -> GraphProto {
        name.clone_into(&mut self.made.name);
        self.made
    }
}

fn attribute(given: &Attribute<'_>) -> AttributeProto {
    let mut made = AttributeProto::default();
    let name = match given {
        Attribute::Float(name, value) => {
            (made.f, made.r#type) = (Some(*value), 1);
            name
        }
        Attribute::Int(name, value) => {
            (made.i, made.r#type) = (Some(*value), 2);
            name
        }
        Attribute::Text(name, text) => {
            (made.s, made.r#type) = (Some(text.as_bytes().to_vec()), 3);
            name
        }
        Attribute::Ints(name, values) => {
            (made.ints, made.r#type) = (values.to_vec(), 7);
            name
        }
        Attribute::Texts(name, texts) => {
            let texts = texts.iter().map(|text| text.as_bytes().to_vec());
            (made.strings, made.r#type) = (texts.collect(), 8);
            name
        }
    };
    (*name).clone_into(&mut made.name);
    made
}

fn info(name: &str, element: Element, shape: &[Result<usize, &str>]) -> ValueInfoProto {
    let dim = shape.iter().map(|size| match size {
        Ok(size) => Dimension {
            dim_value: Some(*size as i64),
            dim_param: None,
        },
        Err(name) => Dimension {
            dim_value: None,
            dim_param: Some((*name).to_owned()),
        },
    });
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: match element {
                    Element::Float => FLOAT,
                    Element::Int => INT64,
                },
                shape: Some(TensorShapeProto { dim: dim.collect() }),
            }),
        }),
    }
}
