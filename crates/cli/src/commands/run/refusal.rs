//! Refuses, before a run moves earlier results or starts a process, what every trainer would refuse.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::{ConfigError, EvaluateOptions, Prints};
use run::local::layout::JobData;
use run::local::{FolderLayout, workdir};
use words::causes::chain;

use crate::commands::train::{config_args, python_path};
use crate::flags::Flags;
use crate::gflags::GFLAGS;
use crate::v1_flags::{COMMON, TRAIN};

/// Evaluates the configuration where the first node would, and applies the checks with which training begins. Returns what
/// is wrong with the configuration; what is wrong with the flags is an error.
pub(super) fn check(
    layout: &FolderLayout,
    trainer_flags: &[String],
) -> anyhow::Result<Option<String>> {
    let mut args = trainer_flags.to_vec();
    args.push("--local=0".to_owned());
    let flags = &Flags::parse(&[COMMON, TRAIN, GFLAGS], &args)?;
    check_model(flags)?;
    let work = tempfile::tempdir().context("create a working directory")?;
    let node = work.path().join("work");
    match &layout.data {
        JobData::Shards(shards) => {
            let first = shards.first().context("the job has no shard")?;
            workdir::prepare(&node, &layout.job, &layout.config_dir, first)?;
        }
        JobData::Flat(flat) => workdir::prepare(&node, &layout.job, &layout.config_dir, flat)?,
        JobData::Listed(listed) => {
            workdir::prepare_listed(&node, &layout.config_dir, &listed.base)?;
        }
    }
    let evaluated = config::evaluate_with_python(&EvaluateOptions {
        directory: Some(node),
        args: config_args(flags),
        python: Some(PathBuf::from(flags.text("python_bin"))),
        python_path: python_path(flags),
        prints: Prints::Nowhere,
        ..EvaluateOptions::new(&layout.config)
    });
    let evaluated = match evaluated {
        Ok(evaluated) => evaluated,
        // Whether the trainers can evaluate it is not known.
        Err(
            ConfigError::Died { .. } | ConfigError::Deadline { .. } | ConfigError::Exchange { .. },
        ) => {
            return Ok(None);
        }
        Err(error) => return Ok(Some(chain(&error))),
    };
    let problems = trainer::check::refused(&evaluated.config);
    let told = problems.iter().map(|problem| {
        let place = problem.subject.as_ref();
        match place.and_then(|subject| evaluated.places.get(subject)) {
            Some((file, line)) => format!("{}:{line}: {}", file.display(), problem.text),
            None => problem.text.clone(),
        }
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        return Ok(Some(told.join("\n")));
    }
    let patience = flags.text("patience").parse().unwrap_or(0_u32);
    anyhow::ensure!(
        patience == 0 || evaluated.config.test_data_config.is_some(),
        "--patience {patience} needs test data to compare passes by, and the configuration names none"
    );
    Ok(None)
}

/// Checks that the model to start from exists.
fn check_model(flags: &Flags) -> anyhow::Result<()> {
    let model = flags.text("init_model_path");
    // Another path is relative to the folder of a node.
    let path = Path::new(model);
    anyhow::ensure!(
        !path.is_absolute() || path.exists(),
        "--init-model-path: {model} does not exist"
    );
    Ok(())
}
