//! A model that is ready to be applied: the cut network's description, its inputs and outputs, and its parameters.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{DataConfig, ModelConfig, TrainerConfig};
use nn::{Batch, BatchUse, LayerView, Network, ParameterSpec, Parameters};
use trainer::data::{self, DataError, Description, ElementKind, SlotType};
use trainer::merged::Merged;
use trainer::pass_directory::CONFIG_ARGS;

use crate::cut;
use crate::dictionary::{Dictionary, Unknown};
use crate::error::PredictError;
use crate::locate::{self, Hints, Located, ModelIdentity};
use crate::sample::InputField;
use crate::values::{ParameterOrigin, ParameterStore};

/// How to open a model.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Job folder and configuration, if they are not to be searched.
    pub hints: Hints,
    /// Values for `get_config_arg`, as in `canoe train --config_args`.
    pub config_args: String,
    /// The output layers; by default those of the configuration.
    pub outputs: Vec<String>,
    /// Types of data layers, for models without a data source: name and v1's type, such as `integer_value_sequence`.
    pub types: Vec<(String, String)>,
    /// Dictionaries of data layers: name and file.
    pub dictionaries: Vec<(String, PathBuf)>,
    /// How unknown words are treated, instead of what the data source says.
    pub unknown: Option<Unknown>,
    /// The names of an output's classes: output layer (empty for all) and file.
    pub labels: Vec<(String, PathBuf)>,
    /// The Python interpreter; by default the first of `python3` and `python`.
    pub python: Option<PathBuf>,
    /// The `PYTHONPATH` of configurations and providers.
    pub python_path: Option<OsString>,
    /// Read all parameters into memory as far as it allows, also those that would be mapped, so that later changes of
    /// their files have no effect.
    pub in_memory: bool,
    /// Keep the whole network, for its parameters; inputs whose types are not known are left out.
    pub whole: bool,
    /// The job's seed, from which rows are drawn that no batch has touched, in tables that servers saved.
    pub seed: u64,
}

/// An output of a model.
#[derive(Debug, Clone)]
pub struct OutputField {
    /// Name of the layer.
    pub name: String,
    /// Width of a row.
    pub width: usize,
    /// Whether a row is a distribution over classes, whose largest entry is the prediction.
    pub classes: bool,
    /// Names of the classes.
    pub labels: Option<Arc<Dictionary>>,
}

impl OutputField {
    /// Whether CSV with this output has a column of this name.
    pub fn has_column(&self, column: &str) -> bool {
        let Some(rest) = column.strip_prefix(self.name.as_str()) else {
            return false;
        };
        let is_class = |rest: &str| match (&self.labels, self.classes) {
            (Some(labels), true) => labels.words().iter().any(|word| word == rest),
            _ => rest.parse().is_ok_and(|number: usize| number < self.width),
        };
        let inner = rest.strip_prefix('.');
        rest.is_empty() || inner.is_some_and(|rest| rest == "values" || is_class(rest))
    }

    /// The name of a class; its number if it has no name.
    pub fn label(&self, id: u32) -> Label<'_> {
        match self.labels.as_ref().and_then(|labels| labels.word(id)) {
            Some(word) => Label::Word(word),
            None => Label::Id(id),
        }
    }
}

/// A class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// It has a name.
    Word(&'a str),
    /// It has none.
    Id(u32),
}

impl std::fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Word(word) => f.write_str(word),
            Label::Id(id) => write!(f, "{id}"),
        }
    }
}

/// A model.
#[derive(Debug)]
pub struct Model {
    /// The files that it was read from.
    pub located: Located,
    /// Distinguishes it from models that are saved later under the same path.
    pub identity: ModelIdentity,
    /// The network, cut to what the outputs need.
    pub network: ModelConfig,
    /// Its inputs, in the order of a batch's slots.
    pub inputs: Vec<InputField>,
    /// Its outputs.
    pub outputs: Vec<OutputField>,
    /// The configuration's batch size.
    pub batch_size: usize,
    config: TrainerConfig,
    python: PathBuf,
    python_path: Option<OsString>,
    store: Arc<ParameterStore>,
    seed: u64,
}

