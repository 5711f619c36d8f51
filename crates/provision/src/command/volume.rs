//! What lies on the cluster's volume: the models that jobs saved, with their sizes.
//!
//! A small pod mounts the claim and looks; it is removed again. [`models`] is all that `down` needs to
//! know; whoever brings results home later begins with the same list.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::api_server::{ApiServer, ApiServerError};
use super::{Sink, Talk, counted};
use crate::manifests::CLAIM;
use crate::ownership::fresh_id;
use crate::spec::ClusterSpec;

/// Begin of the name of the pod that looks; the rest is made up, so that no pod of others has it.
const POD: &str = "canoe-look";
/// Namespace of the claim.
const NAMESPACE: &str = "default";
/// Used when no pod of the cluster shows an image that is there already.
const IMAGE: &str = "public.ecr.aws/docker/library/busybox:stable";
/// Prints the size in KiB and the path of every pass directory.
const SCRIPT: &str = "cd /files && find . -type d -name 'pass-[0-9]*' -prune -exec du -sk {} +";

/// The passes that one job saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedModel {
    /// Directory of its passes on the volume.
    pub directory: String,
    /// Number of passes.
    pub passes: usize,
    /// Name of the last one.
    pub last: String,
    /// Size of all of them.
    pub kib: u64,
}

/// Says which models are on the volume and how they are fetched, or why that is not known. Returns whether there
/// may be some.
pub(crate) async fn tell(api: &ApiServer, spec: &ClusterSpec, sink: &mut impl Sink) -> bool {
    let models = match models(api, spec).await {
        Ok(models) => models,
        Err(error) => {
            let words = format!("what is on the volume is not known: {error}");
            sink.talk(Talk::Warning(words));
            return true;
        }
    };
    let verb = if models.len() == 1 { "is" } else { "are" };
    let count = counted(models.len(), "model");
    sink.talk(Talk::Step(format!("{count} {verb} on the volume")));
    for model in &models {
        sink.talk(Talk::Detail(line(model)));
        if let Some(command) = fetch_command(model, api.kubeconfig()) {
            sink.talk(Talk::Detail(format!("  {command} brings it here")));
        }
    }
    !models.is_empty()
}

/// The command that brings a model home, if its place on the volume is that of a job.
fn fetch_command(model: &SavedModel, kubeconfig: &Path) -> Option<String> {
    let job = model.directory.strip_suffix("/output")?;
    let (name, kubeconfig) = (words::shell::word(job), words::shell::word(kubeconfig));
    (!job.contains('/')).then(|| format!("canoe job get {name} --kubeconfig {kubeconfig}"))
}

fn line(model: &SavedModel) -> String {
    let SavedModel {
        directory,
        passes,
        last,
        kib,
    } = model;
    let size = size(*kib);
    format!(
        "{directory}: {}, {last} is the last, {size}",
        counted(*passes, "pass")
    )
}

/// A size in KiB for people.
#[allow(
    clippy::cast_precision_loss,
    reason = "one digit after the point is shown"
)]
fn size(kib: u64) -> String {
    let kib = kib as f64;
    match kib {
        _ if kib < 1024.0 => format!("{kib} KiB"),
        _ if kib < 1024.0 * 1024.0 => format!("{:.1} MiB", kib / 1024.0),
        _ => format!("{:.1} GiB", kib / 1024.0 / 1024.0),
    }
}

/// The models on the volume, by directory.
pub(crate) async fn models(
    api: &ApiServer,
    spec: &ClusterSpec,
) -> Result<Vec<SavedModel>, ApiServerError> {
    let pods = api.list::<Pod>().await?;
    let name = format!("{POD}-{}", &fresh_id()[..8]);
    let pod = pod(&name, image(&pods).unwrap_or(IMAGE), spec.storage.uid);
    let look = async {
        api.apply(&[pod]).await?;
        api.ended(NAMESPACE, &name).await?;
        api.printed(NAMESPACE, &name, None).await
    };
    let listed = look.await;
    let removed = api.remove::<Pod>(NAMESPACE, &name).await;
    let found = found(&listed?);
    removed?;
    Ok(found)
}

/// Image of a pod that uses the claim: the machines have it already.
fn image(pods: &[Pod]) -> Option<&str> {
    let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
    let mut users = specs.filter(|spec| {
        let volumes = spec.volumes.iter().flatten();
        let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.any(|claim| claim.claim_name == CLAIM)
    });
    users.find_map(|spec| spec.containers.first()?.image.as_deref())
}

