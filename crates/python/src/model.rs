//! The class `Model`: an opened model that computes batches on several threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use words::lock::Mutex;

use predict::dictionary::Unknown;
use predict::export::{self, ListedParameter};
use predict::locate::Hints;
use predict::sample::expected;
use predict::write::Outputs;
use predict::{OpenOptions, PredictError, Runner};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};
use rayon::ThreadPool;

use crate::outputs::{GivenOutput, OutputArray};
use crate::samples::{self, InputColumn};

/// A trained model, ready to be applied.
#[pyclass(frozen, name = "Model", module = "canoe._core")]
pub struct PythonModel {
    model: predict::Model,
    path: PathBuf,
    options: OpenOptions,
    /// Networks with their buffers that no call uses at the moment.
    idle: Mutex<Vec<Worker>>,
    /// The whole network, opened when its parameters are asked for, and these parameters.
    whole: Mutex<Option<(predict::Model, Vec<ListedParameter>)>>,
}

struct Worker {
    runner: Runner,
    /// A pool of one thread, which keeps operations from using several.
    pool: ThreadPool,
}

/// Why samples cannot be computed.
enum Failed {
    Sample(String),
    Model(PredictError),
    Pool(rayon::ThreadPoolBuildError),
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Sample(text) => PyValueError::new_err(text),
            Failed::Model(error) => crate::raised(&error),
            Failed::Pool(error) => crate::raised(&error),
        }
    }
}

/// The fields of `canoe.Input`. A dictionary in Python.
#[derive(IntoPyObject)]
struct PythonInput {
    name: String,
    expects: String,
    kind: String,
    level: u8,
    size: usize,
    words: bool,
}

/// The fields of `canoe.Output`. A dictionary in Python.
#[derive(IntoPyObject)]
struct PythonOutput {
    name: String,
    width: usize,
    classes: bool,
    labels: Option<Vec<String>>,
}

/// A parameter. A dictionary in Python.
#[derive(IntoPyObject)]
struct PythonParameter {
    name: String,
    shape: Vec<usize>,
    /// The name that says where it is used.
    readable: String,
}

#[pymethods]
impl PythonModel {
    #[new]
    #[pyo3(signature = (path, *, python, job=None, config=None, config_args="", outputs=vec![], types=vec![], dictionaries=vec![], unknown=None, labels=vec![], seed=1))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        python: PathBuf,
        job: Option<PathBuf>,
        config: Option<PathBuf>,
        config_args: &str,
        outputs: Vec<String>,
        types: Vec<(String, String)>,
        dictionaries: Vec<(String, PathBuf)>,
        unknown: Option<String>,
        labels: Vec<(String, PathBuf)>,
        seed: u64,
    ) -> PyResult<Self> {
        let unknown = match unknown.as_deref() {
            None => None,
            Some("drop") => Some(Unknown::Drop),
            Some("refuse") => Some(Unknown::Refuse),
            Some(id) => Some(Unknown::Id(id.parse().map_err(|_| {
                PyValueError::new_err(format!(
                    "unknown={id:?}: an id, 'drop' or 'refuse' is expected"
                ))
            })?)),
        };
        let options = OpenOptions {
            hints: Hints { job, config },
            config_args: config_args.to_owned(),
            outputs,
            types,
            dictionaries,
            unknown,
            labels,
            python: Some(python),
            python_path: std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()),
            in_memory: false,
            whole: false,
            seed,
        };
        let opened = py.detach(|| predict::Model::open(&path, &options));
        Ok(Self {
            model: opened.map_err(|error| crate::raised(&error))?,
            path,
            options,
            idle: Mutex::default(),
            whole: Mutex::default(),
        })
    }

    /// The pass directory.
    #[getter]
    fn directory(&self) -> PathBuf {
        self.model.located.directory.clone()
    }

    #[getter]
    fn inputs(&self) -> Vec<PythonInput> {
        let fields = self.model.inputs.iter();
        let input = |field: &predict::sample::InputField| {
            let slot = &field.slot;
            PythonInput {
                name: slot.name.clone(),
                expects: expected(slot, slot.level),
                kind: format!("{:?}", slot.kind).to_lowercase(),
                level: slot.level,
                size: slot.dim,
                words: field.dictionary.is_some(),
            }
        };
        fields.map(input).collect()
    }

    #[getter]
    fn outputs(&self) -> Vec<PythonOutput> {
        let fields = self.model.outputs.iter();
        let output = |field: &predict::model::OutputField| PythonOutput {
            name: field.name.clone(),
            width: field.width,
            classes: field.classes,
            labels: field.labels.as_ref().map(|labels| labels.words().to_vec()),
        };
        fields.map(output).collect()
    }

    /// Computes samples, given as a column per input; the outputs are in the order of `outputs`.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<Bound<'py, PyTuple>>,
        batch_size: usize,
        threads: usize,
    ) -> PyResult<Vec<GivenOutput<'py>>> {
        let columns: Vec<InputColumn> = columns
            .iter()
            .map(InputColumn::of)
            .collect::<PyResult<_>>()?;
        let counts: Vec<usize> = columns.iter().map(InputColumn::samples).collect();
        if columns.len() != self.model.inputs.len() || counts.windows(2).any(|two| two[0] != two[1])
        {
            return Err(PyValueError::new_err(format!(
                "inputs have different numbers of samples: {counts:?}"
            )));
        }
        let samples = counts.first().copied().unwrap_or(0);
        let arrays =
            py.detach(|| self.compute(&columns, samples, batch_size.max(1), threads.max(1)))?;
        Ok(arrays.iter().map(|array| array.give(py)).collect())
    }

    /// The parameters of the whole network, in its order.
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<PythonParameter>> {
        py.detach(|| {
            self.listed(|_, listed| {
                let each = listed.iter();
                let each = each.map(|p| PythonParameter {
                    name: p.name.clone(),
                    shape: p.shape.clone(),
                    readable: p.readable.clone(),
                });
                Ok(each.collect())
            })
        })
    }

    /// The values of a parameter, as bytes of f32.
    fn parameter<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let size = py.detach(|| {
            self.listed(|_, listed| Ok(part(listed, at)?.shape.iter().product::<usize>()))
        })?;
        let array = PyByteArray::new_with(py, 4 * size, |_| Ok(()))?;
        // SAFETY: nothing else knows the array yet, so nobody reads or resizes it while it is filled.
        let mut rest = unsafe { array.as_bytes_mut() };
        py.detach(|| {
            self.listed(|model, listed| {
                let at = part(listed, at)?.at;
                let copied = model.each_chunk(at, &mut |values| {
                    let bytes: &[u8] = bytemuck::cast_slice(values);
                    let (own, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
                    own.copy_from_slice(bytes);
                    rest = behind;
                    Ok(())
                });
                copied.map_err(|error| crate::raised(&error))
            })
        })?;
        Ok(array)
    }

    /// The words of a parameter's rows.
    fn rows(&self, py: Python<'_>, at: usize) -> PyResult<Option<Vec<String>>> {
        py.detach(|| {
            self.listed(|_, listed| {
                Ok(part(listed, at)?
                    .rows
                    .as_ref()
                    .map(|words| words.words().to_vec()))
            })
        })
    }
}

