//! `canoe image`: builds a container image without Docker, as a file or in a registry, and looks up the digest of a tag.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use image::login::{self, Login};
use image::registry::Repository;
use image::{ImageOptions, Reference};
use k8s::job::PYTHON_IMAGE;
use k8s::program::Program;
use provision::aws::{Aws, AwsSettings};
use trainer::output_file::OutputFile;

use crate::exit::Exit;

/// Make, push and pin images.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write an image to a file: for `kind load image-archive`, `ctr -n k8s.io images import`, `podman load`, `skopeo copy`.
    Build {
        /// The file, an OCI archive.
        #[arg(short = 'o', long, alias = "output", value_name = "FILE")]
        to: PathBuf,
        /// The name that the image has in the file.
        #[arg(long, default_value = concat!("canoe:", env!("CARGO_PKG_VERSION")))]
        name: String,
        #[command(flatten)]
        source: Source,
    },
    /// Print what a tag stands for now, by digest: a line for job.yaml that pins the image of a job.
    Pin {
        /// Name of the image: `REGISTRY/NAME:TAG`; registry and tag may be left out.
        #[arg(default_value = PYTHON_IMAGE)]
        reference: String,
    },
    /// Push an image to a registry; logins are those of Docker and Podman, and of AWS for ECR.
    Push {
        /// Name of the image: `REGISTRY/NAME:TAG`; registry and tag may be left out.
        reference: String,
        #[command(flatten)]
        source: Source,
    },
}

#[derive(Debug, clap::Args)]
struct Source {
    /// The image that canoe is put on: python3 and glibc.
    #[arg(long, default_value = PYTHON_IMAGE)]
    base: String,
    /// The Linux program, if not this one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

pub(crate) fn run(args: ImageArgs) -> Result<Exit> {
    match args.action {
        Action::Build { to, name, source } => build(&to, &name, &source),
        Action::Pin { reference } => pin(&reference),
        Action::Push { reference, source } => push(&reference, &source),
    }
}

fn pin(reference: &str) -> Result<Exit> {
    let repository = repository(reference, false)?;
    let pinned = Reference {
        version: repository.digest()?,
        ..repository.reference().clone()
    };
    println!("pythonImage: {pinned}");
    Ok(Exit::Success)
}

fn program(source: &Source) -> Result<PathBuf> {
    match &source.binary {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe().context("find this program"),
    }
}

fn build(output: &Path, name: &str, source: &Source) -> Result<Exit> {
    let binary = program(source)?;
    let architecture = Program::of(&binary)?.architecture;
    let base = repository(&source.base, false)?;
    let options = ImageOptions {
        base: &base,
        binary: &binary,
        architecture: architecture.label(),
    };
    let failed = || format!("write {}", output.display());
    let mut file = OutputFile::create(output).with_context(failed)?;
    let digest = image::to_file(&options, name, &mut file, output)?;
    file.commit().with_context(failed)?;
    eprintln!("{}: {name} on {}", output.display(), base.reference());
    println!("{digest}");
    Ok(Exit::Success)
}

fn push(reference: &str, source: &Source) -> Result<Exit> {
    let binary = program(source)?;
    let architecture = Program::of(&binary)?.architecture;
    let base = repository(&source.base, false)?;
    let target = repository(reference, true)?;
    let options = ImageOptions {
        base: &base,
        binary: &binary,
        architecture: architecture.label(),
    };
    let digest = image::to_registry(&options, &target, &|line| eprintln!("{line}"))?;
    let pushed = Reference {
        version: digest,
        ..target.reference().clone()
    };
    eprintln!("{} is pushed; in job.yaml:", target.reference());
    println!("image: {pushed}");
    Ok(Exit::Success)
}

fn repository(name: &str, is_written: bool) -> Result<Repository> {
    let reference = Reference::parse(name)?;
    let files = login::files(|name| std::env::var(name).ok());
    let kept = login::find(&files, &reference.registry)?;
    let login = match (kept, reference.ecr_region()) {
        (None, Some(region)) => Some(ecr_login(region)?),
        (kept, _) => kept,
    };
    Ok(Repository::new(reference, login, is_written))
}

/// Requests a login to this account's registry from AWS.
fn ecr_login(region: &str) -> Result<Login> {
    let runtime = tokio::runtime::Runtime::new().context("start the client")?;
    let settings = AwsSettings::read(|name| std::env::var(name).ok());
    let login = runtime.block_on(async {
        let aws = Aws::connect(region, &settings).await?;
        aws.registry_login().await
    });
    let login = login.with_context(|| format!("get a login for ECR in {region}"))?;
    Ok(Login {
        user: login.user,
        password: login.password,
    })
}