impl Model {
    /// Opens the model that a path means.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, PredictError> {
        // Taken before anything is read, so that a model that is replaced meanwhile is detected.
        let identity = locate::identity(path)?;
        if path.is_file() {
            let merged = Merged::open(path)?;
            let source = source(merged.config()).map(DataConfig::load_data_module);
            let located = locate::beside(path, &options.hints, source.unwrap_or_default());
            let python = options.python.clone().unwrap_or_else(|| "python3".into());
            let config = merged.config().clone();
            let origin = (located, identity);
            return Self::build(origin, config, python, options, Some(&merged));
        }
        let located = locate::locate(path, &options.hints)?;
        let evaluated = evaluate(&located, options)?;
        let origin = (located, identity);
        Self::build(origin, evaluated.config, evaluated.python, options, None)
    }

    /// Builds a model; the parameters are those of the merged model, or of the pass directory.
    fn build(
        (located, identity): (Located, ModelIdentity),
        config: TrainerConfig,
        python: PathBuf,
        options: &OpenOptions,
        merged: Option<&Merged>,
    ) -> Result<Self, PredictError> {
        let Some(whole) = &config.model_config else {
            return Err(PredictError::NoNetwork {
                file: located.config.clone(),
            });
        };
        let (names, network) = if options.whole {
            (Vec::new(), whole.clone())
        } else {
            let names = cut::outputs(whole, &options.outputs)?;
            check_once(&options.outputs)?;
            let network = cut::cut(whole, &names);
            (names, network)
        };
        let specs = specs(&network, options.whole)?;
        let cut_config = TrainerConfig {
            model_config: Some(network.clone()),
            ..config.clone()
        };
        let store = match merged {
            Some(merged) => ParameterStore::of_merged(merged, &specs)?,
            None => {
                let origin = ParameterOrigin {
                    directory: &located.directory,
                    config_file: &located.config,
                    in_memory: options.in_memory,
                    seed: options.seed,
                };
                ParameterStore::load(&origin, &cut_config, &specs)?
            }
        };
        let mut model = Self {
            batch_size: usize::try_from(config.opt_config.batch_size)
                .unwrap_or(1)
                .max(1),
            located,
            identity,
            network,
            inputs: Vec::new(),
            outputs: Vec::new(),
            python,
            python_path: options.python_path.clone(),
            store: Arc::new(store),
            seed: options.seed,
            config,
        };
        let description = match model.describe(options) {
            Err(_) if options.whole => None,
            other => other?,
        };
        model.inputs = model.input_fields(description.as_ref(), options)?;
        model.outputs = model.output_fields(&names, description.as_ref(), options)?;
        Ok(model)
    }

    /// Whether both have the same inputs and outputs, so that one can replace the other.
    pub fn same_interface(&self, other: &Self) -> bool {
        let inputs = |model: &Self| -> Vec<SlotType> {
            model
                .inputs
                .iter()
                .map(|input| input.slot.clone())
                .collect()
        };
        let outputs = |model: &Self| -> Vec<(String, usize, bool)> {
            let outputs = model.outputs.iter();
            outputs
                .map(|output| (output.name.clone(), output.width, output.classes))
                .collect()
        };
        inputs(self) == inputs(other) && outputs(self) == outputs(other)
    }

    /// Calls `each` with the values of a parameter, a part after another.
    pub fn each_chunk(
        &self,
        parameter: usize,
        each: &mut dyn FnMut(&[f32]) -> Result<(), PredictError>,
    ) -> Result<(), PredictError> {
        self.store.each_chunk(parameter, each)
    }

    /// Something that computes batches; one per thread.
    pub fn runner(&self) -> Result<Runner, PredictError> {
        Ok(Runner {
            network: Network::new(&self.network)?,
            parameters: self.store.parameters(),
            store: self.store.clone(),
        })
    }

    fn source(&self) -> Option<&DataConfig> {
        source(&self.config)
    }

    fn whole_inputs(&self) -> Vec<data::DataInput> {
        let whole = self.config.model_config.as_ref();
        let layers = whole.map_or(&[][..], |model| &model.layers);
        let names = whole.map_or(&[][..], |model| &model.input_layer_names);
        names
            .iter()
            .map(|name| data::DataInput {
                name: name.clone(),
                size: layers
                    .iter()
                    .find(|layer| layer.name == *name)
                    .map_or(0, |layer| layer.size() as usize),
            })
            .collect()
    }

    fn data_options(&self) -> Result<data::DataOptions, PredictError> {
        Ok(data::DataOptions {
            seed: self.seed,
            trainer: 0,
            training: false,
            batch_size: self.batch_size as u64,
            directory: self.located.job.clone(),
            config_directory: Some(self.located.modules.clone()),
            python: self.python.clone(),
            package: config::python::package_dir()?.to_owned(),
            python_path: self.python_path.clone(),
            workers: None,
            needed: Some(self.network.input_layer_names.clone()),
        })
    }

    /// The data source's description of its slots; `None` if all types are given or there is no source.
    fn describe(&self, options: &OpenOptions) -> Result<Option<Description>, PredictError> {
        let given = |name: &String| options.types.iter().any(|(layer, _)| layer == name);
        let names = &self.network.input_layer_names;
        let Some(source) = self.source().filter(|_| !names.iter().all(given)) else {
            return Ok(None);
        };
        let described = data::describe(source, &self.whole_inputs(), &self.data_options()?);
        described.map(Some).map_err(|error| match error {
            DataError::Module { .. } => PredictError::NoProvider {
                layers: names.join(", "),
                searched: self
                    .located
                    .provider
                    .as_ref()
                    .map_or_else(String::new, |search| {
                        let folders = search
                            .searched
                            .iter()
                            .map(|folder| folder.display().to_string());
                        let folders: Vec<String> = folders.collect();
                        format!("; its module was looked for in {}", folders.join(", "))
                    }),
                source: Box::new(error),
            },
            other => other.into(),
        })
    }

    fn input_fields(
        &self,
        description: Option<&Description>,
        options: &OpenOptions,
    ) -> Result<Vec<InputField>, PredictError> {
        let names = &self.network.input_layer_names;
        for (option, layer) in options
            .types
            .iter()
            .map(|(layer, _)| ("--type", layer))
            .chain(
                options
                    .dictionaries
                    .iter()
                    .map(|(layer, _)| ("--dictionary", layer)),
            )
        {
            if !names.contains(layer) {
                return Err(PredictError::Option {
                    option: format!("{option} {layer}"),
                    reason: format!(
                        "the outputs need no such data layer; they need {}",
                        names.join(", ")
                    ),
                });
            }
        }
        let sizes = self.whole_inputs();
        let size = |name: &str| sizes.iter().find(|i| i.name == name).map_or(0, |i| i.size);
        let known = |name: &&String| {
            let described = description
                .iter()
                .flat_map(|d| &d.slots)
                .any(|s| s.name == **name);
            !options.whole || described || options.types.iter().any(|(layer, _)| layer == *name)
        };
        names
            .iter()
            .filter(known)
            .map(|name| {
                let described = description.and_then(|d| d.slots.iter().find(|s| s.name == *name));
                let given = options.types.iter().find(|(layer, _)| layer == name);
                let slot = match (given, described) {
                    (Some((_, kind)), _) => slot_type(name, kind, size(name))?,
                    (None, Some(slot)) => slot.clone(),
                    (None, None) => {
                        return Err(PredictError::NoTypes {
                            layers: name.clone(),
                        });
                    }
                };
                let dictionary = dictionary(name, description, options)?;
                let given = options.dictionaries.iter().find(|(layer, _)| layer == name);
                if let (Some(dictionary), Some((_, file))) = (&dictionary, given) {
                    check_words(file, dictionary, &slot)?;
                }
                if let (Some(Unknown::Id(id)), Some(_)) = (options.unknown, &dictionary)
                    && id as usize >= slot.dim
                {
                    return Err(PredictError::Option {
                        option: format!("--unknown {id}"),
                        reason: format!("the ids of data layer '{name}' are below {}", slot.dim),
                    });
                }
                Ok(InputField { slot, dictionary })
            })
            .collect()
    }

    fn output_fields(
        &self,
        names: &[String],
        description: Option<&Description>,
        options: &OpenOptions,
    ) -> Result<Vec<OutputField>, PredictError> {
        let whole = self.config.model_config.as_ref();
        let stray = |layer: &String| !layer.is_empty() && !names.contains(layer);
        if let Some((layer, file)) = options.labels.iter().find(|(layer, _)| stray(layer))
            && !options.whole
        {
            return Err(PredictError::Option {
                option: format!("--labels {layer}={}", file.display()),
                reason: format!("there is no such output; there are {}", names.join(", ")),
            });
        }
        names
            .iter()
            .map(|name| {
                let layer = self.network.layers.iter().find(|layer| layer.name == *name);
                let given = options
                    .labels
                    .iter()
                    .find(|(layer, _)| layer == name || layer.is_empty());
                let width = layer.map_or(1, |layer| layer.size().max(1) as usize);
                let classes =
                    layer.is_some_and(|layer| layer.active_type() == "softmax" && layer.size() > 1);
                let labels = match given {
                    Some((_, file)) => {
                        let labels = Dictionary::read_labels(file).map_err(|reason| {
                            let option = format!("--labels {}", file.display());
                            PredictError::Option { option, reason }
                        })?;
                        if classes {
                            check_labels(file, &labels, name, width)?;
                        }
                        Some(Arc::new(labels))
                    }
                    None => match whole.and_then(|model| cut::label_of(model, name)) {
                        Some(label) => dictionary(&label, description, options)?,
                        None => None,
                    },
                };
                Ok(OutputField {
                    name: name.clone(),
                    width,
                    classes,
                    labels,
                })
            })
            .collect()
    }

    /// Opens the configuration's own data source with these files, or with those of its list for testing.
    pub fn provider(&self, files: Vec<String>) -> Result<OpenedProvider, PredictError> {
        let source = self.source().ok_or_else(|| PredictError::NoTypes {
            layers: self.network.input_layer_names.join(", "),
        })?;
        let inputs = self.whole_inputs();
        let options = self.data_options()?;
        let source = if files.is_empty() {
            // The training files are not a default: predictions for them would not be a test.
            let test = self.config.test_data_config.as_ref();
            let test = test.ok_or(PredictError::NoTestList)?;
            data::open(test, &inputs, &options)?
        } else {
            data::open_files(source, files, &inputs, &options)?
        };
        let wanted = self.network.input_layer_names.iter();
        let slots = wanted
            .filter_map(|name| inputs.iter().position(|input| input.name == *name))
            .collect();
        Ok(OpenedProvider { source, slots })
    }
}

