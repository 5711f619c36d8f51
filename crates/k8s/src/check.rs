//! Checks the values of a job file that its schema cannot check: names, counts, quantities.
//!
//! Refuses what an API server would refuse, or accept and never run. Reports all problems together, with
//! the keys of the job file.

use super::job::{Data, JobFile, Volume};
use run::node::pod::{HEALTH_PORT, PAGE_PORT};

/// The bucket of an address in an object store.
fn s3_bucket(text: &str) -> Option<&str> {
    let bucket = text.strip_prefix("s3://")?.split('/').next()?;
    Some(bucket).filter(|bucket| !bucket.is_empty())
}

/// All problems, as sentences that begin with the key; empty if there are none.
pub fn problems(job: &JobFile) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |is_wrong: bool, problem: String| {
        if is_wrong {
            found.push(problem);
        }
    };
    // A pod's host name is `<name>-<index>` and must be a label of 63 characters.
    check(
        !is_label(&job.name) || job.name.len() > 52,
        format!(
            "name: {:?} must be at most 52 lower-case letters, digits and '-', beginning with a letter and not ending with '-'",
            job.name
        ),
    );
    // An empty namespace means that of the kubeconfig's context.
    check(
        !job.namespace.is_empty() && !is_namespace(&job.namespace),
        format!("namespace: {:?} is not a DNS label", job.namespace),
    );
    check(
        job.create_namespace && (job.namespace == "default" || job.namespace.starts_with("kube-")),
        format!(
            "createNamespace: {} exists in every cluster, and others use it; name another namespace",
            job.namespace
        ),
    );
    for (field, value) in [
        ("retries", job.retries),
        ("ttlSeconds", job.ttl_seconds),
        ("graceSeconds", job.grace_seconds),
        ("user", job.user),
    ] {
        check(
            i32::try_from(value).is_err(),
            format!("{field}: {value} is larger than {}", i32::MAX),
        );
    }
    if let Volume::Claim { name } = &job.volume {
        check(
            !is_subdomain(name),
            format!(
                "volume.claim.name: no claim can be called {name:?}; lower-case letters, digits, '-' and '.' are allowed"
            ),
        );
    }
    if let Some(copies) = &job.copies {
        check(
            s3_bucket(&copies.to).is_none(),
            format!("copies.to: {:?} is not s3://BUCKET/PREFIX", copies.to),
        );
    }
    if let Some(queue) = &job.queue {
        check(
            !is_namespace(&queue.name),
            format!("queue.name: {:?} is not the name of a queue", queue.name),
        );
    }
    check(job.nodes == 0, "nodes: must be at least 1".to_owned());
    check(
        job.nodes > 1000,
        format!(
            "nodes: {} is more than the 1000 that one job can have",
            job.nodes
        ),
    );
    check(
        job.ports.dense == 0,
        "ports.dense: must be at least 1".to_owned(),
    );
    let last_port =
        u32::from(job.ports.first) + u32::from(job.ports.dense) + u32::from(job.ports.sparse);
    check(
        job.ports.first < 1024,
        format!(
            "ports.first: {} needs root; take 1024 or more",
            job.ports.first
        ),
    );
    check(
        last_port > 65_536,
        format!(
            "ports: the last of them would be {}",
            last_port.saturating_sub(1)
        ),
    );
    check(
        job.ports.dense + job.ports.sparse > 64,
        "ports: more than 64 for one server".to_owned(),
    );
    let health = u32::from(HEALTH_PORT);
    let overlaps = (u32::from(job.ports.first)..last_port).contains(&health);
    check(
        overlaps,
        format!("ports: {health} is the port of the probes; choose another first port"),
    );
    if let Some(metrics) = &job.metrics {
        let port = u32::from(metrics.port);
        let is_taken = (u32::from(job.ports.first)..last_port).contains(&port)
            || [HEALTH_PORT, PAGE_PORT].contains(&metrics.port);
        check(
            port < 1024 || is_taken,
            format!("metrics.port: {port} is in use by the node or needs root; choose another"),
        );
        let names = metrics.from.iter();
        let mut unnamed = names.filter(|name| *name != "*" && !is_namespace(name));
        check(
            metrics.from.is_empty() || unnamed.next().is_some(),
            "metrics.from: names of namespaces are expected, or \"*\" for all".to_owned(),
        );
    }
    check(
        job.patience_seconds == 0,
        "patienceSeconds: must be at least 1".to_owned(),
    );
    check(
        job.trainer_count == 0,
        "trainerCount: must be at least 1".to_owned(),
    );
    check(
        !is_image(job.pod_image()),
        format!(
            "{}: {:?} is not a name of an image; it has the form [registry/]name[:tag] or [registry/]name@sha256:(64 digits), with lower-case letters in name and digest",
            if job.image.is_some() {
                "image"
            } else {
                "pythonImage"
            },
            job.pod_image()
        ),
    );
    check(
        !matches!(
            job.image_pull_policy.as_deref(),
            None | Some("Always" | "IfNotPresent" | "Never")
        ),
        format!(
            "imagePullPolicy: {:?} is not Always, IfNotPresent or Never",
            job.image_pull_policy.as_deref().unwrap_or_default()
        ),
    );
    check(
        job.user == 0,
        "user: 0 is root, which restricted pod security refuses".to_owned(),
    );
    check(
        job.grace_seconds < 15,
        format!(
            "graceSeconds: {} is too short for a snapshot; take 15 or more",
            job.grace_seconds
        ),
    );
    for (field, value) in quantities(job) {
        check(
            !is_quantity(value),
            format!("{field}: {value:?} is not a quantity such as 500m, 2 or 4Gi"),
        );
    }
    for (field, value) in paths(job) {
        check(
            !is_inside(value),
            format!("{field}: {value:?} must be a path inside the job folder"),
        );
    }
    for toleration in &job.tolerations {
        let operator = toleration.operator.as_deref();
        check(
            !matches!(operator, None | Some("Exists" | "Equal")),
            format!("tolerations: operator {operator:?} is not Exists or Equal"),
        );
        check(
            operator == Some("Exists") && toleration.value.is_some(),
            "tolerations: Exists takes no value".to_owned(),
        );
        check(
            operator != Some("Exists") && toleration.key.is_none(),
            "tolerations: without a key the operator must be Exists".to_owned(),
        );
        let effect = toleration.effect.as_deref();
        check(
            !matches!(
                effect,
                None | Some("NoSchedule" | "PreferNoSchedule" | "NoExecute")
            ),
            format!(
                "tolerations: effect {effect:?} is not NoSchedule, PreferNoSchedule or NoExecute"
            ),
        );
    }
    if let Some(Data {
        sha256: Some(sum), ..
    }) = &job.data
    {
        let right = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        check(
            !right,
            format!("data.sha256: {sum:?} is not 64 hexadecimal digits"),
        );
    }
    if let Some(Data { url: Some(url), .. }) = &job.data {
        let schemes = ["https://", "http://", "s3://"];
        check(
            !schemes.iter().any(|scheme| url.starts_with(scheme)),
            format!("data.url: {url:?} is not an address of the form https://… or s3://…"),
        );
    }
    found
}

