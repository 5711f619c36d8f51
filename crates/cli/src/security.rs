//! The job's secret and keys: from the environment and from files, never from arguments that others can read.

use anyhow::Context;
use wire::Token;
use wire::tls::{ClientTls, Identity, ServerTls};

use crate::flags::Flags;

/// The environment variable that carries the job token.
pub const TOKEN_VARIABLE: &str = "CANOE_JOB_TOKEN";

/// The name that every server's certificate must carry.
const SERVER_NAME: &str = "canoe-pserver";

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

/// Keys of a trainer, if the command line names an authority.
pub fn client_tls(flags: &Flags) -> anyhow::Result<Option<ClientTls>> {
    let Some(authority) = read(flags, "tls_ca")? else {
        return Ok(None);
    };
    let identity = identity(flags)?;
    Ok(Some(ClientTls::new(
        &authority,
        SERVER_NAME,
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
