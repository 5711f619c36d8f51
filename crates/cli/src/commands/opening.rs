//! The arguments that say how a model is opened; `canoe predict`, `canoe serve` and `canoe model` share them.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use predict::dictionary::Unknown;
use predict::locate::Hints;
use predict::{Model, OpenOptions};

/// Arguments of commands that apply a model.
#[derive(Debug, Args)]
pub(super) struct OpenArgs {
    /// A pass directory; a folder that has some, such as a job folder or its output folder (the best pass if one is
    /// marked, else the last complete one); or a merged model.
    pub model: PathBuf,
    /// The configuration; by default the one that the pass directory names, in the job folder above it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder in which the configuration is evaluated and its data provider runs; by default the job folder above
    /// the pass directory.
    #[arg(long, value_name = "FOLDER")]
    pub job: Option<PathBuf>,
    /// Values for get_config_arg: name=value,name=value.
    #[arg(long, default_value = "", value_name = "ARGS")]
    pub config_args: String,
    /// An output layer; may be given several times. By default the outputs of the configuration, where the layer that a
    /// cost compares with the label stands for the cost.
    #[arg(long, value_name = "LAYER")]
    pub output: Vec<String>,
    /// The type of a data layer, if the configuration has no data source that says it, such as
    /// word=integer_value_sequence.
    #[arg(long = "type", value_name = "LAYER=TYPE")]
    pub types: Vec<String>,
    /// The words of a data layer: a file with a word per line, whose number from 0 is its id. By default the
    /// dictionary that the data provider has.
    #[arg(long = "dictionary", value_name = "LAYER=FILE")]
    pub dictionaries: Vec<String>,
    /// What becomes of words that are not in the dictionary: an id, `drop`, or `refuse`. By default the id that the data
    /// provider or the dictionary names, else they are refused.
    #[arg(long, value_name = "ID|drop|refuse")]
    pub unknown: Option<String>,
    /// The names of classes: a file with a name per line, or name and id with a tab between them; for one output, or
    /// for all.
    #[arg(long = "labels", value_name = "[LAYER=]FILE")]
    pub labels: Vec<String>,
    /// The Python interpreter; by default the first of python3 and python.
    #[arg(long, value_name = "PROGRAM")]
    pub python: Option<PathBuf>,
    /// The job's seed, as in `canoe train`; it matters only for rows of sparse tables that no batch has touched.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl OpenArgs {
    /// The options of the library.
    pub(super) fn options(&self) -> anyhow::Result<OpenOptions> {
        let args = self.config_args.split(',');
        if let Some(wrong) = args
            .filter(|arg| !arg.is_empty())
            .find(|arg| !arg.contains('='))
        {
            anyhow::bail!("--config-args {wrong}: name=value,name=value is expected");
        }
        Ok(OpenOptions {
            hints: Hints {
                job: self.job.clone(),
                config: self.config.clone(),
            },
            config_args: self.config_args.clone(),
            outputs: self.output.clone(),
            types: pairs("--type", &self.types)?,
            dictionaries: pairs("--dictionary", &self.dictionaries)?
                .into_iter()
                .map(|(layer, file)| (layer, PathBuf::from(file)))
                .collect(),
            unknown: self.unknown.as_deref().map(unknown).transpose()?,
            labels: self
                .labels
                .iter()
                .map(|text| match text.split_once('=') {
                    Some((layer, file)) => (layer.to_owned(), PathBuf::from(file)),
                    None => (String::new(), PathBuf::from(text)),
                })
                .collect(),
            python: self.python.clone(),
            python_path: std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()),
            in_memory: false,
            whole: false,
            seed: self.seed,
        })
    }

    /// Opens the model.
    pub(super) fn open(&self) -> anyhow::Result<Model> {
        self.open_with(&self.options()?)
    }

    /// Opens the model with options that were made from these arguments.
    pub(super) fn open_with(&self, options: &OpenOptions) -> anyhow::Result<Model> {
        let model = Model::open(&self.model, options)
            .with_context(|| format!("open the model {}", self.model.display()))?;
        let search = model.located.provider.as_ref();
        if let Some(module) = search.and_then(|search| search.module.as_ref()) {
            eprintln!("data provider: {}", module.display());
        }
        Ok(model)
    }
}

fn pairs(option: &str, texts: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let pair = |text: &String| {
        let (layer, value) = text
            .split_once('=')
            .with_context(|| format!("{option} {text}: LAYER=… is expected"))?;
        Ok((layer.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

fn unknown(text: &str) -> anyhow::Result<Unknown> {
    Ok(match text {
        "drop" => Unknown::Drop,
        "refuse" => Unknown::Refuse,
        id => Unknown::Id(
            id.parse()
                .with_context(|| format!("--unknown {id}: an id, drop or refuse is expected"))?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_by_name() {
        assert_eq!(unknown("7").unwrap(), Unknown::Id(7));
        assert_eq!(unknown("drop").unwrap(), Unknown::Drop);
        assert!(
            unknown("x")
                .unwrap_err()
                .to_string()
                .contains("--unknown x")
        );
        let error = pairs("--type", &["word".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("--type word"), "{error}");
    }
}
