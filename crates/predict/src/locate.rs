//! Finds a model for a path: the pass directory, the configuration file, and the folder in which it is evaluated.
//!
//! A pass directory has a copy of its configuration, but data providers, dictionaries and other files that the
//! configuration opens are in the job folder. So the configuration is evaluated there. The file of the job folder is used
//! if it still equals the copy, otherwise the copy.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use trainer::pass_directory::DONE;

use crate::error::PredictError;

/// The name under which the best pass is linked in an output folder.
pub const BEST: &str = "best";

/// The folder of a job that holds its pass directories.
pub const OUTPUT: &str = "output";

/// A model on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The pass directory, complete.
    pub directory: PathBuf,
    /// The folder in which the configuration is evaluated and providers run.
    pub job: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// Where provider modules are searched, besides the job folder.
    pub modules: PathBuf,
    /// Where the data provider of a merged model was searched.
    pub provider: Option<ProviderSearch>,
}

/// The search for a data provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSearch {
    /// The folders, in this order.
    pub searched: Vec<PathBuf>,
    /// The module that was found, which will be run.
    pub module: Option<PathBuf>,
}

/// What the user may name in addition to the path.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    /// The job folder, instead of one above the pass directory.
    pub job: Option<PathBuf>,
    /// The configuration, instead of the one that the pass directory names.
    pub config: Option<PathBuf>,
}

/// Identifies a saved model: one that was saved later under the same name has another identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// When its directory was completed, in nanoseconds since 1970.
    saved: i128,
}

/// The identity of the model that a path means.
pub fn identity(path: &Path) -> Result<ModelIdentity, PredictError> {
    let (path, mark) = if path.is_file() {
        (path.to_owned(), path.to_owned())
    } else {
        let directory = pass_directory(path)?;
        (directory.clone(), directory.join(DONE))
    };
    let found = fs::metadata(mark).map_err(|_| PredictError::NoModel { path: path.clone() })?;
    Ok(ModelIdentity {
        path,
        device: found.dev(),
        inode: found.ino(),
        saved: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
    })
}

/// Finds the model that a path means.
pub fn locate(path: &Path, hints: &Hints) -> Result<Located, PredictError> {
    let directory = pass_directory(path)?;
    // The job folder must be absolute, because the provider runs in it.
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let hints = &Hints {
        job: hints.job.as_ref().map(absolute),
        config: hints.config.as_ref().map(absolute),
    };
    if let Some(config) = &hints.config {
        let here = std::env::current_dir().unwrap_or_default();
        let modules = config.parent().map(Path::to_owned).unwrap_or_default();
        let job = hints.job.clone().unwrap_or_else(|| {
            let above = ancestors(&directory, &here);
            let inside = |folder: &&PathBuf| modules.starts_with(folder);
            above.iter().find(inside).cloned().unwrap_or(here)
        });
        return Ok(Located {
            directory,
            job,
            config: config.clone(),
            modules,
            provider: None,
        });
    }
    let name = fs::read_to_string(directory.join("path.txt")).unwrap_or_default();
    let name = Path::new(name.trim()).file_name();
    let name = name.ok_or_else(|| PredictError::NoConfiguration {
        directory: directory.clone(),
    })?;
    let copy = directory.join(name);
    let here = std::env::current_dir().unwrap_or_default();
    let folders = match &hints.job {
        Some(job) => vec![job.clone()],
        None => ancestors(&directory, &here),
    };
    let found = folders
        .iter()
        .find_map(|folder| Some((folder.clone(), original(folder, Path::new(name), &copy)?)));
    let (job, modules, config) = match found {
        Some((job, file)) => {
            let modules = file.parent().map(Path::to_owned).unwrap_or_default();
            let config = if same(&file, &copy) { file } else { copy };
            (job, modules, config)
        }
        None => {
            let job = hints.job.clone().unwrap_or(here);
            (job, directory.clone(), copy)
        }
    };
    Ok(Located {
        directory,
        job,
        config,
        modules,
        provider: None,
    })
}

