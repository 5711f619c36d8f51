//! The curves of a job, as its page shows them: without the batches that a roll-back undid.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use watch::job::WatchedJob;
use watch::series::Point;

/// A curve, with arrays as bytes of f64. A dictionary in Python.
#[derive(IntoPyObject)]
struct PythonCurve<'py> {
    node: u32,
    metric: String,
    /// Measured on test data.
    test: bool,
    samples: Bound<'py, PyByteArray>,
    /// Seconds since 1970.
    time: Bound<'py, PyByteArray>,
    values: Bound<'py, PyByteArray>,
}

/// What a job has recorded. A dictionary in Python.
#[derive(IntoPyObject)]
pub(crate) struct PythonCurves<'py> {
    /// The output folder.
    output: PathBuf,
    curves: Vec<PythonCurve<'py>>,
}

/// Reads all curves of a job.
#[pyfunction]
pub(crate) fn curves(py: Python<'_>, path: PathBuf) -> PyResult<PythonCurves<'_>> {
    let job = py.detach(|| {
        let mut job = WatchedJob::open(&path)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        job.look(
            Instant::now(),
            unix.map_or(0.0, |since| since.as_secs_f64()),
        );
        Ok(job)
    });
    let job = job.map_err(|error: watch::job::NoJob| crate::raised(&error))?;
    let array = |points: &[Point], part: fn(&Point) -> f64| {
        let values: Vec<f64> = points.iter().map(part).collect();
        PyByteArray::new(py, bytemuck::cast_slice(&values))
    };
    let curves = job.history.series.iter().map(|(key, series)| {
        let points = series.points();
        PythonCurve {
            node: key.node,
            metric: key.metric.clone(),
            test: key.test,
            samples: array(points, |point| point.samples),
            time: array(points, |point| point.t),
            values: array(points, |point| point.value),
        }
    });
    Ok(PythonCurves {
        output: job.output().to_owned(),
        curves: curves.collect(),
    })
}
