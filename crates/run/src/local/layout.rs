//! Inspects a job folder: which configuration it has, and where each node's data are.
//!
//! Both of v1's layouts are accepted, `data/<id>/…` and `<id>/data/…`. A folder with only a flat
//! `data/` can be split. All reading of the folder happens here, so that the planner is pure.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::listed::{ListedData, Lists};

/// The parts of a job folder that a plan needs. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderLayout {
    /// The job folder.
    pub job: PathBuf,
    /// The folder whose content a node sees in its working directory; v1's `$TRAIN_CONFIG_DIR`.
    pub config_dir: PathBuf,
    /// The configuration file, relative to `config_dir`.
    pub config: PathBuf,
    /// The data of each node, or flat data to be split.
    pub data: JobData,
    /// What the first line of each training file is.
    pub header: FirstLine,
    /// Flags with which flat data are split, of an earlier split into another number of shards.
    pub split_flags: Vec<String>,
}

/// The data of a job folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobData {
    /// One folder per node, in the order of the ids.
    Shards(Vec<PathBuf>),
    /// One folder for all nodes; it is split into `data/<id>` before the start.
    Flat(PathBuf),
    /// Files that a list names; each node gets a part of them.
    Listed(ListedData),
}

/// Why a folder is not a job.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A read error in the folder or a part of it.
    #[error("read the job folder {path}")]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A folder or file that the user named does not exist.
    #[error("{path} does not exist; {found}")]
    Missing {
        /// The path that does not exist.
        path: PathBuf,
        /// What exists instead.
        found: String,
    },
    /// No file looks like a configuration.
    #[error("no trainer_config*.py in {job} or its subfolders; give the file with --config")]
    NoConfig {
        /// The job folder.
        job: PathBuf,
    },
    /// Several files look like a configuration.
    #[error("several configurations in {job}: {}; choose one with --config", list(.candidates))]
    ManyConfigs {
        /// The job folder.
        job: PathBuf,
        /// Relative to the job folder.
        candidates: Vec<PathBuf>,
    },
    /// There are neither shards nor a data folder.
    #[error(
        "no data for {nodes} nodes in {job}: expected data/<id>/, <id>/data/ or data/ (which is split); \
         or a configuration whose train_list exists there; `canoe new` writes a small job folder"
    )]
    NoData {
        /// The job folder.
        job: PathBuf,
        /// Nodes of the job.
        nodes: u32,
    },
    /// The number of shards is not the number of nodes.
    #[error(
        "{job} has data shards {found} but the job has {nodes} nodes; \
         pass --nodes {count} or split the data again with `canoe data split`"
    )]
    ShardCount {
        /// The job folder.
        job: PathBuf,
        /// Nodes of the job.
        nodes: u32,
        /// Ids of the shards that exist.
        found: String,
        /// Number of the shards that exist.
        count: usize,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// What the first line of each training file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FirstLine {
    /// Not known: it counts as a header if the file is a table that seems to have one.
    #[default]
    Unknown,
    /// The names of the columns; every part of a divided file needs it.
    Header,
    /// A sample, like all other lines.
    Sample,
}

/// The user's options about the folder; everything else is searched for.
#[derive(Debug, Clone, Default)]
pub struct FolderOptions {
    /// The configuration file: absolute, or relative to the job folder or the configuration folder.
    pub config: Option<PathBuf>,
    /// The configuration folder, relative to the job folder.
    pub config_dir: Option<PathBuf>,
    /// The lists that the configuration names, if it was evaluated.
    pub lists: Option<Lists>,
    /// What the first line of each training file is.
    pub header: FirstLine,
}

impl FolderLayout {
    /// Reads the folder for a run on `nodes` nodes.
    pub fn read(job: &Path, nodes: u32, options: &FolderOptions) -> Result<Self, LayoutError> {
        let job = fs::canonicalize(job).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LayoutError::Missing {
                path: job.to_owned(),
                found:
                    "`canoe new DIR` makes a job of your own, `canoe demo quick_start DIR` a demo"
                        .to_owned(),
            },
            _ => read_error(job, source),
        })?;
        let config = find_config(&job, options)?;
        let listed = options.lists.as_ref();
        let listed = listed.and_then(|lists| ListedData::find(lists, &[&config.folder, &job]));
        let data = match listed {
            Some(listed) => JobData::Listed(listed),
            None => find_data(&job, &config.folder, nodes)?,
        };
        Ok(Self {
            job,
            config_dir: config.folder,
            config: config.file,
            data,
            header: options.header,
            split_flags: Vec::new(),
        })
    }

    /// Where the model, the logs and the working directories go.
    pub fn output(&self) -> PathBuf {
        self.job.join("output")
    }
}