/// Locates a merged model, whose configuration is in the file. Its data provider, which is a program, is searched by
/// the name of its module only where the file came from: in the job folder that the user named; otherwise in the folder
/// of the file and, if that is in the output of a job folder, in that job folder.
pub fn beside(file: &Path, hints: &Hints, provider: &str) -> Located {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = absolute(file);
    let own = file.parent().map(Path::to_owned).unwrap_or_default();
    let folders = match &hints.job {
        Some(job) => vec![absolute(job)],
        None => [own].into_iter().chain(job_above(&file)).collect(),
    };
    let config = hints.config.as_deref().map(absolute);
    let named = config.as_ref().and_then(|config| config.parent());
    let first = folders.first().cloned().unwrap_or_default();
    let mut searched = Vec::new();
    let (job, modules) = match named {
        Some(modules) => {
            let inside = |folder: &&PathBuf| modules.starts_with(folder);
            let job = folders.iter().find(inside).cloned().unwrap_or(first);
            searched.push(modules.to_owned());
            (job, modules.to_owned())
        }
        None => {
            let below = hints.job.is_some();
            let places = folders.iter().flat_map(|job| {
                let places = code_folders(job, below);
                places.into_iter().map(|place| (job.clone(), place))
            });
            let places: Vec<(PathBuf, PathBuf)> = places.collect();
            searched.extend(places.iter().map(|(_, place)| place.clone()));
            let holds = |place: &(PathBuf, PathBuf)| has_module(&place.1, provider);
            let found = places.into_iter().find(holds);
            found.unwrap_or((first.clone(), first))
        }
    };
    let module = has_module(&modules, provider).then(|| modules.join(module_file(provider)));
    Located {
        modules,
        config: file.clone(),
        directory: file,
        job,
        provider: Some(ProviderSearch { searched, module }),
    }
}

/// The job folder in whose output a file is.
fn job_above(file: &Path) -> Option<PathBuf> {
    let mut above = file.ancestors().skip(2).take(2);
    let inside = |job: &&Path| {
        file.starts_with(job.join(OUTPUT)) && job.join(OUTPUT).join("run.json").is_file()
    };
    above.find(inside).map(Path::to_owned)
}

/// Where a job folder may have its Python modules: in itself, where its last run had its configuration and, if the user
/// named the folder, one level below.
fn code_folders(job: &Path, below: bool) -> Vec<PathBuf> {
    let mut folders = vec![job.to_owned()];
    let noted = noted_config(job).filter(|config| is_inside(config));
    folders.extend(noted.and_then(|config| Some(job.join(config).parent()?.to_owned())));
    if below {
        let entries = fs::read_dir(job).into_iter().flatten().flatten();
        let mut inner: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        inner.sort();
        folders.extend(inner);
    }
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// Whether a relative path stays below where it starts.
fn is_inside(path: &Path) -> bool {
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    path.components().all(plain)
}

fn module_file(module: &str) -> String {
    format!("{}.py", module.replace('.', "/"))
}

fn has_module(folder: &Path, module: &str) -> bool {
    !module.is_empty() && folder.join(module_file(module)).is_file()
}

/// The complete pass directory that a path means: itself, or the best or last of an output folder or job folder.
pub fn pass_directory(path: &Path) -> Result<PathBuf, PredictError> {
    let real = path.canonicalize();
    let real = real.map_err(|source| PredictError::NoPath {
        path: path.to_owned(),
        source,
    })?;
    if real.join(DONE).is_file() {
        return Ok(real);
    }
    for folder in [real.join(OUTPUT), real.clone()] {
        if let Some(found) = chosen(&folder) {
            return Ok(found);
        }
    }
    let is_pass = real
        .file_name()
        .is_some_and(|name| is_pass(&name.to_string_lossy()));
    if is_pass {
        return Err(PredictError::Incomplete { path: real });
    }
    Err(PredictError::NoModel {
        path: path.to_owned(),
    })
}

/// The best pass of an output folder if one is linked, else the last complete one.
pub fn chosen(output: &Path) -> Option<PathBuf> {
    if let Some(best) = best(output) {
        return Some(best);
    }
    let entries = fs::read_dir(output).ok()?;
    let mut passes: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            is_pass(&name) && path.join(DONE).is_file()
        })
        .collect();
    // `pass-00007-012`, saved inside pass 7, comes before `pass-00007`, its end.
    passes.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut numbers = name
            .split('-')
            .skip(1)
            .map(|n| n.parse::<u64>().unwrap_or(0));
        let pass = numbers.next().unwrap_or(0);
        (pass, numbers.next().unwrap_or(u64::MAX))
    });
    passes.pop()
}

/// The pass that `best` names: a link to a directory, or a file with its name.
fn best(output: &Path) -> Option<PathBuf> {
    let link = output.join(BEST);
    let target = if link.is_file() {
        output.join(fs::read_to_string(&link).ok()?.trim())
    } else {
        link.canonicalize().ok()?
    };
    target.join(DONE).is_file().then_some(target)
}

fn is_pass(name: &str) -> bool {
    let rest = name.strip_prefix("pass-");
    rest.is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    })
}

