//! The options of a job: job.yaml, and the flags that override it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use k8s::cluster::ClusterAccess;
use k8s::credentials::Credentials;
use k8s::job::{JobFile, Metrics, Volume};
use k8s::objects::ObjectInputs;
use k8s::program::Program;
use k8s::render;

/// The job folder, and flags in place of keys of its job.yaml.
#[derive(Debug, Args)]
pub(super) struct JobOptions {
    /// The job folder; its job.yaml, if there is one, says where and how it runs.
    pub directory: PathBuf,
    /// Name of the job (the folder's name, if there is no job.yaml).
    #[arg(long)]
    name: Option<String>,
    /// Namespace of all objects (that of job.yaml, or else of the kubeconfig's context).
    #[arg(short, long)]
    namespace: Option<String>,
    /// Container image with canoe and python3 (left out: a stock Python image, and this program is uploaded).
    #[arg(long)]
    image: Option<String>,
    /// The stock image of a job without an image of its own, such as one of a mirror or by digest: python3 and glibc.
    #[arg(long, value_name = "IMAGE", conflicts_with = "image")]
    python_image: Option<String>,
    /// The Linux program that pods run, if not this one; only without an image.
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    binary: Option<PathBuf>,
    /// Number of nodes.
    #[arg(long)]
    nodes: Option<u32>,
    /// Passes over the data.
    #[arg(long)]
    passes: Option<u64>,
    /// The configuration file (needed if there are several).
    #[arg(long)]
    config: Option<String>,
    /// An existing volume claim for data, logs and models.
    #[arg(long, conflicts_with = "nfs")]
    claim: Option<String>,
    /// An NFS server for data, logs and models: HOST or HOST:/PATH.
    #[arg(long)]
    nfs: Option<String>,
    /// A namespace whose pods may read the job's metrics, such as the one of Prometheus; can be repeated.
    #[arg(long, value_name = "NAMESPACE")]
    metrics_from: Vec<String>,
}

/// The canoe binary that a job without an image brings along.
pub(super) struct BroughtProgram {
    pub(super) program: Program,
    /// Its file on this machine.
    pub(super) file: PathBuf,
}

impl JobOptions {
    /// The job file with the flags put in, checked. `access` lends its namespace if neither names one.
    pub(super) fn job(&self, access: &ClusterAccess) -> anyhow::Result<JobFile> {
        let file = self.directory.join("job.yaml");
        let shown = file.display().to_string();
        let mut job = match std::fs::read_to_string(&file) {
            Ok(text) => JobFile::parse(&shown, &text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.default_job()?,
            Err(error) => return Err(error).with_context(|| format!("read {shown}")),
        };
        self.put_in(&mut job);
        if job.namespace.is_empty() {
            job.namespace = super::namespace_of(access);
        }
        let problems = k8s::check::problems(&job);
        if !problems.is_empty() {
            bail!("{}", problems.join("; "));
        }
        Ok(job)
    }

    /// The flags that select the job, as they were given, for commands in hints.
    pub(super) fn words(&self) -> String {
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("--name", self.name.clone()),
            ("-n", self.namespace.clone()),
            ("--python-image", self.python_image.clone()),
            ("--binary", file(&self.binary)),
            ("--config", self.config.clone()),
            ("--claim", self.claim.clone()),
            ("--nfs", self.nfs.clone()),
        ];
        let given = flags
            .iter()
            .filter_map(|(flag, value)| Some(format!(" {flag} {}", value.as_ref()?)));
        given.collect()
    }

    fn default_job(&self) -> anyhow::Result<JobFile> {
        if !self.directory.is_dir() {
            let what = if self.directory.exists() {
                "is not a folder"
            } else {
                "does not exist"
            };
            bail!(
                "{} {what}: give the job folder, which may have a job.yaml (`canoe new DIR` or `canoe demo quick_start DIR` writes a job folder)",
                self.directory.display()
            );
        }
        let folder = std::fs::canonicalize(&self.directory).context("find the job folder")?;
        let name = folder
            .file_name()
            .map(|name| name_of(&name.to_string_lossy()));
        let mut job = JobFile::new(&name.unwrap_or_default(), Volume::default());
        job.namespace = String::new();
        Ok(job)
    }

