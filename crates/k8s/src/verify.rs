//! Checks that the objects of a job agree in names, labels, ports and claims, which no API server does.
//!
//! An API server accepts a Job whose subdomain has no Service, whose claim does not exist or whose
//! NetworkPolicy blocks its own ports; the job then waits for ever. It also accepts, with only a warning,
//! a Job whose pods the namespace's pod security will refuse.

use std::collections::BTreeSet;

use serde_json::Value;

/// All contradictions, as sentences. `existing_claims` are claims that exist and need not be rendered.
pub fn problems(objects: &[Value], existing_claims: &[&str]) -> Vec<String> {
    let mut verifier = Verifier {
        objects,
        problems: Vec::new(),
    };
    verifier.unique_names();
    for job in verifier.of_kind("Job") {
        let name = text(job, "/metadata/name");
        verifier.pod_security(name, job);
        verifier.references(name, job, existing_claims);
        verifier.failure_policy(name, job);
        if job.pointer("/spec/completionMode") == Some(&Value::from("Indexed")) {
            verifier.service(name, job);
            verifier.policy(name, job);
        }
    }
    verifier.shared_claims();
    verifier.problems
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

struct Verifier<'a> {
    objects: &'a [Value],
    problems: Vec<String>,
}

impl<'a> Verifier<'a> {
    fn of_kind(&self, kind: &str) -> Vec<&'a Value> {
        self.objects
            .iter()
            .filter(|object| text(object, "/kind") == kind)
            .collect()
    }

    fn find(&self, kind: &str, name: &str) -> Option<&'a Value> {
        self.of_kind(kind)
            .into_iter()
            .find(|object| text(object, "/metadata/name") == name)
    }

    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    fn unique_names(&mut self) {
        let mut seen = BTreeSet::new();
        for object in self.objects {
            let key = (
                text(object, "/kind"),
                text(object, "/metadata/namespace"),
                text(object, "/metadata/name"),
            );
            if !seen.insert(key) {
                self.problem(format!("{} {} is there twice", key.0, key.2));
            }
        }
    }

    /// Claims, config maps, secrets and accounts that a pod names.
    fn references(&mut self, job: &str, object: &Value, existing_claims: &[&str]) {
        for volume in list(object, "/spec/template/spec/volumes") {
            for (pointer, kind) in [
                ("/persistentVolumeClaim/claimName", "PersistentVolumeClaim"),
                ("/configMap/name", "ConfigMap"),
                ("/secret/secretName", "Secret"),
            ] {
                let name = text(volume, pointer);
                let exists = kind == "PersistentVolumeClaim" && existing_claims.contains(&name);
                if !name.is_empty() && !exists && self.find(kind, name).is_none() {
                    self.problem(format!(
                        "Job {job} mounts {kind} {name}, which is not rendered"
                    ));
                }
            }
            let map = self.find("ConfigMap", text(volume, "/configMap/name"));
            for item in list(volume, "/configMap/items") {
                let key = text(item, "/key");
                let holds = |part: &str| map.is_some_and(|map| map[part].get(key).is_some());
                if !holds("data") && !holds("binaryData") {
                    self.problem(format!(
                        "Job {job} mounts key {key:?} of a ConfigMap that has none"
                    ));
                }
            }
        }
        let account = text(object, "/spec/template/spec/serviceAccountName");
        // The data job's account is the user's own: one with a role for the bucket.
        let is_training = text(object, "/spec/completionMode") == "Indexed";
        let is_missing = self.find("ServiceAccount", account).is_none();
        if is_training && !account.is_empty() && is_missing {
            self.problem(format!(
                "Job {job} runs as ServiceAccount {account}, which is not rendered"
            ));
        }
        self.mounts(job, object);
    }

    fn mounts(&mut self, job: &str, object: &Value) {
        let names: BTreeSet<&str> = list(object, "/spec/template/spec/volumes")
            .iter()
            .map(|volume| text(volume, "/name"))
            .collect();
        for container in containers(object) {
            for mount in list(container, "/volumeMounts") {
                let name = text(mount, "/name");
                if !names.contains(name) {
                    self.problem(format!(
                        "Job {job} mounts volume {name}, which its pod does not have"
                    ));
                }
            }
        }
    }

    /// The headless Service must give the pods of an Indexed Job the names that nodes expect.
    fn service(&mut self, job: &str, object: &Value) {
        let subdomain = text(object, "/spec/template/spec/subdomain");
        let Some(service) = self.find("Service", subdomain) else {
            return self.problem(format!(
                "Job {job} has subdomain {subdomain:?}, but there is no Service of that name"
            ));
        };
        if subdomain != job {
            self.problem(format!(
                "Job {job} has subdomain {subdomain}, but nodes look for {job}-<i>.{job}"
            ));
        }
        if text(service, "/spec/clusterIP") != "None" {
            self.problem(format!(
                "Service {subdomain} is not headless, so pods get no names"
            ));
        }
        if service.pointer("/spec/publishNotReadyAddresses") != Some(&Value::from(true)) {
            self.problem(format!(
                "Service {subdomain} hides pods until they are ready, but they wait for each other"
            ));
        }
        if !selects(&service["spec"]["selector"], object) {
            self.problem(format!(
                "Service {subdomain} does not select the pods of Job {job}"
            ));
        }
        if text(service, "/metadata/namespace") != text(object, "/metadata/namespace") {
            self.problem(format!(
                "Service {subdomain} and Job {job} are in different namespaces"
            ));
        }
    }

    /// A policy that selects the job's pods must let its ports in and out, its metrics in, and DNS out.
    fn policy(&mut self, job: &str, object: &Value) {
        // The kubelet sends its probes from the machine itself, which policies cannot block.
        let data = ports(object, |name| !matches!(name, "health" | "metrics"));
        let told = ports(object, |name| name == "metrics");
        for policy in self.of_kind("NetworkPolicy") {
            let name = text(policy, "/metadata/name");
            if !selects(&policy["spec"]["podSelector"]["matchLabels"], object) {
                self.problem(format!(
                    "NetworkPolicy {name} does not select the pods of Job {job}"
                ));
                continue;
            }
            for direction in ["ingress", "egress"] {
                let open: BTreeSet<u64> = list(policy, &format!("/spec/{direction}"))
                    .iter()
                    .flat_map(|rule| list(rule, "/ports"))
                    .filter_map(|port| port["port"].as_u64())
                    .collect();
                let ingress_only = told.iter().filter(|_| direction == "ingress");
                for port in data
                    .iter()
                    .chain(ingress_only)
                    .filter(|port| !open.contains(port))
                {
                    self.problem(format!(
                        "NetworkPolicy {name} has no {direction} for port {port} of Job {job}"
                    ));
                }
                if direction == "egress" && !open.contains(&53) {
                    self.problem(format!("NetworkPolicy {name} lets no DNS out"));
                }
            }
        }
    }

    fn failure_policy(&mut self, job: &str, object: &Value) {
        let names: BTreeSet<&str> = containers(object)
            .iter()
            .map(|container| text(container, "/name"))
            .collect();
        for rule in list(object, "/spec/podFailurePolicy/rules") {
            let name = text(rule, "/onExitCodes/containerName");
            if !name.is_empty() && !names.contains(name) {
                self.problem(format!(
                    "the failure policy of Job {job} names container {name}, which does not exist"
                ));
            }
        }
        if text(object, "/spec/template/spec/restartPolicy") != "Never"
            && object.pointer("/spec/podFailurePolicy").is_some()
        {
            self.problem(format!(
                "Job {job} has a failure policy, which needs restartPolicy Never"
            ));
        }
    }

    /// The demands of the restricted pod security standard: a Job that violates it is accepted and never gets a pod.
    fn pod_security(&mut self, job: &str, object: &Value) {
        let spec = &object["spec"]["template"]["spec"];
        for host in ["hostNetwork", "hostPID", "hostIPC"] {
            if spec[host] == true {
                self.problem(format!(
                    "Job {job} sets {host}, which restricted pod security refuses"
                ));
            }
        }
        let pod = &spec["securityContext"];
        for container in containers(object) {
            let name = text(container, "/name");
            let own = &container["securityContext"];
            let either = |field: &str| {
                if own[field].is_null() {
                    &pod[field]
                } else {
                    &own[field]
                }
            };
            let checks = [
                (either("runAsNonRoot") == true, "runAsNonRoot"),
                (either("runAsUser") != 0, "runAsUser other than 0"),
                (
                    own["allowPrivilegeEscalation"] == false,
                    "allowPrivilegeEscalation: false",
                ),
                (
                    list(own, "/capabilities/drop").contains(&Value::from("ALL")),
                    "capabilities.drop: [ALL]",
                ),
                (own["privileged"] != true, "privileged: false"),
                (
                    text(either("seccompProfile"), "/type") == "RuntimeDefault",
                    "seccompProfile RuntimeDefault",
                ),
                (
                    list(container, "/ports")
                        .iter()
                        .all(|port| port["hostPort"].is_null()),
                    "no hostPort",
                ),
            ];
            for (holds, what) in checks {
                if !holds {
                    self.problem(format!("container {name} of Job {job} lacks {what}, so restricted pod security refuses it"));
                }
            }
        }
        for volume in list(spec, "/volumes") {
            if !volume["hostPath"].is_null() {
                self.problem(format!(
                    "Job {job} mounts a hostPath, which restricted pod security refuses"
                ));
            }
        }
    }

    /// All nodes write to the claim, wherever they run; a claim must be bound to the volume that is made for it.
    fn shared_claims(&mut self) {
        for kind in ["PersistentVolume", "PersistentVolumeClaim"] {
            for object in self.of_kind(kind) {
                if !list(object, "/spec/accessModes").contains(&Value::from("ReadWriteMany")) {
                    let name = text(object, "/metadata/name");
                    self.problem(format!(
                        "{kind} {name} is not ReadWriteMany, so only one machine can mount it"
                    ));
                }
            }
        }
        for claim in self.of_kind("PersistentVolumeClaim") {
            let (name, volume) = (
                text(claim, "/metadata/name"),
                text(claim, "/spec/volumeName"),
            );
            let bound = self
                .find("PersistentVolume", volume)
                .map(|volume| text(volume, "/spec/claimRef/name"));
            if !volume.is_empty() && bound != Some(name) {
                self.problem(format!(
                    "PersistentVolumeClaim {name} wants volume {volume}, which is not kept for it"
                ));
            }
        }
    }
}

fn containers(job: &Value) -> Vec<&Value> {
    [
        "/spec/template/spec/initContainers",
        "/spec/template/spec/containers",
    ]
    .iter()
    .flat_map(|pointer| list(job, pointer))
    .collect()
}

/// Every label of the selector is on the pods of the Job.
fn selects(selector: &Value, job: &Value) -> bool {
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    selector.as_object().is_some_and(|selector| {
        !selector.is_empty()
            && selector
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// The ports on which nodes talk to each other; that of the probes is not one of them.
/// The ports of a Job's containers whose names are right.
fn ports(job: &Value, is_right: impl Fn(&str) -> bool) -> BTreeSet<u64> {
    containers(job)
        .iter()
        .flat_map(|container| list(container, "/ports"))
        .filter(|port| is_right(text(port, "/name")))
        .filter_map(|port| port["containerPort"].as_u64())
        .collect()
}
