//! The job's secret and keys: from the environment and from files, never from arguments that others can read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use launch::local::plan::TOKEN_VARIABLE;
use wire::Token;
use wire::tls::{ClientTls, Identity, ServerTls};

use crate::flags::Flags;

/// The job token from the environment.
pub fn token() -> anyhow::Result<Token> {
    let text = std::env::var(TOKEN_VARIABLE).with_context(|| {
        format!(
            "{TOKEN_VARIABLE} is not set: all processes of a job share a secret (canoe run and canoe job make one; by hand: export {TOKEN_VARIABLE}=$(openssl rand -hex 32))"
        )
    })?;
    Token::new(text.as_bytes())
        .with_context(|| format!("{TOKEN_VARIABLE} is too short: 8 bytes at least"))
}

/// A name for the run that the token belongs to, the same in all its processes; it does not give the token away.
pub fn run_name(token: &Token) -> String {
    token.client_proof("name", "of this run")[..16].to_owned()
}

/// How long the note about the end of a run counts; what comes later with the same token is another run.
const JUST_FINISHED: Duration = Duration::from_secs(600);

/// Whether servers have just noted that all trainers of this run are done: whoever is started again has nothing to do.
/// Answers what to say then.
pub fn just_finished(flags: &Flags) -> anyhow::Result<Option<String>> {
    let Some(mark) = finished_mark(flags)? else {
        return Ok(None);
    };
    let written = std::fs::metadata(&mark).and_then(|mark| mark.modified());
    let age = written.ok().and_then(|at| at.elapsed().ok());
    Ok(age.filter(|age| *age < JUST_FINISHED).map(|_| {
        format!(
            "the job has finished already; to run it again with the same token, remove {}",
            mark.display()
        )
    }))
}

/// Notes that all trainers of this run are done.
pub fn mark_finished(flags: &Flags) -> anyhow::Result<()> {
    let Some(mark) = finished_mark(flags)? else {
        return Ok(());
    };
    let directory = mark.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&mark, "done"))
        .with_context(|| format!("write {}", mark.display()))
}

/// A file beside the snapshots, named after the run.
fn finished_mark(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let directory = flags.text("snapshot_dir");
    if directory.is_empty() {
        return Ok(None);
    }
    let name = format!("finished-{}", run_name(&token()?));
    Ok(Some(Path::new(directory).join(name)))
}

/// Keys of a trainer, if the command line names an authority.
pub fn client_tls(flags: &Flags) -> anyhow::Result<Option<ClientTls>> {
    let Some(authority) = read(flags, "tls_ca")? else {
        return Ok(None);
    };
    let identity = identity(flags)?;
    Ok(Some(ClientTls::new(
        &authority,
        launch::k8s::credentials::SERVER_NAME,
        identity.as_ref(),
    )?))
}

/// Keys of a server, if the command line names a certificate; with an authority, trainers must show theirs.
pub fn server_tls(flags: &Flags) -> anyhow::Result<Option<ServerTls>> {
    let Some(identity) = identity(flags)? else {
        return Ok(None);
    };
    let authority = read(flags, "tls_ca")?;
    Ok(Some(ServerTls::new(&identity, authority.as_deref())?))
}

fn identity(flags: &Flags) -> anyhow::Result<Option<Identity>> {
    let (certificate, key) = (read(flags, "tls_cert")?, read(flags, "tls_key")?);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity {
            certificates: certificate,
            key,
        })),
        (None, None) => Ok(None),
        _ => anyhow::bail!("--tls_cert and --tls_key go together"),
    }
}

fn read(flags: &Flags, name: &str) -> anyhow::Result<Option<String>> {
    match flags.text(name) {
        "" => Ok(None),
        path => std::fs::read_to_string(path)
            .with_context(|| format!("--{name}: read {path}"))
            .map(Some),
    }
}