/// The folders that may be the job's: two levels above the pass directory, one, three, and the working directory.
fn ancestors(directory: &Path, here: &Path) -> Vec<PathBuf> {
    let mut above = directory.ancestors().skip(1).map(Path::to_owned);
    let (first, second, third) = (above.next(), above.next(), above.next());
    [second, first, third, Some(here.to_owned())]
        .into_iter()
        .flatten()
        .collect()
}

/// The configuration that the last run of a job folder used; otherwise the file of this name in the folder or one level
/// below it; of several, the one that equals the copy. Copies in saved models are not considered.
fn original(folder: &Path, name: &Path, copy: &Path) -> Option<PathBuf> {
    let mut found = vec![folder.join(name)];
    found.splice(0..0, of_last_run(folder, name));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = entry.path();
            !name.starts_with('.') && path.is_dir() && !path.join(DONE).exists()
        })
        .map(|entry| entry.path().join(name))
        .collect();
    below.sort();
    found.extend(below);
    found.retain(|file| file.is_file());
    let equal = found.iter().position(|file| same(file, copy));
    (!found.is_empty()).then(|| found.swap_remove(equal.unwrap_or(0)))
}

/// The configuration that `canoe run` noted, if it has this name.
fn of_last_run(folder: &Path, name: &Path) -> Option<PathBuf> {
    let config = noted_config(folder)?;
    (config.file_name() == Some(name.as_os_str())).then(|| folder.join(config))
}

