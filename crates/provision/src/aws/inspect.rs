//! Questions about things that no stack of ours owns: file systems, EKS, zones, what Kubernetes left.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Aws, Call};
use super::pages::{Tokens, params};
use super::query::{CLASSIC_BALANCING, EC2, IAM, encode, entries, field, find, read, tags, text};
use time::OffsetDateTime;

use crate::cloud::{CloudError, NetworkUse, Offer, PolicyView};
use crate::ownership::{Tags, Thing};
use crate::statuses::FileSystemState;

type CloudResult<T> = Result<T, CloudError>;

/// Versions that a managed policy can have.
const MOST_VERSIONS: usize = 5;

/// Path of EFS's interface.
const FILES: &str = "/2015-02-01";

impl Aws {
    /// A call of the path-and-JSON kind (EKS, EFS).
    async fn rest(
        &self,
        action: &str,
        service: &str,
        method: Method,
        path: String,
    ) -> CloudResult<Value> {
        let call = Call {
            action,
            service,
            method,
            path,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let answer = text(action, self.send(call).await?)?;
        if answer.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer).map_err(|error| CloudError::Unreadable {
            action: action.to_owned(),
            reason: error.to_string(),
        })
    }

    pub(super) async fn find_file_systems(&self) -> CloudResult<Vec<Thing>> {
        let (mut found, mut tokens) = (Vec::new(), Tokens::default());
        let action = "elasticfilesystem:DescribeFileSystems";
        loop {
            let path = format!("{FILES}/file-systems{}", tokens.query("?Marker="));
            let answer = self
                .rest(action, "elasticfilesystem", Method::GET, path)
                .await?;
            found.extend(staying_file_systems(&answer));
            let next = answer["NextMarker"].as_str().unwrap_or_default();
            if !tokens.follow(action, next.to_owned())? {
                return Ok(found);
            }
        }
    }

    pub(super) async fn remove_file_system(&self, id: &str) -> CloudResult<()> {
        let path = format!("{FILES}/file-systems/{}", encode(id));
        let action = "elasticfilesystem:DeleteFileSystem";
        self.rest(action, "elasticfilesystem", Method::DELETE, path)
            .await
            .map(drop)
    }

    pub(super) async fn count_mount_targets(&self, file_system: &str) -> CloudResult<usize> {
        let (mut count, mut tokens) = (0, Tokens::default());
        let action = "elasticfilesystem:DescribeMountTargets";
        loop {
            let id = encode(file_system);
            let more = tokens.query("&Marker=");
            let path = format!("{FILES}/mount-targets?FileSystemId={id}{more}");
            let answer = self
                .rest(action, "elasticfilesystem", Method::GET, path)
                .await?;
            count += answer["MountTargets"].as_array().map_or(0, Vec::len);
            let next = answer["NextMarker"].as_str().unwrap_or_default();
            if !tokens.follow(action, next.to_owned())? {
                return Ok(count);
            }
        }
    }

    pub(super) async fn offered_versions(&self) -> CloudResult<Vec<Offer>> {
        let (mut all, mut tokens) = (Vec::new(), Tokens::default());
        let action = "eks:DescribeClusterVersions";
        loop {
            let path = format!("/cluster-versions{}", tokens.query("?nextToken="));
            let answer = self.rest(action, "eks", Method::GET, path).await?;
            all.extend(versions(&answer));
            let next = answer["nextToken"].as_str().unwrap_or_default();
            if !tokens.follow(action, next.to_owned())? {
                return Ok(all);
            }
        }
    }

