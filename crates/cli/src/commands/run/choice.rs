//! Chooses what `canoe run` runs: the configuration, which is always printed, and its data.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Context;
use config::{EvaluateOptions, Prints};
use dataset::split::sources::Sources;
use dataset::split::{By, SplitError};
use run::local::capacity::{self, Machine};
use run::local::layout::{self, FirstLine, JobData};
use run::local::listed::{DataList, Lists};
use run::local::{FolderLayout, FolderOptions, LayoutError};
use trainer::best::Measure;
use trainer::pass_directory;

use crate::commands::data::check_unused;

/// Reads a job folder. If there are several configurations, asks the user on a terminal. If the data are not where a job
/// folder has them, searches the paths that the configuration names.
pub(super) fn layout(
    job: &Path,
    nodes: u32,
    mut options: FolderOptions,
) -> anyhow::Result<FolderLayout> {
    if options.config.is_none() && options.config_dir.is_none() && job.is_dir() {
        let found = layout::configurations(job)?;
        if found.len() > 1 && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            let mut answers = std::io::stdin().lock();
            options.config = Some(ask(&found, &mut answers)?);
        }
    }
    let read = FolderLayout::read(job, nodes, &options);
    let needs_lists = match &read {
        Err(LayoutError::NoData { .. }) => true,
        Ok(layout) => !has_list(layout) || names_others(layout),
        Err(_) => false,
    };
    let is_cut = matches!(&read, Ok(layout) if matches!(layout.data, JobData::Flat(_)));
    if needs_lists || is_cut {
        let lists = lists(job, &options)?;
        if options.header == FirstLine::Unknown && lists.as_ref().is_some_and(|lists| lists.header)
        {
            options.header = FirstLine::Header;
        }
        options.lists = lists.filter(|_| needs_lists);
    }
    let mut layout = if needs_lists || is_cut {
        match (FolderLayout::read(job, nodes, &options), read) {
            (Ok(layout), _) | (Err(_), Ok(layout)) => layout,
            (Err(error), Err(_)) => return Err(error.into()),
        }
    } else {
        read?
    };
    if let JobData::Listed(listed) = &mut layout.data
        && !listed.lists.header
        && layout.header == FirstLine::Unknown
    {
        let files = listed.training_files()?;
        let header = dataset::split::all_have_header(files.iter().map(PathBuf::as_path));
        // Files that cannot be read are reported by the trainers.
        listed.lists.header = header.unwrap_or(false);
        if listed.lists.header && nodes > 1 {
            eprintln!(
                "the first line of the data names the columns, so every node gets it; with --no-header it is a sample like the others"
            );
        }
    }
    split_as_before(&mut layout);
    refresh(&layout, nodes)?;
    name(job, &layout, options.config.is_some())?;
    Ok(layout)
}

/// Divides flat data as they were divided for another number of nodes.
fn split_as_before(layout: &mut FolderLayout) {
    let JobData::Flat(flat) = &layout.data else {
        return;
    };
    let Some(before) = dataset::split::earlier(flat) else {
        return;
    };
    let mut flags = Vec::new();
    if before.by == By::Bytes {
        flags.push("--by=bytes".to_owned());
    }
    if let Some(seed) = before.shuffle {
        flags.extend(["--shuffle".to_owned(), format!("--seed={seed}")]);
    }
    if !flags.is_empty() {
        eprintln!(
            "the data are split with {}, as they were for {} shards",
            flags.join(" "),
            before.shards
        );
    }
    if layout.header == FirstLine::Unknown && before.header {
        layout.header = FirstLine::Header;
    }
    layout.split_flags = flags;
}

/// Splits the data again if they are not what the shards were made from.
fn refresh(layout: &FolderLayout, nodes: u32) -> anyhow::Result<()> {
    if !matches!(layout.data, JobData::Shards(_)) {
        return Ok(());
    }
    // Another run of this folder may be reading the shards.
    check_unused(&layout.job)?;
    let report = dataset::split::refresh(&layout.job, nodes).context("split the data again")?;
    if let Some(report) = report {
        eprintln!(
            "the data have changed since they were split: split again into {nodes} shards, {} lines",
            report.manifest.lines()
        );
    }
    Ok(())
}