/// The data source of a model's own configuration.
pub struct OpenedProvider {
    /// Its batches have the slots of the whole configuration.
    pub source: data::DataSource,
    /// For each input of the model, its slot in a batch.
    pub slots: Vec<usize>,
}

/// The data source of a configuration: the one for testing, else the one for training.
fn source(config: &TrainerConfig) -> Option<&DataConfig> {
    let test = config.test_data_config.as_ref();
    test.or(config.data_config.as_ref())
}

/// The parameters of a network. One whose layers cannot be computed has parameters nevertheless.
fn specs(network: &ModelConfig, whole: bool) -> Result<Vec<ParameterSpec>, PredictError> {
    match Network::new(network) {
        Ok(built) => Ok(built.parameters().to_vec()),
        Err(_) if whole => Ok(network
            .parameters
            .iter()
            .map(|parameter| {
                let rows = parameter.dims.first().copied().unwrap_or(1).max(1);
                ParameterSpec {
                    name: parameter.name.clone(),
                    rows: rows as usize,
                    cols: (parameter.size / rows) as usize,
                    by_row: parameter.sparse_update() || parameter.sparse_remote_update(),
                    looked_up: false,
                    is_static: parameter.is_static(),
                    maintained: false,
                }
            })
            .collect()),
        Err(error) => Err(error.into()),
    }
}

