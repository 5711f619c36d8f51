//! Questions about things that no stack of ours owns: file systems, EKS, zones, what Kubernetes left.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Aws, Call};
use super::pages::{params, strings};
use super::query::{CLASSIC_BALANCING, EC2, IAM, encode, entries, field, find, read, text};
use crate::cloud::CloudError;
use crate::template::CLUSTER_TAG;

type Answer<T> = Result<T, CloudError>;

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
    ) -> Answer<Value> {
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

    pub(super) async fn find_file_systems(&self, cluster: &str) -> Answer<Vec<String>> {
        let (mut found, mut marker) = (Vec::new(), String::new());
        for _ in 0..100 {
            let path = if marker.is_empty() {
                format!("{FILES}/file-systems")
            } else {
                format!("{FILES}/file-systems?Marker={}", encode(&marker))
            };
            let action = "elasticfilesystem:DescribeFileSystems";
            let answer = self
                .rest(action, "elasticfilesystem", Method::GET, path)
                .await?;
            found.extend(own_file_systems(&answer, cluster));
            marker = answer["NextMarker"].as_str().unwrap_or_default().to_owned();
            if marker.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    pub(super) async fn remove_file_system(&self, id: &str) -> Answer<()> {
        let path = format!("{FILES}/file-systems/{}", encode(id));
        let action = "elasticfilesystem:DeleteFileSystem";
        self.rest(action, "elasticfilesystem", Method::DELETE, path)
            .await
            .map(drop)
    }

    pub(super) async fn count_mount_targets(&self, file_system: &str) -> Answer<usize> {
        let path = format!("{FILES}/mount-targets?FileSystemId={}", encode(file_system));
        let action = "elasticfilesystem:DescribeMountTargets";
        let answer = self
            .rest(action, "elasticfilesystem", Method::GET, path)
            .await?;
        Ok(answer["MountTargets"].as_array().map_or(0, Vec::len))
    }

    pub(super) async fn offered_versions(&self) -> Answer<Vec<(String, String)>> {
        let path = "/cluster-versions".to_owned();
        let action = "eks:DescribeClusterVersions";
        let answer = self.rest(action, "eks", Method::GET, path).await?;
        let versions = answer["clusterVersions"].as_array().into_iter().flatten();
        Ok(versions
            .map(|entry| {
                let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                let status = Some(text("versionStatus")).filter(|status| !status.is_empty());
                (
                    text("clusterVersion"),
                    status
                        .unwrap_or_else(|| text("status"))
                        .to_ascii_uppercase(),
                )
            })
            .collect())
    }

    pub(super) async fn has_eks_cluster(&self, name: &str) -> Answer<bool> {
        let path = format!("/clusters/{}", encode(name));
        exists(
            self.rest("eks:DescribeCluster", "eks", Method::GET, path)
                .await,
        )
    }

    pub(super) async fn has_role(&self, name: &str) -> Answer<bool> {
        exists(
            self.query(IAM, "GetRole", &params(&[("RoleName", name)]))
                .await,
        )
    }

    pub(super) async fn zone_name(&self, id: &str) -> Answer<Option<String>> {
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

    pub(super) async fn count_network(&self) -> Answer<(usize, usize)> {
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
        Ok((vpcs, addresses))
    }

    pub(super) async fn find_leftover_groups(&self, cluster: &str) -> Answer<Vec<String>> {
        let tag = format!("tag:kubernetes.io/cluster/{cluster}");
        let asked = params(&[("Filter.1.Name", &tag), ("Filter.1.Value.1", "owned")]);
        self.pages((EC2, "DescribeSecurityGroups"), &asked, |root| {
            entries(root, "securityGroupInfo")
                .into_iter()
                .map(|node| field(node, "groupId"))
                .collect()
        })
        .await
    }

    /// Names of the classic load balancers in a VPC; none of our stacks makes one.
    pub(super) async fn find_classic_load_balancers(&self, vpc: &str) -> Answer<Vec<String>> {
        self.pages((CLASSIC_BALANCING, "DescribeLoadBalancers"), &[], |root| {
            let all = entries(root, "LoadBalancerDescriptions").into_iter();
            all.filter(|node| field(*node, "VPCId") == vpc)
                .map(|node| field(node, "LoadBalancerName"))
                .collect()
        })
        .await
    }

    pub(super) async fn let_key_go(&self, arn: &str) -> Answer<()> {
        let body = json!({"KeyId": arn, "PendingWindowInDays": 7});
        self.json("kms", "TrentService.ScheduleKeyDeletion", &body)
            .await
            .map(drop)
    }
}

fn exists<T>(answer: Answer<T>) -> Answer<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ids in a list of file systems that carry the cluster's tag and are not on their way out.
fn own_file_systems(answer: &Value, cluster: &str) -> Vec<String> {
    let own = |system: &&Value| {
        let tags = system["Tags"].as_array().into_iter().flatten();
        let ours = |tag: &Value| tag["Key"] == CLUSTER_TAG && tag["Value"] == cluster;
        let going = ["deleting", "deleted"].map(Value::from);
        tags.into_iter().any(ours) && !going.contains(&system["LifeCycleState"])
    };
    let all = answer["FileSystems"].as_array().into_iter().flatten();
    let own = all.filter(own).cloned().collect::<Vec<_>>();
    strings(&json!({"own": own}), "own", "FileSystemId")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_ours_by_tag_and_only_while_they_stay() {
        let system = |id: &str, value: &str, state: &str| {
            json!({"FileSystemId": id, "LifeCycleState": state,
                   "Tags": [{"Key": "Name", "Value": "x"}, {"Key": CLUSTER_TAG, "Value": value}]})
        };
        let answer = json!({"FileSystems": [
            system("fs-1", "demo", "available"),
            system("fs-2", "other", "available"),
            system("fs-3", "demo", "deleting"),
            {"FileSystemId": "fs-4", "LifeCycleState": "available"},
        ]});
        assert_eq!(own_file_systems(&answer, "demo"), ["fs-1"]);
        assert!(own_file_systems(&Value::Null, "demo").is_empty());
    }
}