fn part(listed: &[ListedParameter], at: usize) -> PyResult<&ListedParameter> {
    listed
        .get(at)
        .ok_or_else(|| PyIndexError::new_err("there is no such parameter"))
}

impl PythonModel {
    fn listed<T>(
        &self,
        act: impl FnOnce(&predict::Model, &[ListedParameter]) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut whole = self.whole.lock();
        if whole.is_none() {
            let options = OpenOptions {
                whole: true,
                outputs: Vec::new(),
                ..self.options.clone()
            };
            let opened = predict::Model::open(&self.path, &options)
                .map_err(|error| crate::raised(&error))?;
            let listed = export::list(&opened);
            *whole = Some((opened, listed));
        }
        match &*whole {
            Some((model, listed)) => act(model, listed),
            None => Err(PyIndexError::new_err("the model has no parameters")),
        }
    }

    fn worker(&self) -> Result<Worker, Failed> {
        let idle = self.idle.lock().pop();
        if let Some(worker) = idle {
            return Ok(worker);
        }
        Ok(Worker {
            runner: self.model.runner().map_err(Failed::Model)?,
            pool: rayon::ThreadPoolBuilder::new()
                .num_threads(1)
                .build()
                .map_err(Failed::Pool)?,
        })
    }

    /// The outputs of all samples. Of several errors, that of the first sample is returned.
    fn compute(
        &self,
        columns: &[InputColumn],
        samples: usize,
        batch: usize,
        threads: usize,
    ) -> Result<Vec<OutputArray>, Failed> {
        let batches = samples.div_ceil(batch);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            let mut worker = match self.worker() {
                Ok(worker) => worker,
                Err(failed) => {
                    return done.lock().push((0, Err(failed)));
                }
            };
            let Worker { runner, pool } = &mut worker;
            pool.install(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= batches {
                        break;
                    }
                    let range = number * batch..samples.min((number + 1) * batch);
                    let result = self.one(runner, columns, range);
                    if result.is_err() {
                        next.store(batches, Ordering::Relaxed);
                    }
                    done.lock().push((number, result));
                }
            });
            self.idle.lock().push(worker);
        };
        if batches <= 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads.min(batches) {
                    scope.spawn(work);
                }
            });
        }
        let mut parts = done.into_inner();
        parts.sort_by_key(|(number, _)| *number);
        let mut arrays: Vec<OutputArray> = self
            .model
            .outputs
            .iter()
            .map(|_| OutputArray::default())
            .collect();
        for (_, part) in parts {
            arrays
                .iter_mut()
                .zip(part?)
                .for_each(|(array, more)| array.join(more));
        }
        Ok(arrays)
    }

    fn one(
        &self,
        runner: &mut Runner,
        columns: &[InputColumn],
        range: std::ops::Range<usize>,
    ) -> Result<Vec<OutputArray>, Failed> {
        let first = range.start;
        let batch =
            samples::batch(&self.model.inputs, columns, range.clone()).map_err(Failed::Sample)?;
        let place = || format!("samples {first} to {}", range.end - 1);
        runner.run(&batch, place).map_err(Failed::Model)?;
        let outputs = Outputs::of(runner, &self.model.outputs, |sample| {
            format!("sample {}", first + sample)
        });
        Ok(outputs
            .map_err(Failed::Model)?
            .views()
            .iter()
            .map(OutputArray::of)
            .collect())
    }
}
