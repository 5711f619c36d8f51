//! Converts Python's values to batches.

use nn::Batch;
use predict::sample::{FieldError, Filling, InputField};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Number, Value};

/// All samples' values of one input.
pub(crate) enum InputColumn {
    /// A value per sample.
    Values(Vec<Value>),
    /// Numbers of all samples, and where those of each end.
    Numbers(Vec<f32>, Vec<usize>),
    /// Ids of all samples, and where those of each end.
    Ids(Vec<i64>, Vec<usize>),
}

impl InputColumn {
    /// From `("values", list)`, `("numbers", bytes of f32, lengths)` or `("ids", bytes of i64, lengths)`; lengths are
    /// bytes of i64.
    pub(crate) fn of(given: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let kind: String = given.get_item(0)?.extract()?;
        if kind == "values" {
            let list = given.get_item(1)?.cast_into::<PyList>()?;
            return Ok(Self::Values(
                list.iter()
                    .map(|each| value(&each, 0))
                    .collect::<PyResult<_>>()?,
            ));
        }
        let data = given.get_item(1)?.cast_into::<PyBytes>()?;
        let lengths = given.get_item(2)?.cast_into::<PyBytes>()?;
        let mut end = 0usize;
        let ends = elements::<i64>(lengths.as_bytes())
            .into_iter()
            .map(|length| {
                end = end.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
                end
            });
        let ends: Vec<usize> = ends.collect();
        let column = match &*kind {
            "numbers" => Self::Numbers(elements(data.as_bytes()), ends),
            _ => Self::Ids(elements(data.as_bytes()), ends),
        };
        let (have, want) = (column.elements(), column.end());
        if have == want {
            Ok(column)
        } else {
            Err(PyValueError::new_err(format!(
                "{have} elements, the lengths say {want}"
            )))
        }
    }

    /// Number of elements of all samples.
    fn elements(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Numbers(numbers, _) => numbers.len(),
            Self::Ids(ids, _) => ids.len(),
        }
    }

    /// The element at which the last sample ends.
    fn end(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Numbers(_, ends) | Self::Ids(_, ends) => ends.last().copied().unwrap_or(0),
        }
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Numbers(_, ends) | Self::Ids(_, ends) => ends.len(),
        }
    }

    fn fill(
        &self,
        filling: &mut Filling<'_>,
        input: usize,
        sample: usize,
    ) -> Result<(), FieldError> {
        let range = |ends: &[usize]| match sample {
            0 => 0..ends[0],
            sample => ends[sample - 1]..ends[sample],
        };
        match self {
            Self::Values(values) => match &values[sample] {
                Value::String(text) => filling.text(input, text),
                value => filling.json(input, value),
            },
            Self::Numbers(numbers, ends) => filling.numbers(input, &numbers[range(ends)]),
            Self::Ids(ids, ends) => filling.ids(input, &ids[range(ends)]),
        }
    }
}

/// The batch of some samples; the error names a sample, counted from 0 as in Python, and its field.
pub(crate) fn batch(
    fields: &[InputField],
    columns: &[InputColumn],
    samples: std::ops::Range<usize>,
) -> Result<Batch, String> {
    let mut filling = Filling::new(fields);
    for sample in samples {
        for (input, column) in columns.iter().enumerate() {
            column
                .fill(&mut filling, input, sample)
                .map_err(|error| format!("sample {sample}, {error}"))?;
        }
        filling.end();
    }
    Ok(filling.finish())
}

fn elements<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    let elements = bytes.chunks_exact(size_of::<T>());
    elements.map(bytemuck::pod_read_unaligned).collect()
}

/// The deepest value: a list of sequences of positions of pairs is 4 deep.
const DEEPEST: usize = 8;

fn value(given: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(PyValueError::new_err("lists are nested too deeply"));
    }
    let list = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| {
        items
            .map(|each| value(&each, depth + 1))
            .collect::<PyResult<Vec<_>>>()
            .map(Value::Array)
    };
    if let Ok(text) = given.cast::<PyString>() {
        Ok(Value::String(text.to_cow()?.into_owned()))
    } else if given.is_instance_of::<PyBool>() {
        Ok(Value::Bool(given.extract()?))
    } else if given.is_instance_of::<PyInt>() {
        // An integer beyond 64 bits is an id out of range in any case.
        Ok(Value::from(given.extract::<i64>().unwrap_or(i64::MAX)))
    } else if given.is_instance_of::<PyFloat>() {
        let number: f64 = given.extract()?;
        let finite = Number::from_f64(number).map(Value::Number);
        finite.ok_or_else(|| PyValueError::new_err(format!("{number} is not a finite number")))
    } else if let Ok(items) = given.cast::<PyList>() {
        list(&mut items.iter())
    } else if let Ok(items) = given.cast::<PyTuple>() {
        list(&mut items.iter())
    } else if let Ok(entries) = given.cast::<PyDict>() {
        let entries = entries
            .iter()
            .map(|(key, each)| Ok((key.str()?.to_string(), value(&each, depth + 1)?)));
        Ok(Value::Object(entries.collect::<PyResult<_>>()?))
    } else if given.hasattr("tolist")? {
        // NumPy's arrays and scalars.
        value(&given.call_method0("tolist")?, depth + 1)
    } else {
        let kind = given.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "a value of type {kind} cannot be part of a sample"
        )))
    }
}