fn quantities(job: &JobFile) -> Vec<(&'static str, &str)> {
    let mut all = vec![
        ("resources.cpu", job.resources.cpu.as_str()),
        ("resources.memory", job.resources.memory.as_str()),
        ("resources.disk", job.resources.disk.as_str()),
    ];
    match &job.volume {
        Volume::Claim { .. } => {}
        Volume::Nfs { size, .. } | Volume::Efs { size, .. } | Volume::StorageClass { size, .. } => {
            all.push(("volume.size", size));
        }
    }
    all
}

fn paths(job: &JobFile) -> Vec<(&'static str, &str)> {
    let config = job.config.as_deref().map(|path| ("config", path));
    let folder = job.config_dir.as_deref().map(|path| ("configDir", path));
    config.into_iter().chain(folder).collect()
}

/// A relative path that does not climb out.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

/// RFC 1123: may begin with a digit.
fn is_namespace(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// RFC 1123, with dots: the names of most objects.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_namespace)
}

/// RFC 1035: a Service of this name is made too, and that must begin with a letter.
pub(crate) fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
}

/// Kubernetes' numbers: decimal, with an optional suffix.
pub(crate) fn is_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let suffix = &text[digits.len()..];
    let number = digits.split_once('.').map_or((digits, "0"), |parts| parts);
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let suffixes = [
        "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    numeric(number.0)
        && numeric(number.1)
        && suffixes.contains(&suffix)
        && digits.bytes().any(|byte| byte != b'0' && byte != b'.')
}

