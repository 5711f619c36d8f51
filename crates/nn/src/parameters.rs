//! The numbers a network learns: what it must know of each, and their values, whole or some rows of them.

use config::ModelConfig;

use crate::error::{BuildError, LayerError};

/// Position of a parameter in the model's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterIndex(pub usize);

/// What a network needs to know of one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterSpec {
    /// Name, unique in the model; layers that use the same name share the values.
    pub name: String,
    /// Number of rows: the first of its `dims`.
    pub rows: usize,
    /// Width of a row.
    pub cols: usize,
    /// Whether only the rows that a batch touches have a gradient (`sparse_update`).
    pub by_row: bool,
    /// Whether all that is ever read of it are the rows that a batch's data name.
    pub looked_up: bool,
    /// Whether it never changes and therefore needs no gradient.
    pub is_static: bool,
}

impl ParameterSpec {
    /// Number of values.
    pub fn size(&self) -> usize {
        self.rows * self.cols
    }

    /// The parameters of a model, in its order.
    pub(crate) fn all(model: &ModelConfig) -> Result<Vec<Self>, BuildError> {
        model
            .parameters
            .iter()
            .map(|parameter| {
                let rows = parameter.dims.first().copied().unwrap_or(1);
                let fits = rows > 0
                    && parameter.size % rows == 0
                    && (parameter.dims.is_empty()
                        || parameter
                            .dims
                            .iter()
                            .try_fold(1u64, |n, &d| n.checked_mul(d))
                            == Some(parameter.size));
                let (Ok(size), Ok(rows), true) =
                    (usize::try_from(parameter.size), usize::try_from(rows), fits)
                else {
                    return Err(BuildError::ParameterShape {
                        parameter: parameter.name.clone(),
                        size: parameter.size,
                        dims: parameter.dims.clone(),
                    });
                };
                Ok(Self {
                    name: parameter.name.clone(),
                    rows,
                    cols: size / rows,
                    by_row: parameter.sparse_update() || parameter.sparse_remote_update(),
                    looked_up: false,
                    is_static: parameter.is_static(),
                })
            })
            .collect()
    }
}

/// The values of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// All rows.
    Full(Vec<f32>),
    /// Only some rows: those that the coming batch needs, fetched from a server.
    Rows {
        /// The rows, ascending.
        ids: Vec<u32>,
        /// Their values, one row after another.
        values: Vec<f32>,
    },
}

/// The values of all parameters, in the model's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters(pub Vec<Values>);

impl Parameters {
    /// All values of a parameter that is wholly here.
    pub fn full(&self, parameter: ParameterIndex) -> Result<&[f32], LayerError> {
        match &self.0[parameter.0] {
            Values::Full(values) => Ok(values),
            Values::Rows { .. } => Err(LayerError::Value(
                "a parameter that is kept by row is read as a whole; remove sparse_update from it"
                    .to_owned(),
            )),
        }
    }

    /// The rows of a parameter, whichever are here.
    pub fn table<'a>(&'a self, parameter: ParameterIndex, spec: &'a ParameterSpec) -> Table<'a> {
        let (ids, values) = match &self.0[parameter.0] {
            Values::Full(values) => (None, values),
            Values::Rows { ids, values } => (Some(&ids[..]), values),
        };
        Table { ids, values, spec }
    }
}

/// Access to the rows of a parameter by their number.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    ids: Option<&'a [u32]>,
    values: &'a [f32],
    spec: &'a ParameterSpec,
}

impl<'a> Table<'a> {
    /// Where in the stored values a row is.
    #[inline(always)]
    pub fn place(&self, row: u32) -> Result<usize, LayerError> {
        if row as usize >= self.spec.rows {
            return Err(LayerError::Id {
                id: row,
                limit: self.spec.rows,
            });
        }
        match self.ids {
            None => Ok(row as usize),
            Some(ids) => ids.binary_search(&row).map_err(|_| LayerError::MissingRow {
                parameter: self.spec.name.clone(),
                row,
            }),
        }
    }

    /// Whether all rows are here, so that the place of a row is its number.
    pub fn is_whole(&self) -> bool {
        self.ids.is_none()
    }

    /// All stored values.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The row stored at a place.
    #[inline(always)]
    pub fn at(&self, place: usize) -> &'a [f32] {
        &self.values[place * self.spec.cols..(place + 1) * self.spec.cols]
    }

    /// One row.
    pub fn row(&self, row: u32) -> Result<&'a [f32], LayerError> {
        Ok(self.at(self.place(row)?))
    }
}