/// Whether the data folder has the list that `canoe data split` and configurations look for first.
fn has_list(layout: &FolderLayout) -> bool {
    let folder = match &layout.data {
        JobData::Shards(shards) => shards.first(),
        JobData::Flat(flat) => Some(flat),
        JobData::Listed(_) => None,
    };
    folder.is_none_or(|folder| folder.join("train.list").is_file())
}

/// Whether the list of the data folder names files outside of it, which a split of the folder does not reach.
fn names_others(layout: &FolderLayout) -> bool {
    let folder = match &layout.data {
        JobData::Shards(shards) => match shards.as_slice() {
            [only] => only,
            _ => return false,
        },
        JobData::Flat(flat) => flat,
        JobData::Listed(_) => return false,
    };
    let sources = Sources::job(folder, None);
    matches!(sources, Err(SplitError::ListedFileOutside { .. }))
}

/// The lists that the configuration names. A configuration that fails is reported by the trainers, with their log.
fn lists(job: &Path, options: &FolderOptions) -> anyhow::Result<Option<Lists>> {
    let job = std::fs::canonicalize(job).context("find the job folder")?;
    let config = layout::find_config(&job, options)?;
    let evaluated = config::evaluate(&EvaluateOptions {
        directory: Some(job),
        prints: Prints::Nowhere,
        ..EvaluateOptions::new(config.path())
    });
    let Ok(evaluated) = evaluated else {
        return Ok(None);
    };
    let files = |data: &config::DataConfig| match data.own_files() {
        Some(files) => DataList::Names(files),
        None => DataList::File(data.files().into()),
    };
    Ok(evaluated.data_config.as_ref().map(|data| Lists {
        train: files(data),
        test: evaluated.test_data_config.as_ref().map(files),
        header: trainer::data::has_header(data),
    }))
}

/// Refuses a measure that the tests of the configuration do not have, before a run moves or starts anything. A
/// configuration that cannot be evaluated here is reported by the trainers.
pub(super) fn check_measure(
    layout: &FolderLayout,
    flags: &[String],
    wanted: &str,
) -> anyhow::Result<()> {
    let args = flags
        .iter()
        .find_map(|flag| flag.strip_prefix("--config_args="));
    let evaluated = config::evaluate(&EvaluateOptions {
        directory: Some(layout.job.clone()),
        args: args.unwrap_or_default().to_owned(),
        prints: Prints::Nowhere,
        ..EvaluateOptions::new(layout.config_dir.join(&layout.config))
    });
    match evaluated.map(|config| config.model_config) {
        Ok(Some(model)) => Ok(Measure::check(wanted, &model)?),
        _ => Ok(()),
    }
}

/// Refuses to start after a pass whose model is missing or would be moved aside, before a run moves or starts anything.
pub(super) fn check_start(
    output: &Path,
    start: u64,
    fresh: bool,
    flags: &[String],
) -> anyhow::Result<()> {
    if fresh && start > 0 {
        anyhow::bail!(
            "--fresh moves the results aside that --start-pass {start} continues after; leave one of them out, or give --fresh with --init-model-path {} to start a new run from that model",
            output
                .join(pass_directory::name((start - 1) as u32, None))
                .display()
        );
    }
    let elsewhere = |flag: &String| flag.starts_with("--init_model_path=");
    let Some(before) = start
        .checked_sub(1)
        .filter(|_| !flags.iter().any(elsewhere))
    else {
        return Ok(());
    };
    let before = before as u32;
    if pass_directory::complete_now(output, before).is_some() {
        return Ok(());
    }
    let missing = output.join(pass_directory::name(before, None));
    let missing = missing.display();
    match pass_directory::newest(output) {
        Some(newest) => anyhow::bail!(
            "--start-pass {start} continues from {missing}, which does not exist; the newest model is {}, so --start-pass {} would continue from it",
            pass_directory::name(newest, None),
            newest + 1
        ),
        None => anyhow::bail!(
            "--start-pass {start} continues from {missing}, which does not exist, and there is no other model; leave the flag out"
        ),
    }
}