/// A quantity in thousandths.
pub(crate) fn amount(quantity: &str) -> Option<u128> {
    let digits = quantity.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit: u128 = match &quantity[digits.len()..] {
        "m" => 1,
        "" => 1000,
        suffix => {
            let power = "kMGTPE"
                .find(suffix.chars().next()?.to_ascii_uppercase())
                .or(suffix.starts_with(['k', 'K']).then_some(0))?;
            let base: u128 = if suffix.ends_with('i') { 1024 } else { 1000 };
            1000 * base.pow(u32::try_from(power).ok()? + 1)
        }
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let number: u128 = format!("{whole}{part}").parse().ok()?;
    number.checked_mul(unit).map(|amount| amount / scale)
}

/// A name of an image that a container runtime takes: `[host[:port]/]path[:tag][@digest]`, with a path of lower-case letters.
fn is_image(name: &str) -> bool {
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    // Container runtimes refuse every other digest method, and digests of another length.
    let digest_is_right = digest.is_none_or(|digest| {
        [("sha256:", 64), ("sha384:", 96), ("sha512:", 128)]
            .iter()
            .filter_map(|(method, length)| Some((digest.strip_prefix(method)?, length)))
            .any(|(hash, length)| hash.len() == *length && hash.bytes().all(is_digit))
    });
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let in_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let tag_is_right = tag.is_none_or(|tag| {
        !tag.is_empty()
            && tag.len() <= 128
            && !tag.starts_with(['.', '-'])
            && tag.bytes().all(in_tag)
    });
    let mut parts: Vec<&str> = path.split('/').collect();
    let first = parts[0];
    let is_host =
        first.contains(['.', ':']) || first == "localhost" || first != first.to_ascii_lowercase();
    if parts.len() > 1 && is_host {
        let in_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if !first.bytes().all(in_host) {
            return false;
        }
        parts.remove(0);
    }
    let in_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part_is_right = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(in_part)
            && !part.starts_with(['.', '_', '-'])
            && !part.ends_with(['.', '_', '-'])
    };
    digest_is_right && tag_is_right && parts.iter().all(part_is_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Toleration;

    fn job() -> JobFile {
        JobFile::new(
            "paddle-cluster-job",
            Volume::Claim {
                name: "efsvol".into(),
            },
        )
    }

    #[test]
    fn a_plain_job_has_no_problems() {
        assert_eq!(problems(&job()), Vec::<String>::new());
    }

    #[test]
    fn a_claim_that_cannot_exist_is_named() {
        for (name, is_right) in [("efs.vol-1", true), ("Bad_claim", false), ("", false)] {
            let mut job = job();
            job.volume = Volume::Claim { name: name.into() };
            let told = problems(&job).concat();
            assert_eq!(told.is_empty(), is_right, "{told}");
            assert!(is_right || told.contains(&format!("no claim can be called {name:?}")));
        }
    }

    #[test]
    fn every_wrong_value_is_named_and_all_at_once() {
        let mut wrong = job();
        wrong.name = "Paddle_Job".into();
        wrong.namespace = "a.b".into();
        wrong.nodes = 0;
        wrong.ports.dense = 0;
        wrong.ports.first = 80;
        wrong.trainer_count = 0;
        wrong.image = Some(" ".into());
        wrong.resources.memory = "4 GB".into();
        wrong.config_dir = Some("../other".into());
        wrong.config = Some("/etc/passwd".into());
        wrong.data = Some(Data {
            url: Some("ftp://x".into()),
            sha256: Some("12".into()),
            ..Data::default()
        });
        wrong.tolerations = vec![Toleration {
            key: None,
            operator: Some("Like".into()),
            value: None,
            effect: Some("Stay".into()),
        }];
        let text = problems(&wrong).join("\n");
        for start in [
            "name: ",
            "namespace: ",
            "nodes: ",
            "ports.dense: ",
            "ports.first: ",
            "trainerCount: ",
            "image: ",
            "resources.memory: ",
            "configDir: ",
            "config: ",
            "data.url: ",
            "data.sha256: ",
            "tolerations: operator",
            "tolerations: effect",
        ] {
            assert!(text.contains(start), "{start} is missing in\n{text}");
        }
    }

    #[test]
    fn names_leave_room_for_the_index() {
        let mut long = job();
        long.name = "a".repeat(52);
        assert_eq!(problems(&long), Vec::<String>::new());
        long.name = "a".repeat(53);
        assert_eq!(problems(&long).len(), 1);
        for name in ["", "-a", "a-", "1a", "A", "a_b", "a.b"] {
            assert!(!is_label(name), "{name}");
        }
    }

    #[test]
    fn ports_end_at_65535() {
        let mut last = job();
        last.ports.first = 65_532;
        assert_eq!(problems(&last), Vec::<String>::new());
        last.ports.first = 65_533;
        assert_eq!(problems(&last), ["ports: the last of them would be 65536"]);
    }

    #[test]
    fn quantities() {
        for right in ["1", "500m", "0.5", "4Gi", "100M", "2k"] {
            assert!(is_quantity(right), "{right}");
        }
        for wrong in [
            "", "0", "4GB", "4 Gi", "-1", "1.", ".5", "Gi", "1e3x", "0.0", "1.2.3",
        ] {
            assert!(!is_quantity(wrong), "{wrong}");
        }
    }
    #[test]
    fn names_of_images() {
        let digest = "0123456789abcdef".repeat(4);
        for right in [
            format!("registry.example/canoe@sha256:{digest}"),
            format!("python@sha256:{digest}"),
            format!("canoe:1@sha256:{digest}"),
            format!("canoe@sha512:{digest}{digest}"),
        ] {
            assert!(is_image(&right), "{right}");
        }
        for wrong in [
            format!("python@{digest}"),
            format!("python@sha256:{}", &digest[1..]),
            format!("python@sha256:{}", digest.to_ascii_uppercase()),
            format!("python@sha512:{digest}"),
            format!("python@md5:{}", &digest[32..]),
            format!("python@sha256:{digest}@sha256:{digest}"),
        ] {
            assert!(!is_image(&wrong), "{wrong}");
        }
        for right in [
            "canoe:0.1.0",
            "library/canoe",
            "localhost:5000/canoe:9.9",
            "Registry.Example/team/canoe_a.b-c",
        ] {
            assert!(is_image(right), "{right}");
        }
        for wrong in [
            "",
            " canoe",
            "UPPER/Bad:tag",
            "Registry.Example/Canoe:0.1.0",
            "Canoe",
            "canoe:",
            "a//b",
            "canoe:-x",
            "canoe@sha256:12",
            "-canoe",
        ] {
            assert!(!is_image(wrong), "{wrong}");
        }
    }
}