fn pod(name: &str, image: &str, user: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "canoe"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsUser": user, "runAsGroup": user, "runAsNonRoot": true},
            "containers": [{
                "name": "look",
                "image": image,
                "command": ["sh", "-c", SCRIPT],
                "volumeMounts": [{"name": "files", "mountPath": "/files", "readOnly": true}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": true}}],
        },
    })
}

/// Reads lines of `du`: a size in KiB, a tab, `./JOB/output/pass-00003`. Others are passed over.
fn found(listed: &str) -> Vec<SavedModel> {
    let mut passes: Vec<(&str, &str, u64)> = listed
        .lines()
        .filter_map(|line| {
            let (kib, path) = line.split_once('\t')?;
            let (directory, pass) = path.rsplit_once('/')?;
            let directory = directory.trim_start_matches("./");
            Some((directory, pass, kib.trim().parse().ok()?))
        })
        .collect();
    passes.sort_unstable();
    let mut models: Vec<SavedModel> = Vec::new();
    for (directory, pass, kib) in passes {
        match models.last_mut() {
            Some(model) if model.directory == directory => {
                model.passes += 1;
                model.last = pass.to_owned();
                model.kib = model.kib.saturating_add(kib);
            }
            _ => models.push(SavedModel {
                directory: directory.to_owned(),
                passes: 1,
                last: pass.to_owned(),
                kib,
            }),
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::api_server::ApiDouble;

    #[test]
    fn passes_are_gathered_by_job() {
        let listed = "12\t./b/output/pass-00001\n2048\t./a/output/pass-00002\n8\t./b/output/pass-00000\nfind: oops\nx\t./c\n";
        let lines: Vec<String> = found(listed).iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "a/output: 1 pass, pass-00002 is the last, 2.0 MiB",
                "b/output: 2 passes, pass-00001 is the last, 20 KiB",
            ]
        );
        let commands: Vec<Option<String>> = found(listed)
            .iter()
            .map(|model| fetch_command(model, Path::new("demo/kubeconfig")))
            .collect();
        let first = "canoe job get a --kubeconfig demo/kubeconfig";
        assert_eq!(commands[0].as_deref(), Some(first));
        let spaced = fetch_command(&found(listed)[0], Path::new("my cluster/kubeconfig"));
        assert!(
            spaced
                .unwrap()
                .ends_with("--kubeconfig 'my cluster/kubeconfig'")
        );
        let elsewhere = found("1\t./x/y/output/pass-00000\n1\t./pass-00000\n");
        let path = Path::new("kubeconfig");
        assert!(
            elsewhere
                .iter()
                .all(|model| fetch_command(model, path).is_none())
        );
        assert!(found("").is_empty());
        assert_eq!(size(3 << 20), "3.0 GiB");
    }

    /// A pod of others that was called `canoe-look` would have been changed, and deleted.
    #[tokio::test]
    async fn the_pod_that_looks_has_a_name_of_its_own_and_is_removed() {
        let server = ApiDouble::start().await;
        server.prints("2048\t./train/output/pass-00000\n");
        let spec = ClusterSpec::new("demo", "us-west-2");
        for _ in 0..2 {
            let found = models(&server.api(), &spec).await.unwrap();
            assert_eq!(found[0].directory, "train/output");
        }
        let pods = "/api/v1/namespaces/default/pods/";
        let made: Vec<String> = server
            .asked()
            .iter()
            .filter_map(|asked| {
                asked
                    .strip_prefix("PATCH ")?
                    .strip_prefix(pods)
                    .map(str::to_owned)
            })
            .collect();
        assert_eq!(made.len(), 2);
        assert_ne!(made[0], made[1]);
        assert!(
            made.iter().all(|name| name.len() == POD.len() + 9),
            "{made:?}"
        );
        assert_eq!(server.names(pods), Vec::<String>::new());
    }

    /// It was waited for until the patience of kubectl was over, although it had failed at once.
    #[tokio::test]
    async fn a_pod_that_fails_is_told_at_once_and_removed() {
        let server = ApiDouble::start().await;
        server.pods_end("Failed");
        let begun = std::time::Instant::now();
        let error = models(&server.api(), &ClusterSpec::new("demo", "us-west-2")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("is Failed after"), "{error}");
        assert!(begun.elapsed().as_secs() < 30);
        assert_eq!(
            server.names("/api/v1/namespaces/default/pods/"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn looks_with_an_image_that_is_there() {
        let pods: Vec<Pod> = serde_json::from_value(json!([
            {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "dns"}]}},
            {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "canoe:1"}],
                      "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "canoe-files"}}]}},
        ]))
        .unwrap();
        assert_eq!(image(&pods), Some("canoe:1"));
        assert_eq!(image(&[]), None);
    }
}