/// Prints which configuration runs, and which others there are.
fn name(job: &Path, layout: &FolderLayout, named: bool) -> anyhow::Result<()> {
    let chosen = layout.config_dir.join(&layout.config);
    let root = std::fs::canonicalize(job).context("find the job folder")?;
    let shown = chosen.strip_prefix(&root).unwrap_or(&chosen);
    let mut text = format!("configuration: {}", shown.display());
    if !named {
        let others: Vec<String> = layout::configurations(&root)?
            .into_iter()
            .filter(|other| other != shown)
            .map(|other| other.display().to_string())
            .collect();
        if !others.is_empty() {
            text += &format!(" (--config chooses another: {})", others.join(", "));
        }
    }
    eprintln!("{text}");
    Ok(())
}

/// Asks which of several configurations to run.
fn ask(found: &[PathBuf], answers: &mut dyn BufRead) -> anyhow::Result<PathBuf> {
    eprintln!("this job has {} configurations:", found.len());
    for (number, path) in (1..).zip(found) {
        eprintln!("  {number}  {}", path.display());
    }
    loop {
        eprint!("which one? (1 to {}) ", found.len());
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            anyhow::bail!("no configuration was chosen; name one with --config");
        }
        let typed = line.trim();
        let by_number = typed
            .parse::<usize>()
            .ok()
            .and_then(|n| found.get(n.checked_sub(1)?));
        let by_name = || {
            found
                .iter()
                .find(|path| !typed.is_empty() && path.ends_with(typed))
        };
        if let Some(path) = by_number.or_else(by_name) {
            return Ok(path.clone());
        }
        eprintln!("'{typed}' is neither a number of the list nor the name of a file in it");
    }
}

/// Refuses more nodes than this machine can carry.
pub(super) fn check_capacity(nodes: u32, servers: u32) -> anyhow::Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = Machine {
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        free_memory: crate::commands::doctor::meminfo(&text, "MemAvailable"),
    };
    Ok(capacity::check(nodes, servers, machine)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_does_not_start_after_a_pass_that_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |start, flags: &[String]| check_start(dir.path(), start, false, flags);
        let text = refused(40, &[]).unwrap_err().to_string();
        assert!(text.contains("pass-00039") && text.contains("leave the flag out"));
        std::fs::create_dir(dir.path().join("pass-00006")).unwrap();
        std::fs::write(dir.path().join("pass-00006/done"), "").unwrap();
        let text = refused(40, &[]).unwrap_err().to_string();
        assert!(text.contains("--start-pass 7 would continue"), "{text}");
        refused(7, &[]).unwrap();
        refused(0, &[]).unwrap();
        refused(40, &["--init_model_path=/m".to_owned()]).unwrap();
        let fresh = check_start(dir.path(), 7, true, &[])
            .unwrap_err()
            .to_string();
        assert!(fresh.contains("--init-model-path"), "{fresh}");
    }

    #[test]
    fn a_configuration_is_chosen_by_number_or_name() {
        let found = ["q/trainer_config.a.py", "q/trainer_config.b.py"].map(Into::into);
        let choose =
            |typed: &str| ask(&found, &mut typed.as_bytes()).map(|path| path.display().to_string());
        assert_eq!(choose("2\n").unwrap(), "q/trainer_config.b.py");
        assert_eq!(
            choose("7\n\nx\ntrainer_config.a.py\n").unwrap(),
            "q/trainer_config.a.py"
        );
        assert!(choose("0\n").unwrap_err().to_string().contains("--config"));
    }
}