/// Evaluates the configuration of a pass directory in its job folder.
pub(crate) fn evaluate(
    located: &Located,
    options: &OpenOptions,
) -> Result<config::Evaluated, PredictError> {
    let mut args =
        "trainer_id=0,local=1,with_cost=1,use_gpu=0,parallel_nn=0,cudnn_version=0".to_owned();
    // The arguments of the training come first; those that are given now replace them one by one.
    let trained = fs::read_to_string(located.directory.join(CONFIG_ARGS)).unwrap_or_default();
    for more in [trained.trim(), options.config_args.as_str()] {
        if !more.is_empty() {
            args = format!("{args},{more}");
        }
    }
    let mut search = vec![located.modules.clone().into_os_string()];
    search.extend(options.python_path.clone());
    Ok(config::evaluate_with_python(&config::EvaluateOptions {
        args,
        python: options.python.clone(),
        python_path: Some(search.join(std::ffi::OsStr::new(":"))),
        directory: Some(located.job.clone()),
        ..config::EvaluateOptions::new(&located.config)
    })?)
}

/// The dictionary of a data layer: the file that was given, else that of the data source.
fn dictionary(
    layer: &str,
    description: Option<&Description>,
    options: &OpenOptions,
) -> Result<Option<Arc<Dictionary>>, PredictError> {
    if let Some((_, file)) = options.dictionaries.iter().find(|(name, _)| name == layer) {
        let unknown = options.unknown.unwrap_or(Unknown::Refuse);
        let read = Dictionary::read(file, unknown).map_err(|reason| PredictError::Option {
            option: format!("--dictionary {layer}={}", file.display()),
            reason,
        })?;
        return Ok(Some(Arc::new(read)));
    }
    let lists = description.iter().flat_map(|d| &d.dictionaries);
    let list = lists
        .into_iter()
        .find(|list| list.slots.iter().any(|s| s == layer));
    Ok(list.map(|list| {
        let mut dictionary = Dictionary::of(list);
        dictionary.unknown = options.unknown.unwrap_or(dictionary.unknown);
        Arc::new(dictionary)
    }))
}