fn read_error(path: &Path, source: io::Error) -> LayoutError {
    LayoutError::Read {
        path: path.to_owned(),
        source,
    }
}

/// The configuration file of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// Its folder.
    pub folder: PathBuf,
    /// The file, in that folder.
    pub file: PathBuf,
}

impl JobConfig {
    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.file)
    }
}

/// Finds the configuration of a job: the one that the user named, or the only one.
pub fn find_config(job: &Path, options: &FolderOptions) -> Result<JobConfig, LayoutError> {
    let folders = match &options.config_dir {
        Some(folder) => {
            let path = job.join(folder);
            if !path.is_dir() {
                let found = format!(
                    "folders of the job: {}",
                    list(&relative(job, &config_folders(job)?))
                );
                return Err(LayoutError::Missing { path, found });
            }
            vec![path]
        }
        None => config_folders(job)?,
    };
    if let Some(config) = &options.config {
        return requested_config(job, &folders, options.config_dir.is_some(), config);
    }
    let mut candidates = Vec::new();
    for folder in &folders {
        for name in entries(folder)? {
            if is_config_name(&name) && folder.join(&name).is_file() {
                candidates.push(JobConfig {
                    folder: folder.clone(),
                    file: PathBuf::from(name),
                });
            }
        }
    }
    choose_config(job, candidates)
}

/// All configurations that a run could choose from, relative to the job folder.
pub fn configurations(job: &Path) -> Result<Vec<PathBuf>, LayoutError> {
    let mut found = Vec::new();
    for folder in config_folders(job)? {
        let names = entries(&folder)?.into_iter();
        let files = names.filter(|name| is_config_name(name) && folder.join(name).is_file());
        found.extend(files.map(|name| folder.join(name)));
    }
    Ok(relative(job, &found))
}

/// A single candidate is chosen; among several, v1's usual names win if they are unique.
fn choose_config(job: &Path, candidates: Vec<JobConfig>) -> Result<JobConfig, LayoutError> {
    if candidates.is_empty() {
        return Err(LayoutError::NoConfig {
            job: job.to_owned(),
        });
    }
    if let [only] = candidates.as_slice() {
        return Ok(only.clone());
    }
    for usual in ["trainer_config.py", "trainer_config.lr.py"] {
        let mut matching = candidates
            .iter()
            .filter(|config| config.file.as_os_str() == usual);
        if let (Some(found), None) = (matching.next(), matching.next()) {
            return Ok(found.clone());
        }
    }
    let candidates: Vec<PathBuf> = candidates.iter().map(JobConfig::path).collect();
    Err(LayoutError::ManyConfigs {
        job: job.to_owned(),
        candidates: relative(job, &candidates),
    })
}

fn requested_config(
    job: &Path,
    folders: &[PathBuf],
    folder_is_given: bool,
    config: &Path,
) -> Result<JobConfig, LayoutError> {
    let inside = folders
        .iter()
        .filter(|folder| folder_is_given || *folder != job);
    for folder in inside {
        if folder.join(config).is_file() && config.is_relative() {
            return Ok(JobConfig {
                folder: folder.clone(),
                file: config.to_owned(),
            });
        }
    }
    let path = job.join(config);
    if path.is_file() && !folder_is_given {
        let path = fs::canonicalize(&path).map_err(|source| read_error(&path, source))?;
        let holder = folders
            .iter()
            .find(|folder| path.starts_with(folder))
            .map(PathBuf::as_path);
        let holder = holder.or(path.parent()).unwrap_or(job);
        return Ok(JobConfig {
            folder: holder.to_owned(),
            file: path.strip_prefix(holder).unwrap_or(&path).to_owned(),
        });
    }
    let mut found = Vec::new();
    for folder in folders {
        found.extend(
            entries(folder)?
                .into_iter()
                .filter(|name| name.ends_with(".py")),
        );
    }
    let found = if found.is_empty() {
        "the job contains no .py file".to_owned()
    } else {
        let requested = config.to_string_lossy();
        match words::guess::nearest(&requested, found.iter().map(String::as_str)) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("the job contains: {}", found.join(", ")),
        }
    };
    Err(LayoutError::Missing { path, found })
}

fn is_config_name(name: &str) -> bool {
    name.starts_with("trainer_config") && name.ends_with(".py")
}

/// The folders that may hold a configuration: those of the job that are not data or output, then the job itself.
fn config_folders(job: &Path) -> Result<Vec<PathBuf>, LayoutError> {
    let mut folders = Vec::new();
    for name in entries(job)? {
        let path = job.join(&name);
        if path.is_dir() && !is_job_part(&name) && !name.starts_with('.') {
            folders.push(path);
        }
    }
    folders.push(job.to_owned());
    Ok(folders)
}

