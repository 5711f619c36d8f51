//! The curves of a job, as its page shows them: what a roll-back undid is not in them.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use watch::job::WatchedJob;
use watch::series::Point;

/// A curve: node, metric, whether it is of a test; then samples, seconds since 1970 and values, as bytes of f64.
type Curve<'py> = (
    u32,
    String,
    bool,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
);

/// The output folder of a job, and all its curves.
#[pyfunction]
pub(crate) fn curves(py: Python<'_>, path: PathBuf) -> PyResult<(PathBuf, Vec<Curve<'_>>)> {
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
        (
            key.node,
            key.metric.clone(),
            key.test,
            array(points, |point| point.samples),
            array(points, |point| point.t),
            array(points, |point| point.value),
        )
    });
    Ok((job.output().to_owned(), curves.collect()))
}
