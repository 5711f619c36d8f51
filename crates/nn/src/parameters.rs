//! The parameters of a network: their shapes, and their values, all or only some rows.

use std::fmt;
use std::sync::Arc;

use config::ModelConfig;

use crate::error::{BuildError, LayerError};

/// Index of a parameter in the model's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterIndex(pub usize);

/// Name, shape and use of a parameter.
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
    /// Whether the network only ever reads the rows that a batch's data name.
    pub looked_up: bool,
    /// Whether no optimizer changes it: it needs no gradient.
    pub is_static: bool,
    /// Whether it is static and a layer maintains it ([`Network::assigned`](crate::Network::assigned)): a moving average
    /// of batch normalisation.
    pub maintained: bool,
}

impl ParameterSpec {
    /// Number of values: rows times columns.
    pub fn size(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether training changes it: an optimizer does, or the layer that maintains it.
    pub fn changes(&self) -> bool {
        !self.is_static || self.maintained
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
                    maintained: false,
                })
            })
            .collect()
    }
}

/// The values of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValues {
    /// All rows, one after another.
    Full(Vec<f32>),
    /// Only some rows: those that the coming batch needs, fetched from a server.
    Rows {
        /// The rows, ascending.
        ids: Vec<u32>,
        /// Their values, one row after another.
        values: Vec<f32>,
    },
    /// All rows, read by several networks at once and never changed: a model that is only applied.
    Shared(SharedValues),
}

/// Values that several networks read: in memory, or of a file that is mapped.
#[derive(Clone)]
pub struct SharedValues(Arc<dyn AsRef<[f32]> + Send + Sync>);

impl SharedValues {
    /// Shares what holds the values.
    pub fn new(holder: impl AsRef<[f32]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holder))
    }

    /// The values, row after row.
    pub fn values(&self) -> &[f32] {
        self.0.as_ref().as_ref()
    }

    /// Whether both are the same ones, not only equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SharedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shared values", self.values().len())
    }
}

impl PartialEq for SharedValues {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

/// The values of all parameters, in the model's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters(pub Vec<ParameterValues>);

impl Parameters {
    /// All values of a parameter; an error if only some rows are available.
    pub fn full(&self, parameter: ParameterIndex) -> Result<&[f32], LayerError> {
        match &self.0[parameter.0] {
            ParameterValues::Full(values) => Ok(values),
            ParameterValues::Shared(shared) => Ok(shared.values()),
            ParameterValues::Rows { .. } => Err(LayerError::Value(
                "a parameter that is kept by row is read as a whole; remove sparse_update from it"
                    .to_owned(),
            )),
        }
    }

    /// The values of a parameter, if they never change.
    pub(crate) fn shared(&self, parameter: ParameterIndex) -> Option<&SharedValues> {
        match &self.0[parameter.0] {
            ParameterValues::Shared(shared) => Some(shared),
            ParameterValues::Full(_) | ParameterValues::Rows { .. } => None,
        }
    }

    /// The rows of a parameter, those that are available.
    pub fn table<'a>(
        &'a self,
        parameter: ParameterIndex,
        spec: &'a ParameterSpec,
    ) -> ParameterRows<'a> {
        let (ids, values) = match &self.0[parameter.0] {
            ParameterValues::Full(values) => (None, &values[..]),
            ParameterValues::Shared(shared) => (None, shared.values()),
            ParameterValues::Rows { ids, values } => (Some(&ids[..]), &values[..]),
        };
        ParameterRows { ids, values, spec }
    }
}

/// Access to the rows of a parameter by their index.
#[derive(Debug, Clone, Copy)]
pub struct ParameterRows<'a> {
    ids: Option<&'a [u32]>,
    values: &'a [f32],
    spec: &'a ParameterSpec,
}

impl<'a> ParameterRows<'a> {
    /// Index of a row in the stored values.
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

    /// Whether all rows are available, so that the stored index of a row is its own index.
    pub fn is_whole(&self) -> bool {
        self.ids.is_none()
    }

    /// All stored values, row after row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The row at a stored index.
    #[inline(always)]
    pub fn at(&self, place: usize) -> &'a [f32] {
        &self.values[place * self.spec.cols..(place + 1) * self.spec.cols]
    }

    /// One row by its index; an error if it is not available.
    pub fn row(&self, row: u32) -> Result<&'a [f32], LayerError> {
        Ok(self.at(self.place(row)?))
    }
}