/// Names that the job's layout reserves: data, output, outputs of earlier runs (`output-3`) and v1's shard folders.
pub fn is_job_part(name: &str) -> bool {
    let earlier = name.strip_prefix("output-");
    let is_earlier = earlier.is_some_and(|number| number.parse::<u32>().is_ok());
    name == "data" || name == "output" || is_earlier || shard_id(name).is_some()
}

fn shard_id(name: &str) -> Option<u32> {
    let canonical = name == "0" || !name.starts_with('0');
    if canonical && name.bytes().all(|byte| byte.is_ascii_digit()) {
        name.parse().ok()
    } else {
        None
    }
}

fn find_data(job: &Path, config_dir: &Path, nodes: u32) -> Result<JobData, LayoutError> {
    let data = job.join("data");
    let under_data = shard_ids(&data, |_| true)?;
    let beside = shard_ids(job, |path| path.join("data").is_dir())?;
    let wanted: BTreeSet<u32> = (0..nodes).collect();
    if under_data == wanted {
        return Ok(JobData::Shards(
            wanted.iter().map(|id| data.join(id.to_string())).collect(),
        ));
    }
    if beside == wanted {
        return Ok(JobData::Shards(
            wanted
                .iter()
                .map(|id| job.join(id.to_string()).join("data"))
                .collect(),
        ));
    }
    for flat in [data, config_dir.join("data")] {
        if has_flat_files(&flat)? {
            return Ok(if nodes == 1 {
                JobData::Shards(vec![flat])
            } else {
                JobData::Flat(flat)
            });
        }
    }
    let found = if under_data.is_empty() {
        beside
    } else {
        under_data
    };
    if found.is_empty() {
        return Err(LayoutError::NoData {
            job: job.to_owned(),
            nodes,
        });
    }
    let count = found.len();
    let found = found
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    Err(LayoutError::ShardCount {
        job: job.to_owned(),
        nodes,
        found,
        count,
    })
}

fn shard_ids(folder: &Path, accept: impl Fn(&Path) -> bool) -> Result<BTreeSet<u32>, LayoutError> {
    if !folder.is_dir() {
        return Ok(BTreeSet::new());
    }
    let names = entries(folder)?;
    let is_shard = |name: &&String| {
        let path = folder.join(name);
        path.is_dir() && accept(&path)
    };
    Ok(names
        .iter()
        .filter(is_shard)
        .filter_map(|name| shard_id(name))
        .collect())
}

fn has_flat_files(folder: &Path) -> Result<bool, LayoutError> {
    if !folder.is_dir() {
        return Ok(false);
    }
    Ok(entries(folder)?
        .iter()
        .any(|name| !name.starts_with('.') && folder.join(name).is_file()))
}

