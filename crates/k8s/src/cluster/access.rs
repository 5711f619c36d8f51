//! Finds the cluster and the user's credentials in the kubeconfig files that the caller names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::client::{Cluster, makes_tokens};
use super::error::ClusterError;

/// The kubeconfig files, and a choice among their contexts. Files are merged; earlier ones win, missing ones are ignored.
#[derive(Debug, Clone)]
pub struct ClusterAccess {
    /// Kubeconfig files.
    pub kubeconfigs: Vec<PathBuf>,
    /// The context, if not the current one.
    pub context: Option<String>,
    /// How long the server may take for one response; logs and commands in pods have no limit.
    pub request_timeout: Duration,
    /// The path of this program, which makes tokens for clusters of `canoe cluster`: their kubeconfig may name an old
    /// path.
    pub program: Option<PathBuf>,
}

impl ClusterAccess {
    /// The namespace of the context; `None` if it names none, or if there is no kubeconfig.
    pub fn namespace(&self) -> Option<String> {
        let config = self.read().ok()?;
        let current = self.context.clone().or(config.current_context)?;
        let named = config
            .contexts
            .into_iter()
            .find(|context| context.name == current)?;
        named
            .context?
            .namespace
            .filter(|namespace| !namespace.is_empty())
    }

    /// Whether there is a kubeconfig at all.
    pub fn is_configured(&self) -> bool {
        self.kubeconfigs.iter().any(|path| path.exists())
    }

    /// A client for the cluster. Login programs of the kubeconfig run here; the server is not asked yet.
    pub async fn connect(&self) -> Result<Cluster, ClusterError> {
        let kubeconfig = self.read()?;
        let known: Vec<String> = kubeconfig
            .contexts
            .iter()
            .map(|context| context.name.clone())
            .collect();
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|source| self.unusable(source, &known))?;
        if let (Some(program), Some(login)) = (&self.program, &mut config.auth_info.exec) {
            run_here(login, program);
        }
        // Retries are made by `Cluster::ask`, which knows the time limit of the whole request.
        config.default_retry = false;
        config.connect_timeout = Some(self.request_timeout);
        Cluster::new(config, self.request_timeout)
    }

    fn read(&self) -> Result<Kubeconfig, ClusterError> {
        let mut whole: Option<Kubeconfig> = None;
        for path in self.kubeconfigs.iter().filter(|path| path.exists()) {
            let read = Kubeconfig::read_from(path).map_err(|source| unreadable(path, source))?;
            whole = Some(match whole {
                None => read,
                Some(before) => before
                    .merge(read)
                    .map_err(|source| unreadable(path, source))?,
            });
        }
        whole.ok_or_else(|| ClusterError::NoKubeconfig {
            looked: self.kubeconfigs.clone(),
        })
    }

    fn unusable(&self, source: KubeconfigError, known: &[String]) -> ClusterError {
        match source {
            KubeconfigError::LoadContext(context) => ClusterError::NoContext {
                context,
                known: known.to_vec(),
            },
            KubeconfigError::CurrentContextNotSet => ClusterError::NoContext {
                context: String::new(),
                known: known.to_vec(),
            },
            source => {
                let used = self.kubeconfigs.iter().filter(|path| path.exists());
                let first = used.clone().next().cloned().unwrap_or_default();
                unreadable(&first, source)
            }
        }
    }
}

/// Puts this program in the place of a canoe that a kubeconfig names, and that may have been moved or removed since.
fn run_here(login: &mut ExecConfig, program: &Path) {
    let named = login.command.as_deref().map(Path::new);
    let is_canoe = named
        .and_then(Path::file_name)
        .is_some_and(|name| name == "canoe");
    if is_canoe && makes_tokens(login) {
        login.command = Some(program.display().to_string());
    }
}

