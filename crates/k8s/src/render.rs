//! Renders a job folder and a job file as manifests, for `canoe job render` and `submit`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::credentials::Credentials;
use super::folder::{self, Files, FolderError};
use super::job::{ConfigFrom, JobFile, Volume};
use super::objects::{self, ObjectInputs};
use super::program::Program;
use super::verify;
use run::local::layout::{self, FolderOptions, LayoutError};

/// Why a job cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum RenderError {
    /// The job folder has no configuration, or several to choose from.
    #[error("find the configuration in {job}")]
    Config {
        /// The job folder.
        job: PathBuf,
        #[source]
        source: LayoutError,
    },
    /// The configuration folder cannot be put into a ConfigMap.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The objects contradict each other: a bug, or a job file that was not foreseen.
    #[error("the objects do not agree: {}", .problems.join("; "))]
    Disagree { problems: Vec<String> },
}

/// Finds the configuration in the job folder and puts everything together.
pub fn gather(
    folder: &Path,
    job: JobFile,
    credentials: Credentials,
    program: Option<Program>,
) -> Result<ObjectInputs, RenderError> {
    let options = FolderOptions {
        config: job.config.as_ref().map(PathBuf::from),
        config_dir: job.config_dir.as_ref().map(PathBuf::from),
        ..FolderOptions::default()
    };
    let config = layout::find_config(folder, &options).map_err(|source| RenderError::Config {
        job: folder.to_owned(),
        source,
    })?;
    let files = match job.config_from {
        ConfigFrom::ConfigMap => folder::read(&config.folder)?,
        ConfigFrom::Volume => Files::new(),
    };
    let in_job = config
        .folder
        .strip_prefix(folder)
        .ok()
        .filter(|path| !path.as_os_str().is_empty());
    let config_dir = job
        .config_dir
        .clone()
        .or(in_job.map(|path| path.display().to_string()));
    let job = JobFile { config_dir, ..job };
    Ok(ObjectInputs {
        job,
        config: files,
        config_file: config.file.display().to_string(),
        config_folder: config.folder,
        credentials,
        program,
        data_note: None,
    })
}

/// All objects, after checking that they agree.
pub fn objects(inputs: &ObjectInputs) -> Result<Vec<Value>, RenderError> {
    let objects = objects::all(inputs);
    let existing: &[&str] = match &inputs.job.volume {
        Volume::Claim { name } => &[name],
        _ => &[],
    };
    let problems = verify::problems(&objects, existing);
    if problems.is_empty() {
        Ok(objects)
    } else {
        Err(RenderError::Disagree { problems })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_becomes_objects() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("quick_start")).unwrap();
        fs::write(
            folder.path().join("quick_start/trainer_config.lr.py"),
            "settings()\n",
        )
        .unwrap();
        let job = JobFile::new(
            "ctr",
            Volume::Claim {
                name: "efsvol".into(),
            },
        );
        let credentials = Credentials {
            token: "0123456789".into(),
            tls: None,
        };
        let inputs = gather(
            folder.path(),
            JobFile {
                tls: false,
                ..job.clone()
            },
            credentials.clone(),
            None,
        )
        .unwrap();
        assert_eq!(
            (
                inputs.config_file.as_str(),
                inputs.job.config_dir.as_deref()
            ),
            ("trainer_config.lr.py", Some("quick_start"))
        );
        assert_eq!(
            inputs.config.keys().collect::<Vec<_>>(),
            ["trainer_config.lr.py"]
        );
        assert!(objects(&inputs).unwrap().len() >= 6);
        let missing = JobFile {
            config: Some("other.py".into()),
            ..job
        };
        let error = gather(folder.path(), missing, credentials, None).unwrap_err();
        assert!(matches!(error, RenderError::Config { .. }));
    }
}