/// The names in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<String>, LayoutError> {
    let read = |source| read_error(folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        if let Ok(name) = entry.map_err(read)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn relative(job: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let shorten = |path: &PathBuf| match path.strip_prefix(job) {
        Ok(rest) if rest.as_os_str().is_empty() => PathBuf::from("."),
        Ok(rest) => rest.to_owned(),
        Err(_) => path.clone(),
    };
    paths.iter().map(shorten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    fn read(
        files: &[&str],
        nodes: u32,
        options: FolderOptions,
    ) -> Result<(PathBuf, PathBuf, JobData), String> {
        let folder = job(files);
        let root = fs::canonicalize(folder.path()).unwrap();
        let layout = FolderLayout::read(folder.path(), nodes, &options)
            .map_err(|error| error.to_string())?;
        let data = match layout.data {
            JobData::Shards(paths) => JobData::Shards(relative(&root, &paths)),
            JobData::Flat(path) => JobData::Flat(relative(&root, &[path])[0].clone()),
            listed @ JobData::Listed(_) => listed,
        };
        Ok((
            relative(&root, &[layout.config_dir])[0].clone(),
            layout.config,
            data,
        ))
    }

    fn shards(paths: &[&str]) -> JobData {
        JobData::Shards(paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn both_layouts_of_v1() {
        let want = |data| Ok(("quick_start".into(), "trainer_config.lr.py".into(), data));
        let files = [
            "quick_start/trainer_config.lr.py",
            "data/0/train.txt",
            "data/1/train.txt",
        ];
        assert_eq!(
            read(&files, 2, FolderOptions::default()),
            want(shards(&["data/0", "data/1"]))
        );
        let files = [
            "quick_start/trainer_config.lr.py",
            "0/data/train.txt",
            "1/data/train.txt",
        ];
        assert_eq!(
            read(&files, 2, FolderOptions::default()),
            want(shards(&["0/data", "1/data"]))
        );
    }

    #[test]
    fn flat_data_are_split_unless_there_is_one_node() {
        let files = ["trainer_config.py", "data/train.txt"];
        assert_eq!(
            read(&files, 3, FolderOptions::default()).unwrap().2,
            JobData::Flat("data".into())
        );
        assert_eq!(
            read(&files, 1, FolderOptions::default()).unwrap().2,
            shards(&["data"])
        );
        assert_eq!(
            read(&files, 1, FolderOptions::default()).unwrap().0,
            PathBuf::from(".")
        );
        let inside = ["demo/trainer_config.py", "demo/data/train.txt"];
        assert_eq!(
            read(&inside, 2, FolderOptions::default()).unwrap().2,
            JobData::Flat("demo/data".into())
        );
        let other_number = [
            "trainer_config.py",
            "data/train.txt",
            "data/0/train.txt",
            "data/1/train.txt",
        ];
        assert_eq!(
            read(&other_number, 3, FolderOptions::default()).unwrap().2,
            JobData::Flat("data".into())
        );
    }

    #[test]
    fn a_wrong_number_of_shards_names_the_right_one() {
        let files = ["trainer_config.py", "data/0/train.txt", "data/1/train.txt"];
        let error = read(&files, 3, FolderOptions::default()).unwrap_err();
        assert!(
            error.contains("shards 0, 1") && error.contains("--nodes 2"),
            "{error}"
        );
        let error = read(&["trainer_config.py"], 3, FolderOptions::default()).unwrap_err();
        assert!(error.contains("data/<id>/"), "{error}");
    }

    #[test]
    fn of_several_configurations_the_usual_one_wins_else_all_are_listed() {
        let files = [
            "q/trainer_config.lr.py",
            "q/trainer_config.cnn.py",
            "data/0/a",
        ];
        assert_eq!(
            read(&files, 1, FolderOptions::default()).unwrap().1,
            PathBuf::from("trainer_config.lr.py")
        );
        let files = [
            "q/trainer_config.emb.py",
            "q/trainer_config.cnn.py",
            "data/0/a",
        ];
        let error = read(&files, 1, FolderOptions::default()).unwrap_err();
        assert!(
            error.contains("q/trainer_config.cnn.py, q/trainer_config.emb.py"),
            "{error}"
        );
        let error = read(&["q/model.py", "data/0/a"], 1, FolderOptions::default()).unwrap_err();
        assert!(error.contains("--config"), "{error}");
    }

    #[test]
    fn a_configuration_can_be_named_in_several_ways() {
        let files = [
            "q/trainer_config.a.py",
            "q/trainer_config.b.py",
            "q/sub/c.py",
            "data/0/a",
        ];
        for (config, config_dir, folder, name) in [
            ("trainer_config.b.py", None, "q", "trainer_config.b.py"),
            ("q/trainer_config.b.py", None, "q", "trainer_config.b.py"),
            (
                "./trainer_config.b.py",
                Some("q"),
                "q",
                "./trainer_config.b.py",
            ),
            ("sub/c.py", None, "q", "sub/c.py"),
        ] {
            let options = FolderOptions {
                config: Some(config.into()),
                config_dir: config_dir.map(PathBuf::from),
                ..FolderOptions::default()
            };
            let (found, file, _) = read(&files, 1, options).unwrap();
            assert_eq!((found, file), (folder.into(), name.into()), "{config}");
        }
        let options = FolderOptions {
            config: Some("x.py".into()),
            config_dir: Some("q".into()),
            ..FolderOptions::default()
        };
        let error = read(&files, 1, options).unwrap_err();
        assert!(error.contains("trainer_config.a.py"), "{error}");
        let options = FolderOptions {
            config: None,
            config_dir: Some("nowhere".into()),
            ..FolderOptions::default()
        };
        assert!(
            read(&files, 1, options)
                .unwrap_err()
                .contains("folders of the job: q")
        );
    }

    #[test]
    fn outputs_of_earlier_runs_are_no_folders_of_the_configuration() {
        assert!(is_job_part("output") && is_job_part("output-12"));
        assert!(!is_job_part("output-layer") && !is_job_part("outputs"));
        let folder = job(&["q/trainer_config.py", "output-1/x", "data/train.list"]);
        let options = FolderOptions {
            config_dir: Some("nope".into()),
            ..FolderOptions::default()
        };
        let error = find_config(folder.path(), &options)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("q, .") && !error.contains("output-1"),
            "{error}"
        );
    }

    #[test]
    fn shard_ids_are_plain_numbers() {
        assert_eq!(shard_id("0"), Some(0));
        assert_eq!(shard_id("12"), Some(12));
        for name in ["", "01", "-1", "+1", "1a", "99999999999"] {
            assert_eq!(shard_id(name), None, "{name}");
        }
    }
}