fn unreadable(path: &Path, source: KubeconfigError) -> ClusterError {
    let path = path.to_owned();
    match source {
        KubeconfigError::Parse(cause) => {
            // Only the first line of a parser's message is for users.
            let cause = cause.to_string();
            let cause = cause.split(['\n', ';']).next().unwrap_or_default();
            let cause = cause.to_owned();
            ClusterError::NotKubeconfig { path, cause }
        }
        source => ClusterError::Kubeconfig {
            path,
            source: Box::new(source),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn access(folder: &Path, context: Option<&str>) -> ClusterAccess {
        ClusterAccess {
            kubeconfigs: vec![
                folder.join("missing"),
                folder.join("one"),
                folder.join("two"),
            ],
            context: context.map(str::to_owned),
            request_timeout: Duration::from_secs(1),
            program: None,
        }
    }

    fn write(folder: &Path, file: &str, namespace: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {file}\nclusters: [{{name: {file}, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
             users: [{{name: {file}, user: {{token: t}}}}]\ncontexts: [{{name: {file}, context: {{cluster: {file}, user: {file}{namespace}}}}}]\n"
        );
        fs::write(folder.join(file), text).unwrap();
    }

    #[tokio::test]
    async fn files_are_merged_and_the_namespace_of_the_context_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one", ", namespace: team-a");
        write(folder.path(), "two", "");
        let first = access(folder.path(), None);
        assert_eq!(first.namespace().as_deref(), Some("team-a"));
        assert_eq!(first.connect().await.unwrap().namespace(), "team-a");
        let second = access(folder.path(), Some("two"));
        assert_eq!(second.namespace(), None);
        assert_eq!(second.connect().await.unwrap().namespace(), "default");
    }

    #[tokio::test]
    async fn what_is_missing_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let error = access(folder.path(), None).connect().await.err().unwrap();
        let text = error.to_string();
        assert!(
            text.contains("there is no kubeconfig") && text.contains("--kubeconfig"),
            "{text}"
        );
        write(folder.path(), "one", "");
        let error = access(folder.path(), Some("lab"))
            .connect()
            .await
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "the kubeconfig has no context \"lab\"; it has: one"
        );
        fs::write(folder.path().join("one"), "clusters: 7\n").unwrap();
        let error = access(folder.path(), None).connect().await.err().unwrap();
        assert!(
            matches!(error, ClusterError::NotKubeconfig { .. }),
            "{error}"
        );
        for text in ["not: [a", "just words", "", "{}"] {
            fs::write(folder.path().join("one"), text).unwrap();
            let error = access(folder.path(), None).connect().await.err().unwrap();
            let error = error.to_string();
            assert!(
                !error.contains("Option") && error.contains("--kubeconfig"),
                "{text:?}: {error}"
            );
            assert_eq!(error.lines().count(), 1, "{text:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_login_program_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one", "");
        let path = folder.path().join("one");
        let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-login, interactiveMode: Never}";
        let text = fs::read_to_string(&path).unwrap().replace("token: t", exec);
        fs::write(&path, text).unwrap();
        let error = access(folder.path(), None).connect().await.err().unwrap();
        let text = error.to_string();
        assert!(
            text.contains("no-such-login") && text.contains("install it"),
            "{text}"
        );
    }

    /// A kubeconfig names the canoe that wrote it by its whole path; after an update in another place nobody could log in.
    #[tokio::test]
    async fn this_program_makes_tokens_in_the_place_of_the_canoe_that_wrote_the_kubeconfig() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("new-canoe");
        let script = "#!/bin/sh\necho run >> \"$0.runs\"\n[ \"$1 $2\" = 'cluster token' ] && echo '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"t\"}}'\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for (command, arguments, works) in [
            ("/gone/canoe", "cluster, token, --name, demo", true),
            ("canoe", "cluster, token, --name, demo", true),
            ("/gone/canoe", "job, list", false),
            ("/gone/others", "cluster, token", false),
        ] {
            write(folder.path(), "one", "");
            let path = folder.path().join("one");
            let exec = format!(
                "exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}, args: [{arguments}], interactiveMode: Never}}"
            );
            let text = fs::read_to_string(&path)
                .unwrap()
                .replace("token: t", &exec);
            fs::write(&path, text).unwrap();
            let access = ClusterAccess {
                program: Some(program.clone()),
                ..access(folder.path(), None)
            };
            let connected = access.connect().await;
            assert_eq!(connected.is_ok(), works, "{command} {arguments}");
            // It was run three times, and whoever types a code for it typed three.
            let runs = fs::read_to_string(folder.path().join("new-canoe.runs")).unwrap_or_default();
            assert_eq!(
                runs.lines().count(),
                usize::from(works),
                "{command} {arguments}"
            );
            drop(fs::remove_file(folder.path().join("new-canoe.runs")));
            if let Err(error) = connected {
                assert!(matches!(error, ClusterError::Login { .. }), "{error}");
                assert!(!error.to_string().contains("EXEC_INFO"), "{error}");
            }
        }
    }
}