/// A type by v1's name.
fn slot_type(name: &str, kind: &str, dim: usize) -> Result<SlotType, PredictError> {
    let (base, level) = match kind {
        kind if kind.ends_with("_sub_sequence") => (kind.trim_end_matches("_sub_sequence"), 2),
        kind if kind.ends_with("_sequence") => (kind.trim_end_matches("_sequence"), 1),
        kind => (kind, 0),
    };
    let kind = match base {
        "integer_value" | "index_slot" => ElementKind::Ids,
        "dense_vector" | "dense_slot" => ElementKind::Dense,
        "sparse_binary_vector" | "sparse_non_value_slot" => ElementKind::Binary,
        "sparse_vector" | "sparse_float_vector" | "sparse_value_slot" => ElementKind::Sparse,
        _ => {
            return Err(PredictError::Option {
                option: format!("--type {name}={kind}"),
                reason: "types are integer_value, dense_vector, sparse_binary_vector and sparse_vector, also with _sequence or _sub_sequence".to_owned(),
            });
        }
    };
    Ok(SlotType {
        name: name.to_owned(),
        kind,
        level,
        dim,
        first: 0,
    })
}

/// A network with buffers that computes batches of a model.
pub struct Runner {
    network: Network,
    parameters: Parameters,
    store: Arc<ParameterStore>,
}

impl Runner {
    /// Computes a batch; its outputs can be read until the next one. `samples` names the batch in errors.
    pub fn run(
        &mut self,
        batch: &Batch,
        samples: impl FnOnce() -> String,
    ) -> Result<(), PredictError> {
        self.store
            .fetch(&self.network, batch, &mut self.parameters)?;
        self.network
            .forward(&self.parameters, batch, BatchUse::Test)
            .map(drop)
            .map_err(|source| PredictError::Compute {
                samples: samples(),
                source,
            })
    }

    /// The output of a layer for the last batch.
    pub fn output(&self, layer: &str) -> Result<LayerView<'_>, PredictError> {
        self.network
            .output(layer)
            .ok_or_else(|| PredictError::UnknownLayer {
                layer: layer.to_owned(),
                known: "those of the cut network".to_owned(),
            })
    }
}

/// Refuses an output that is named twice, because both would have the same column.
fn check_once(outputs: &[String]) -> Result<(), PredictError> {
    let mut seen = std::collections::BTreeSet::new();
    match outputs.iter().find(|output| !seen.insert(output.as_str())) {
        None => Ok(()),
        Some(output) => Err(PredictError::Option {
            option: format!("--output {output}"),
            reason: "this output is named twice".to_owned(),
        }),
    }
}

/// Refuses a dictionary unless it has a word, or an empty line, for each id of its data layer, and no word twice.
fn check_words(file: &Path, dictionary: &Dictionary, slot: &SlotType) -> Result<(), PredictError> {
    let refused = |reason: String| PredictError::Option {
        option: format!("--dictionary {}={}", slot.name, file.display()),
        reason,
    };
    if slot.kind == ElementKind::Dense {
        return Err(refused(
            "this data layer takes numbers, not words".to_owned(),
        ));
    }
    let words = dictionary.words();
    if words.len() != slot.dim {
        return Err(refused(format!(
            "the file has {} words, but the data layer has {} ids (a dictionary has no heading; an empty line stands for an id without a word)",
            words.len(),
            slot.dim
        )));
    }
    let mut first = std::collections::HashMap::new();
    for (id, word) in words
        .iter()
        .enumerate()
        .filter(|(_, word)| !word.is_empty())
    {
        if let Some(before) = first.insert(word, id) {
            return Err(refused(format!(
                "the word '{word}' has two ids, {before} and {id}"
            )));
        }
    }
    Ok(())
}

/// Refuses names of classes unless there is one per class and all are different.
fn check_labels(
    file: &Path,
    labels: &Dictionary,
    output: &str,
    classes: usize,
) -> Result<(), PredictError> {
    let refused = |reason: String| PredictError::Option {
        option: format!("--labels {}", file.display()),
        reason,
    };
    let names = labels.words();
    if names.len() != classes {
        let reason = format!(
            "the file has {} names, but output '{output}' has {classes} classes (a file of names has no header)",
            names.len()
        );
        return Err(refused(reason));
    }
    let mut seen = std::collections::BTreeSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(refused(format!("two classes are called '{name}'"))),
        None => Ok(()),
    }
}