    pub(super) async fn eks_cluster_version(&self, name: &str) -> CloudResult<Option<String>> {
        let path = format!("/clusters/{}", encode(name));
        let action = "eks:DescribeCluster";
        match self.rest(action, "eks", Method::GET, path).await {
            Ok(answer) => {
                let version = answer["cluster"]["version"].as_str();
                Ok(Some(version.unwrap_or_default().to_owned()))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn default_addon_version(
        &self,
        addon: &str,
        kubernetes: &str,
    ) -> CloudResult<Option<String>> {
        let action = "eks:DescribeAddonVersions";
        let mut tokens = Tokens::default();
        loop {
            let more = tokens.query("&nextToken=");
            let (addon, kubernetes) = (encode(addon), encode(kubernetes));
            let path = format!(
                "/addons/supported-versions?addonName={addon}&kubernetesVersion={kubernetes}{more}"
            );
            let answer = self.rest(action, "eks", Method::GET, path).await?;
            if let Some(version) = default_version(&answer) {
                return Ok(Some(version));
            }
            let next = answer["nextToken"].as_str().unwrap_or_default();
            if !tokens.follow(action, next.to_owned())? {
                return Ok(None);
            }
        }
    }

    pub(super) async fn find_role(&self, name: &str) -> CloudResult<Option<String>> {
        let asked = params(&[("RoleName", name)]);
        match self.query(IAM, "GetRole", &asked).await {
            Ok(xml) => read("iam:GetRole", &xml, |root| {
                find(root, "Role").map(|role| field(role, "Arn"))
            }),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn has_instance_profile(&self, name: &str) -> CloudResult<bool> {
        let asked = params(&[("InstanceProfileName", name)]);
        match self.query(IAM, "GetInstanceProfile", &asked).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn find_policy(&self, arn: &str) -> CloudResult<Option<PolicyView>> {
        match self
            .query(IAM, "GetPolicy", &params(&[("PolicyArn", arn)]))
            .await
        {
            Ok(xml) => read("iam:GetPolicy", &xml, |root| {
                let policy = find(root, "Policy").unwrap_or(root);
                Some(PolicyView {
                    tags: tags(policy),
                    version: field(policy, "DefaultVersionId"),
                })
            }),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The document of a version, which comes percent-encoded.
    pub(super) async fn find_policy_document(
        &self,
        arn: &str,
        version: &str,
    ) -> CloudResult<String> {
        let asked = params(&[("PolicyArn", arn), ("VersionId", version)]);
        let xml = self.query(IAM, "GetPolicyVersion", &asked).await?;
        read("iam:GetPolicyVersion", &xml, |root| {
            let version = find(root, "PolicyVersion").unwrap_or(root);
            decoded(&field(version, "Document"))
        })
    }

    /// A managed policy has five versions at most, so the oldest makes room.
    pub(super) async fn replace_policy(&self, arn: &str, document: &str) -> CloudResult<()> {
        let asked = params(&[("PolicyArn", arn)]);
        let mut old: Vec<String> = self
            .pages((IAM, "ListPolicyVersions"), &asked, |root| {
                let all = entries(root, "Versions").into_iter();
                all.filter(|node| field(*node, "IsDefaultVersion") != "true")
                    .map(|node| field(node, "VersionId"))
                    .collect()
            })
            .await?;
        old.sort_by_key(|version| version.trim_start_matches('v').parse::<u32>().unwrap_or(0));
        if let Some(oldest) = old.first().filter(|_| old.len() >= MOST_VERSIONS - 1) {
            let asked = params(&[("PolicyArn", arn), ("VersionId", oldest)]);
            self.query(IAM, "DeletePolicyVersion", &asked).await?;
        }
        let asked = params(&[
            ("PolicyArn", arn),
            ("PolicyDocument", document),
            ("SetAsDefault", "true"),
        ]);
        self.query(IAM, "CreatePolicyVersion", &asked)
            .await
            .map(drop)
    }

    pub(super) async fn find_vpc(&self, id: &str) -> CloudResult<Option<Tags>> {
        let asked = params(&[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", id)]);
        let found = self
            .pages((EC2, "DescribeVpcs"), &asked, |root| {
                entries(root, "vpcSet").into_iter().map(tags).collect()
            })
            .await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn zone_name(&self, id: &str) -> CloudResult<Option<String>> {
        let action = "route53:GetHostedZone";
        let call = Call {
            action,
            service: "route53",
            method: Method::GET,
            path: format!("/2013-04-01/hostedzone/{}", encode(id)),
            headers: Vec::new(),
            body: Vec::new(),
        };
        match self.send(call).await {
            Ok(reply) => read(action, &text(action, reply)?, |root| {
                let zone = find(root, "HostedZone").unwrap_or(root);
                Some(field(zone, "Name").trim_end_matches('.').to_owned())
            }),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn count_network(&self) -> CloudResult<NetworkUse> {
        let vpcs = self
            .pages((EC2, "DescribeVpcs"), &[], |root| {
                vec![(); entries(root, "vpcSet").len()]
            })
            .await?
            .len();
        let addresses = self.query(EC2, "DescribeAddresses", &[]).await?;
        let addresses = read("ec2:DescribeAddresses", &addresses, |root| {
            entries(root, "addressesSet").len()
        })?;
        Ok(NetworkUse { vpcs, addresses })
    }

    /// Log groups with their tags, page by page.
    pub(super) async fn find_log_groups(&self, prefix: &str) -> CloudResult<Vec<Thing>> {
        let (mut found, mut tokens) = (Vec::new(), Tokens::default());
        let target = "Logs_20140328.DescribeLogGroups";
        loop {
            let mut body = json!({"logGroupNamePrefix": prefix});
            if let Some(token) = tokens.get() {
                body["nextToken"] = json!(token);
            }
            let answer = self.json("logs", target, &body).await?;
            for group in answer["logGroups"].as_array().into_iter().flatten() {
                let text = |key: &str| group[key].as_str().unwrap_or_default();
                let asked = json!({"resourceArn": text("arn").trim_end_matches(":*")});
                let tags = "Logs_20140328.ListTagsForResource";
                let tags = self.json("logs", tags, &asked).await?;
                found.push(Thing {
                    id: text("logGroupName").to_owned(),
                    tags: serde_json::from_value(tags["tags"].clone()).unwrap_or_default(),
                });
            }
            let next = answer["nextToken"].as_str().unwrap_or_default();
            if !tokens.follow(target, next.to_owned())? {
                return Ok(found);
            }
        }
    }

    pub(super) async fn find_groups(&self, vpc: &str) -> CloudResult<Vec<Thing>> {
        let asked = params(&[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", vpc)]);
        self.pages((EC2, "DescribeSecurityGroups"), &asked, |root| {
            entries(root, "securityGroupInfo")
                .into_iter()
                .map(|node| Thing {
                    id: field(node, "groupId"),
                    tags: tags(node),
                })
                .collect()
        })
        .await
    }

    /// Names of the classic load balancers in a VPC; none of our stacks makes one.
    pub(super) async fn find_classic_load_balancers(&self, vpc: &str) -> CloudResult<Vec<String>> {
        self.pages((CLASSIC_BALANCING, "DescribeLoadBalancers"), &[], |root| {
            let all = entries(root, "LoadBalancerDescriptions").into_iter();
            all.filter(|node| field(*node, "VPCId") == vpc)
                .map(|node| field(node, "LoadBalancerName"))
                .collect()
        })
        .await
    }

    pub(super) async fn let_key_go(&self, arn: &str) -> CloudResult<()> {
        let body = json!({"KeyId": arn, "PendingWindowInDays": 7});
        self.json("kms", "TrentService.ScheduleKeyDeletion", &body)
            .await
            .map(drop)
    }
}

/// Text without its percent-encoding; a sequence that is none stays as it is.
fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The version that a response marks as the default; all of them are for one Kubernetes version.
fn default_version(answer: &Value) -> Option<String> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let versions = list(answer, "addons")
        .into_iter()
        .flat_map(|addon| list(&addon, "addonVersions"));
    let mut defaults = versions.filter(|version| {
        list(version, "compatibilities")
            .iter()
            .any(|entry| entry["defaultVersion"] == true)
    });
    let found = defaults.next()?;
    found["addonVersion"].as_str().map(str::to_owned)
}

/// Versions of Kubernetes in a response; older responses spell the support in small letters elsewhere.
fn versions(answer: &Value) -> Vec<Offer> {
    let all = answer["clusterVersions"].as_array().into_iter().flatten();
    all.map(|entry| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let status = Some(text("versionStatus")).filter(|status| !status.is_empty());
        let status = status.unwrap_or_else(|| text("status"));
        // Seconds since 1970, as every timestamp of this protocol.
        let ends = entry["endOfStandardSupportDate"].as_f64();
        #[allow(clippy::cast_possible_truncation, reason = "a day is enough")]
        let ends = ends.and_then(|at| OffsetDateTime::from_unix_timestamp(at as i64).ok());
        Offer {
            version: text("clusterVersion"),
            support: status.to_ascii_uppercase().into(),
            standard_ends: ends.map(OffsetDateTime::date),
        }
    })
    .collect()
}

/// File systems in a list that are not on their way out.
fn staying_file_systems(answer: &Value) -> Vec<Thing> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tags = |system: &Value| {
        let tags = system["Tags"].as_array().into_iter().flatten();
        tags.map(|tag| (text(&tag["Key"]), text(&tag["Value"])))
            .collect()
    };
    let stays = |system: &&Value| {
        let state = FileSystemState::from(text(&system["LifeCycleState"]));
        !matches!(state, FileSystemState::Deleting | FileSystemState::Deleted)
    };
    let all = answer["FileSystems"].as_array().into_iter().flatten();
    all.filter(stays)
        .map(|system| Thing {
            id: text(&system["FileSystemId"]),
            tags: tags(system),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{ID_TAG, own_ids};

    #[test]
    fn versions_and_defaults_are_read_as_eks_sends_them() {
        let answer = json!({"clusterVersions": [
            {"clusterVersion": "1.34", "versionStatus": "STANDARD_SUPPORT", "endOfStandardSupportDate": 1_796_169_600.0},
            {"clusterVersion": "1.36", "status": "standard-support"},
        ]});
        let found = versions(&answer);
        assert_eq!(found[0].standard_ends.unwrap().to_string(), "2026-12-02");
        assert_eq!(
            (found[1].version.as_str(), found[1].standard_ends),
            ("1.36", None)
        );
        let version = |name: &str, default: bool| json!({"addonVersion": name, "compatibilities": [{"clusterVersion": "1.35", "defaultVersion": default}]});
        let answer = json!({"addons": [{"addonName": "vpc-cni", "addonVersions": [version("v2", false), version("v1", true)]}]});
        assert_eq!(default_version(&answer).as_deref(), Some("v1"));
        assert_eq!(default_version(&json!({"addons": []})), None);
    }

    #[test]
    fn documents_of_policies_are_decoded() {
        assert_eq!(decoded("%7B%22a%22%3A%201%7D"), "{\"a\": 1}");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%C3%BC"), "%zzü");
    }

    #[test]
    fn file_systems_are_ours_by_id_and_only_while_they_stay() {
        let system = |id: &str, value: &str, state: &str| {
            json!({"FileSystemId": id, "LifeCycleState": state,
                   "Tags": [{"Key": "canoe:cluster", "Value": "demo"}, {"Key": ID_TAG, "Value": value}]})
        };
        let answer = json!({"FileSystems": [
            system("fs-1", "a", "available"),
            system("fs-2", "b", "available"),
            system("fs-3", "a", "deleting"),
            {"FileSystemId": "fs-4", "LifeCycleState": "available"},
        ]});
        let mut spec = crate::spec::ClusterSpec::new("demo", "us-west-2");
        assert!(own_ids(staying_file_systems(&answer), &spec).is_empty());
        spec.id = Some("a".to_owned());
        assert_eq!(own_ids(staying_file_systems(&answer), &spec), ["fs-1"]);
        assert!(staying_file_systems(&Value::Null).is_empty());
    }
}