    fn put_in(&self, job: &mut JobFile) {
        fn set<T: Clone>(into: &mut T, option: &Option<T>) {
            if let Some(value) = option {
                *into = value.clone();
            }
        }
        set(&mut job.name, &self.name);
        set(&mut job.namespace, &self.namespace);
        job.image = self.image.clone().or(job.image.take());
        set(&mut job.python_image, &self.python_image);
        set(&mut job.nodes, &self.nodes);
        job.passes = self.passes.or(job.passes);
        job.config = self.config.clone().or(job.config.take());
        if let Some(name) = &self.claim {
            job.volume = Volume::Claim { name: name.clone() };
        }
        if let Some(place) = &self.nfs {
            let (server, path) = place.split_once(':').unwrap_or((place, "/"));
            job.volume = Volume::Nfs {
                server: server.to_owned(),
                path: path.to_owned(),
                size: "100Gi".to_owned(),
            };
        }
        if !self.metrics_from.is_empty() {
            job.metrics = Some(Metrics::for_namespaces(self.metrics_from.clone()));
        }
    }

    /// The program for the volume; `None` if the job has an image of its own.
    pub(super) fn program(&self, job: &JobFile) -> anyhow::Result<Option<BroughtProgram>> {
        if job.image.is_some() {
            let flags = [
                ("--binary", self.binary.is_some()),
                ("--python-image", self.python_image.is_some()),
            ];
            if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
                bail!(
                    "{flag}: the job has an image of its own; leave `image` out to bring a program along"
                );
            }
            return Ok(None);
        }
        let own = || std::env::current_exe().context("find this program");
        let path = self.binary.clone().map_or_else(own, Ok)?;
        let program = Program::of(&path)?;
        let wanted = job.node_selector.get("kubernetes.io/arch");
        if let Some(wanted) = wanted.filter(|wanted| *wanted != program.architecture.label()) {
            bail!(
                "nodeSelector asks for {wanted} machines, and {} runs on {}; name another with --binary FILE",
                path.display(),
                program.architecture.label()
            );
        }
        Ok(Some(BroughtProgram {
            program,
            file: path,
        }))
    }

    /// Everything from which the objects are rendered, with the job's existing keys if it has any.
    pub(super) fn inputs(
        &self,
        job: JobFile,
        keys: Option<Credentials>,
        program: Option<Program>,
    ) -> anyhow::Result<ObjectInputs> {
        let credentials = match keys {
            Some(keys) => keys,
            None => Credentials::generate(&job.name, &job.namespace, job.tls)?,
        };
        let directory = std::fs::canonicalize(&self.directory).context("find the job folder")?;
        Ok(render::gather(&directory, job, credentials, program)?)
    }
}

/// A folder's name as a name in Kubernetes: `quick_start` becomes `quick-start`.
fn name_of(folder: &str) -> String {
    let letter = |character: char| match character.to_ascii_lowercase() {
        character if character.is_ascii_alphanumeric() => character,
        _ => '-',
    };
    let name: String = folder.chars().map(letter).collect();
    name.trim_matches(|character: char| !character.is_ascii_alphanumeric())
        .trim_start_matches(|character: char| character.is_ascii_digit() || character == '-')
        .to_owned()
}

/// The folder whose shards or files go to the volume, if it is one.
pub(super) fn data_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    if !folder.is_dir() {
        bail!("--data={}: is not a folder", folder.display());
    }
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lends_its_name() {
        assert_eq!(name_of("quick_start"), "quick-start");
        assert_eq!(name_of("2026 My.Job_"), "my-job");
        assert_eq!(name_of("___"), "");
    }
}