/// The configuration that `canoe run` noted, relative to the job folder.
fn noted_config(folder: &Path) -> Option<PathBuf> {
    let text = fs::read(folder.join(OUTPUT).join("run.json")).ok()?;
    let noted: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(PathBuf::from(noted["settings"]["config"].as_str()?))
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(output: &Path, name: &str, done: bool) -> PathBuf {
        let path = output.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("trainer_config.py"), "x").unwrap();
        fs::write(path.join("path.txt"), "trainer_config.py").unwrap();
        if done {
            fs::write(path.join(DONE), "").unwrap();
        }
        path.canonicalize().unwrap()
    }

    #[test]
    fn a_job_folder_means_its_best_pass_or_its_last_complete_one() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join(OUTPUT);
        let first = pass(&output, "pass-00000", true);
        let inside = pass(&output, "pass-00001-003", true);
        assert_eq!(pass_directory(dir.path()).unwrap(), inside);
        let second = pass(&output, "pass-00001", true);
        pass(&output, "pass-00002", false);
        assert_eq!(pass_directory(dir.path()).unwrap(), second);
        assert_eq!(pass_directory(&output).unwrap(), second);
        std::os::unix::fs::symlink("pass-00000", output.join(BEST)).unwrap();
        assert_eq!(pass_directory(dir.path()).unwrap(), first);
        assert_eq!(pass_directory(&second).unwrap(), second);
        fs::remove_file(output.join(BEST)).unwrap();
        fs::write(output.join(BEST), "pass-00000\n").unwrap();
        assert_eq!(
            pass_directory(dir.path()).unwrap().canonicalize().unwrap(),
            first
        );
    }

    #[test]
    fn a_model_that_is_saved_again_has_another_identity() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join(OUTPUT);
        let first = pass(&output, "pass-00000", true);
        let before = identity(dir.path()).unwrap();
        assert_eq!(identity(&first).unwrap(), before);
        fs::rename(&first, output.join("aside")).unwrap();
        assert!(identity(dir.path()).is_err());
        pass(&output, "pass-00000", true);
        assert_ne!(identity(dir.path()).unwrap(), before);
        let file = dir.path().join("merged");
        fs::write(&file, "x").unwrap();
        let before = identity(&file).unwrap();
        fs::rename(&file, dir.path().join("old")).unwrap();
        fs::write(&file, "y").unwrap();
        assert_ne!(identity(&file).unwrap(), before);
    }

    #[test]
    fn what_is_no_model_and_what_is_not_finished_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            pass_directory(dir.path()),
            Err(PredictError::NoModel { .. })
        ));
        let half = pass(&dir.path().join(OUTPUT), "pass-00000", false);
        assert!(matches!(
            pass_directory(&half),
            Err(PredictError::Incomplete { .. })
        ));
        assert!(matches!(
            pass_directory(&dir.path().join("nothing")),
            Err(PredictError::NoPath { .. })
        ));
    }

    #[test]
    fn the_configuration_runs_in_the_job_folder_unless_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().canonicalize().unwrap();
        let directory = pass(&job.join(OUTPUT), "pass-00000", true);
        let configs = job.join("demo");
        fs::create_dir(&configs).unwrap();
        fs::write(configs.join("trainer_config.py"), "x").unwrap();
        let located = locate(&job, &Hints::default()).unwrap();
        assert_eq!((&located.job, &located.modules), (&job, &configs));
        assert_eq!(located.config, configs.join("trainer_config.py"));
        fs::write(configs.join("trainer_config.py"), "changed").unwrap();
        let located = locate(&job, &Hints::default()).unwrap();
        assert_eq!(located.config, directory.join("trainer_config.py"));
        assert_eq!(located.modules, configs);
    }

    #[test]
    fn of_several_files_of_one_name_the_one_that_was_run_counts() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().canonicalize().unwrap();
        pass(&job.join(OUTPUT), "pass-00000", true);
        pass(&job, "a-copy", true);
        for folder in ["archive", "model"] {
            fs::create_dir(job.join(folder)).unwrap();
            fs::write(job.join(folder).join("trainer_config.py"), "x").unwrap();
        }
        let noted = r#"{"settings": {"config": "model/trainer_config.py"}}"#;
        fs::write(job.join("output/run.json"), noted).unwrap();
        let located = locate(&job, &Hints::default()).unwrap();
        assert_eq!(located.modules, job.join("model"));
    }

    #[test]
    fn a_merged_model_finds_its_provider_in_the_job_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (job, models) = (root.join("job"), root.join("models"));
        let code = job.join("quick_start");
        for folder in [&code, &models] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(code.join("provider_bow.py"), "").unwrap();
        let at = |file: PathBuf, hints: &Hints| {
            let found = beside(&file, hints, "provider_bow");
            (found.job, found.modules)
        };
        let elsewhere = models.join("m.bin");
        let named = Hints {
            job: Some(job.clone()),
            config: None,
        };
        assert_eq!(at(elsewhere.clone(), &named), (job.clone(), code.clone()));
        // Without a name only a job folder that has been run says where its code is.
        let inside = at(job.join("m.bin"), &Hints::default());
        assert_eq!(inside, (job.clone(), job.clone()));
        fs::create_dir(job.join(OUTPUT)).unwrap();
        let noted = r#"{"settings": {"config": "quick_start/trainer_config.py"}}"#;
        fs::write(job.join("output/run.json"), noted).unwrap();
        for place in ["m.bin", "output/m.bin", "output/pass-00000/m.bin"] {
            let inside = at(job.join(place), &Hints::default());
            assert_eq!(inside, (job.clone(), code.clone()), "{place}");
        }
        let config = Hints {
            job: Some(job.clone()),
            config: Some(code.join("trainer_config.py")),
        };
        assert_eq!(at(elsewhere.clone(), &config), (job.clone(), code.clone()));
        let lost = at(elsewhere, &Hints::default());
        assert_eq!(lost, (models.clone(), models));
    }

    #[test]
    fn a_merged_model_does_not_run_the_code_of_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (mine, foreign) = (root.join("a"), root.join("b"));
        for folder in [&mine, &foreign] {
            fs::create_dir_all(folder).unwrap();
        }
        // Beside the folder of the model, above it, and below that of another model.
        fs::write(foreign.join("prov.py"), "").unwrap();
        fs::write(root.join("prov.py"), "").unwrap();
        let found = beside(&mine.join("m.bin"), &Hints::default(), "prov");
        assert_eq!((&found.job, &found.modules), (&mine, &mine));
        let search = found.provider.unwrap();
        assert_eq!(search.searched, std::slice::from_ref(&mine));
        assert_eq!(search.module, None);
        fs::remove_file(root.join("prov.py")).unwrap();
        let found = beside(&root.join("m.bin"), &Hints::default(), "prov");
        assert_eq!(
            (&found.modules, found.provider.unwrap().module),
            (&root, None)
        );
        // Nor where a note of a run leads out of its folder.
        fs::create_dir(mine.join(OUTPUT)).unwrap();
        let noted = r#"{"settings": {"config": "../b/trainer_config.py"}}"#;
        fs::write(mine.join("output/run.json"), noted).unwrap();
        let found = beside(&mine.join("m.bin"), &Hints::default(), "prov");
        assert_eq!(found.provider.unwrap().module, None);
        fs::write(mine.join("prov.py"), "").unwrap();
        let found = beside(&mine.join("m.bin"), &Hints::default(), "prov");
        assert_eq!(found.provider.unwrap().module, Some(mine.join("prov.py")));
    }
}
