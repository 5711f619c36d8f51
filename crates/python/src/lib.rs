//! The native half of the Python package `canoe`: models that compute, and the curves of jobs.
//!
//! Arrays are passed to Python as bytes, because the stable ABI of Python 3.9 has no buffer protocol; `python/canoe`
//! makes NumPy arrays of them. The interpreter lock is released while a model is opened, read or computed.
//!
//! - [`model`]: the class `Model`. [`samples`]: converts Python's values to batches. [`outputs`]: converts outputs to
//!   arrays.
//! - [`job`]: the record of a job.

mod job;
mod model;
mod outputs;
mod samples;

use pyo3::prelude::*;
use std::path::PathBuf;

pyo3::create_exception!(
    canoe,
    Error,
    pyo3::exceptions::PyException,
    "A model, a job or a program of canoe failed; the text says why."
);

/// A Python exception for an error, with all its causes on one line.
fn raised(error: &dyn std::error::Error) -> PyErr {
    Error::new_err(words::causes::chain(error))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    if let Some(caches) = absolute("XDG_CACHE_HOME").or_else(home) {
        predict::keep_package_below(caches);
    }
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::PythonModel>()?;
    module.add_function(wrap_pyfunction!(job::curves, module)?)
}
