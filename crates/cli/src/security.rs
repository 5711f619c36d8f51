//! Reads the job's token and certificates: from the environment and from files, never from arguments that others can read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use run::local::plan::{RUN_VARIABLE, TOKEN_VARIABLE};
use wire::Token;
use wire::tls::{ClientTls, Identity, ServerTls};

use crate::flags::Flags;

/// Whether the connections of a process leave this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only processes of this machine.
    Loopback,
    /// Other machines.
    Network,
}

impl Reach {
    /// The reach of these hosts: addresses, or names of which only `localhost` is known to be this machine.
    pub(crate) fn of<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let local = |host: &str| {
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        };
        let mut hosts = hosts.into_iter().peekable();
        if hosts.peek().is_some() && hosts.all(local) {
            Reach::Loopback
        } else {
            Reach::Network
        }
    }
}

/// The job token from the environment. Without one, processes that only talk over loopback share a secret of the user
/// who started them, as v1's scripts for one machine need it; over a network there is no job without a token.
pub(crate) fn token(reach: Reach) -> anyhow::Result<Token> {
    let text = match (std::env::var(TOKEN_VARIABLE), reach) {
        (Ok(text), _) => text,
        (Err(_), Reach::Loopback) => own_secret()?,
        (Err(_), Reach::Network) => anyhow::bail!(
            "{TOKEN_VARIABLE} is not set: all processes of a job share a secret (canoe run and canoe job create one; to set it yourself: export {TOKEN_VARIABLE}=$(openssl rand -hex 32); processes that only use loopback, with --nics=lo and --pservers=127.0.0.1, need none)"
        ),
    };
    Token::new(text.as_bytes())
        .with_context(|| format!("{TOKEN_VARIABLE} is too short; use at least 8 bytes"))
}

/// The secret of this user on this machine, in a file that no other user can read; created when it is first needed.
fn own_secret() -> anyhow::Result<String> {
    let base = crate::caches::folder().with_context(|| {
        format!(
            "{TOKEN_VARIABLE} and HOME are not set: there is no place for a secret of this user"
        )
    })?;
    secret_in(&base.join("canoe")).with_context(|| {
        format!("{TOKEN_VARIABLE} is not set, and the secret of this user cannot be used")
    })
}

fn secret_in(directory: &Path) -> anyhow::Result<String> {
    let path = directory.join("loopback-token");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("create {}", directory.display()))?;
    // Processes that start together use the same secret: only the first link is created, and it appears with its
    // contents.
    if !path.exists() {
        let draft = directory.join(format!(".{}", run::local::token::generate()?));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .with_context(|| format!("write {}", draft.display()))?;
        file.write_all(run::local::token::generate()?.as_bytes())?;
        let linked = std::fs::hard_link(&draft, &path);
        std::fs::remove_file(&draft)?;
        if let Err(error) = linked
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(error).with_context(|| format!("write {}", path.display()));
        }
    }
    let found = std::fs::symlink_metadata(&path)?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_file() || found.uid() != user || found.mode() & 0o077 != 0 {
        anyhow::bail!(
            "{} must be a file that only you can read; remove it",
            path.display()
        );
    }
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// A name for the run that the token belongs to, the same in all its processes; it does not reveal the token.
pub(crate) fn run_name(token: &Token) -> String {
    if let Ok(name) = std::env::var(RUN_VARIABLE) {
        return name;
    }
    token.name()[..16].to_owned()
}

/// How long the note about the end of a run is valid; a later process with the same token belongs to another run.
const JUST_FINISHED: Duration = Duration::from_secs(600);

/// Whether servers have just noted that all trainers of this run are done: a restarted process has nothing to do then.
/// Returns the message for that case.
pub(crate) fn just_finished(flags: &Flags) -> anyhow::Result<Option<String>> {
    let Some(mark) = finished_mark(flags)? else {
        return Ok(None);
    };
    let written = std::fs::metadata(&mark).and_then(|mark| mark.modified());
    let age = written.ok().and_then(|at| at.elapsed().ok());
    Ok(age.filter(|age| *age < JUST_FINISHED).map(|_| {
        format!(
            "the job has already finished; to run it again with the same token, remove {}",
            mark.display()
        )
    }))
}

/// Notes that all trainers of this run are done.
pub(crate) fn mark_finished(flags: &Flags) -> anyhow::Result<()> {
    let Some(mark) = finished_mark(flags)? else {
        return Ok(());
    };
    let directory = mark.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&mark, "done"))
        .with_context(|| format!("write {}", mark.display()))
}

/// A file next to the snapshots, named after the run.
fn finished_mark(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let directory = flags.text("snapshot_dir");
    // All runs of a user share the user's secret, so a file named after it would not identify one run.
    if directory.is_empty() || std::env::var_os(TOKEN_VARIABLE).is_none() {
        return Ok(None);
    }
    let name = format!("finished-{}", run_name(&token(Reach::Network)?));
    Ok(Some(Path::new(directory).join(name)))
}

/// Certificates of a trainer, if the command line names an authority.
pub(crate) fn client_tls(flags: &Flags) -> anyhow::Result<Option<ClientTls>> {
    let Some(authority) = read(flags, "tls_ca")? else {
        return Ok(None);
    };
    let identity = identity(flags)?;
    let name = words::process::SERVER_NAME;
    let tls = ClientTls::new(&authority, name, identity.as_ref());
    Ok(Some(tls.with_context(|| tls_files(flags))?))
}

/// Certificates of a server, if the command line names one; with an authority, trainers must show theirs.
pub(crate) fn server_tls(flags: &Flags) -> anyhow::Result<Option<ServerTls>> {
    let Some(identity) = identity(flags)? else {
        return Ok(None);
    };
    let authority = read(flags, "tls_ca")?;
    let tls = ServerTls::new(&identity, authority.as_deref());
    Ok(Some(tls.with_context(|| tls_files(flags))?))
}

/// The message about files that cannot be used for TLS, with what each of them must contain.
fn tls_files(flags: &Flags) -> String {
    let [authority, certificate, key] =
        ["tls_ca", "tls_cert", "tls_key"].map(|name| flags.text(name));
    format!(
        "these files cannot be used for TLS: --tls_ca={authority} (PEM of the authority), --tls_cert={certificate} (PEM of \
         the certificate) and --tls_key={key} (PEM of the key that the certificate was made for; docs/security.md makes all three)"
    )
}

fn identity(flags: &Flags) -> anyhow::Result<Option<Identity>> {
    let (certificate, key) = (read(flags, "tls_cert")?, read(flags, "tls_key")?);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity {
            certificates: certificate,
            key,
        })),
        (None, None) => Ok(None),
        _ => anyhow::bail!("--tls_cert and --tls_key must be given together"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_needs_no_token() {
        assert_eq!(
            Reach::of(["127.0.0.1", "localhost", "[::1]"]),
            Reach::Loopback
        );
        for hosts in [&["127.0.0.1", "10.0.0.1"][..], &["0.0.0.0"], &["host"], &[]] {
            assert_eq!(
                Reach::of(hosts.iter().copied()),
                Reach::Network,
                "{hosts:?}"
            );
        }
    }

    #[test]
    fn the_secret_of_a_user_is_made_once_and_is_the_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("canoe");
        let secrets: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| secret_in(&below))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.map(Result::unwrap).collect()
        });
        let secret = secret_in(&below).unwrap();
        assert!(secret.len() >= 32 && secrets.iter().all(|other| *other == secret));
        let file = below.join("loopback-token");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = secret_in(&below).unwrap_err().to_string();
        assert!(error.contains("only you can read"), "{error}");
    }
}
