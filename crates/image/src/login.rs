//! Finds names and passwords for registries in the files of Docker and Podman.
//!
//! A file lists passwords (`auths`, base64) or names a program that keeps them (`credHelpers` per registry, `credsStore` for all).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::ImageError;

/// A user name and password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name.
    pub user: String,
    /// Password or token.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(hidden)")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
}

/// The files in which a login may be; the first one with a login counts. `get` returns an environment variable.
pub fn files(get: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let path = |name: &str, rest: &str| get(name).map(|folder| Path::new(&folder).join(rest));
    [
        get("REGISTRY_AUTH_FILE").map(PathBuf::from),
        path("XDG_RUNTIME_DIR", "containers/auth.json"),
        path("DOCKER_CONFIG", "config.json"),
        path("HOME", ".docker/config.json"),
        path("HOME", ".config/containers/auth.json"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The login for a registry, if one is kept.
pub fn find(files: &[PathBuf], registry: &str) -> Result<Option<Login>, ImageError> {
    for path in files {
        let Ok(text) = fs::read(path) else { continue };
        let config: Config =
            serde_json::from_slice(&text).map_err(|error| ImageError::Strange {
                what: path.display().to_string(),
                reason: error.to_string(),
            })?;
        if let Some(login) = of(&config, registry)? {
            return Ok(Some(login));
        }
    }
    Ok(None)
}

/// Docker Hub has an address of its own in these files.
fn keys(registry: &str) -> Vec<String> {
    match registry {
        "docker.io" => [
            "https://index.docker.io/v1/",
            "docker.io",
            "index.docker.io",
        ]
        .map(str::to_owned)
        .to_vec(),
        other => vec![other.to_owned(), format!("https://{other}")],
    }
}

fn of(config: &Config, registry: &str) -> Result<Option<Login>, ImageError> {
    for key in keys(registry) {
        if let Some(helper) = config.cred_helpers.get(&key) {
            return ask(helper, &key).map(Some);
        }
        let auth = config.auths.get(&key).and_then(|auth| auth.auth.as_ref());
        if let Some(login) = auth.and_then(|auth| decode(auth)) {
            return Ok(Some(login));
        }
        if let (Some(helper), true) = (&config.creds_store, config.auths.contains_key(&key)) {
            return ask(helper, &key).map(Some);
        }
    }
    Ok(None)
}

fn decode(auth: &str) -> Option<Login> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Login {
        user: user.to_owned(),
        password: password.trim_end_matches('\0').to_owned(),
    })
}

/// Runs `docker-credential-HELPER get`, which reads the registry's name and writes JSON.
fn ask(helper: &str, registry: &str) -> Result<Login, ImageError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Reply {
        username: String,
        secret: String,
    }
    let failed = |reason: String| ImageError::Helper {
        helper: helper.to_owned(),
        registry: registry.to_owned(),
        reason,
    };
    let mut child = Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        let told = input.write_all(registry.as_bytes());
        told.map_err(|error| failed(error.to_string()))?;
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        return Err(failed(said));
    }
    let reply: Reply =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(Login {
        user: reply.username,
        password: reply.secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_found_where_docker_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let auth = STANDARD.encode("me:se:cret");
        fs::write(
            &path,
            format!(r#"{{"auths": {{"r.example": {{"auth": "{auth}"}}, "https://index.docker.io/v1/": {{"auth": "{auth}"}}, "empty.example": {{}}}}}}"#),
        )
        .unwrap();
        let files = [folder.path().join("none"), path.clone()];
        let found = find(&files, "r.example").unwrap().unwrap();
        assert_eq!(
            (found.user.as_str(), found.password.as_str()),
            ("me", "se:cret")
        );
        assert!(find(&files, "docker.io").unwrap().is_some());
        assert_eq!(find(&files, "empty.example").unwrap(), None);
        assert_eq!(find(&files, "other.example").unwrap(), None);
        assert_eq!(format!("{found:?}"), "Login(hidden)");
        fs::write(&path, "{").unwrap();
        assert!(find(&files, "r.example").is_err());
        fs::write(&path, r#"{"credHelpers": {"r.example": "no-such-helper"}}"#).unwrap();
        let error = find(&files, "r.example").unwrap_err().to_string();
        assert!(
            error.contains("docker-credential-no-such-helper"),
            "{error}"
        );
    }

    #[test]
    fn the_usual_files() {
        let get = |name: &str| (name != "REGISTRY_AUTH_FILE").then(|| format!("/{name}"));
        let found = files(get);
        assert_eq!(found[0], Path::new("/XDG_RUNTIME_DIR/containers/auth.json"));
        assert!(found.contains(&PathBuf::from("/HOME/.docker/config.json")));
    }
}
