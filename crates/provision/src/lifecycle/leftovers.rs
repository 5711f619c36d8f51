//! What a sweep by tag finds after `down`: what costs money, what is free, what AWS forgets by itself.

use serde::Serialize;

/// What is left behind when a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Leftover {
    /// Nothing.
    Nothing,
    /// Things that `canoe cluster down` can still remove.
    Deletable,
    /// Things that no stack owns any more; they have to be removed by hand.
    Orphaned,
    /// AWS could not be asked.
    Unknown,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Nothing => "nothing is left behind",
            Self::Deletable => "the stack is left behind; `canoe cluster up` clears it, `canoe cluster down` removes it",
            Self::Orphaned => "things are left behind that no stack owns; `canoe cluster down` lists them",
            Self::Unknown => "what is left behind is not known; `canoe cluster status` looks",
        })
    }
}

/// One thing that is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remains {
    /// Its ARN.
    pub arn: String,
    /// What it is, in words.
    pub what: &'static str,
    /// Whether it costs money while it is there.
    pub costs: bool,
    /// What to do, empty when nothing is needed.
    pub remedy: String,
}

/// Service and kind of an ARN, what it is, whether it costs, the command that removes it.
const KINDS: &[(&str, &str, &str, bool, &str)] = &[
    (
        "ec2",
        "instance",
        "machine",
        true,
        "aws ec2 terminate-instances --instance-ids ID",
    ),
    (
        "ec2",
        "natgateway",
        "NAT gateway",
        true,
        "aws ec2 delete-nat-gateway --nat-gateway-id ID",
    ),
    (
        "ec2",
        "elastic-ip",
        "public address",
        true,
        "aws ec2 release-address --allocation-id ID",
    ),
    (
        "ec2",
        "volume",
        "disk",
        true,
        "aws ec2 delete-volume --volume-id ID",
    ),
    (
        "ec2",
        "snapshot",
        "disk snapshot",
        true,
        "aws ec2 delete-snapshot --snapshot-id ID",
    ),
    ("ec2", "vpc", "VPC", false, "aws ec2 delete-vpc --vpc-id ID"),
    (
        "ec2",
        "subnet",
        "subnet",
        false,
        "aws ec2 delete-subnet --subnet-id ID",
    ),
    (
        "ec2",
        "security-group",
        "security group",
        false,
        "aws ec2 delete-security-group --group-id ID",
    ),
    (
        "ec2",
        "network-interface",
        "network interface",
        false,
        "aws ec2 delete-network-interface --network-interface-id ID",
    ),
    (
        "ec2",
        "internet-gateway",
        "Internet gateway",
        false,
        "aws ec2 delete-internet-gateway --internet-gateway-id ID",
    ),
    (
        "ec2",
        "route-table",
        "route table",
        false,
        "aws ec2 delete-route-table --route-table-id ID",
    ),
    (
        "ec2",
        "launch-template",
        "launch template",
        false,
        "aws ec2 delete-launch-template --launch-template-id ID",
    ),
    (
        "ecr",
        "repository",
        "image repository",
        true,
        "aws ecr delete-repository --force --repository-name PATH",
    ),
    (
        "elasticfilesystem",
        "file-system",
        "file system",
        true,
        "aws efs delete-file-system --file-system-id ID",
    ),
    (
        "elasticfilesystem",
        "access-point",
        "access point",
        false,
        "aws efs delete-access-point --access-point-id ID",
    ),
    (
        "eks",
        "cluster",
        "EKS cluster",
        true,
        "aws eks delete-cluster --name ID",
    ),
    (
        "eks",
        "nodegroup",
        "node group",
        true,
        "aws eks delete-nodegroup --cluster-name FIRST --nodegroup-name SECOND",
    ),
    (
        "eks",
        "addon",
        "EKS add-on",
        false,
        "aws eks delete-addon --cluster-name FIRST --addon-name SECOND",
    ),
    (
        "elasticloadbalancing",
        "loadbalancer",
        "load balancer",
        true,
        "aws elbv2 delete-load-balancer --load-balancer-arn ARN",
    ),
    (
        "elasticloadbalancing",
        "targetgroup",
        "target group",
        false,
        "aws elbv2 delete-target-group --target-group-arn ARN",
    ),
    (
        "autoscaling",
        "autoScalingGroup",
        "auto-scaling group",
        true,
        "aws autoscaling delete-auto-scaling-group --force-delete --auto-scaling-group-name ID",
    ),
    (
        "logs",
        "log-group",
        "log group",
        true,
        "aws logs delete-log-group --log-group-name PATH",
    ),
    ("s3", "", "bucket", true, "aws s3 rb --force s3://ID"),
    (
        "iam",
        "role",
        "role",
        false,
        "aws iam delete-role --role-name ID",
    ),
    (
        "iam",
        "instance-profile",
        "instance profile",
        false,
        "aws iam delete-instance-profile --instance-profile-name ID",
    ),
    (
        "kms",
        "key",
        "key",
        true,
        "aws kms schedule-key-deletion --key-id ID",
    ),
    (
        "cloudformation",
        "stack",
        "stack",
        false,
        "run `canoe cluster down` again",
    ),
];

/// Says what an ARN is. Something unknown is taken to cost money.
pub fn classify(arn: &str) -> Remains {
    let mut parts = arn.splitn(6, ':');
    let service = parts.nth(2).unwrap_or_default();
    let region = parts.next().unwrap_or_default();
    let resource = parts.nth(1).unwrap_or_default();
    let kind = resource.split(['/', ':']).next().unwrap_or_default();
    let found = KINDS
        .iter()
        .find(|(s, k, ..)| *s == service && (k.is_empty() || *k == kind));
    match found {
        Some((_, _, what, costs, command)) => Remains {
            arn: arn.to_owned(),
            what,
            costs: *costs,
            remedy: match command.starts_with("aws ") {
                true => removal(command, arn, region, resource),
                false => (*command).to_owned(),
            },
        },
        None => Remains {
            arn: arn.to_owned(),
            what: "something unknown",
            costs: true,
            remedy: "look at it in the console".to_owned(),
        },
    }
}

/// The command, with its words in capitals filled in: the whole ARN; what stands after the kind in it (`PATH`), the parts of
/// that, and its last part (`ID`).
fn removal(command: &str, arn: &str, region: &str, resource: &str) -> String {
    let resource = resource.trim_end_matches(":*");
    let path = resource
        .split_once(['/', ':'])
        .map_or(resource, |(_, path)| path);
    let mut parts = path.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let id = resource.rsplit(['/', ':']).next().unwrap_or_default();
    let bucket = format!("s3://{id}");
    let mut words: Vec<&str> = command
        .split(' ')
        .map(|word| match word {
            "ARN" => arn,
            "PATH" => path,
            "FIRST" => first,
            "SECOND" => second.unwrap_or_default(),
            "ID" => id,
            "s3://ID" => &bucket,
            other => other,
        })
        .collect();
    if !region.is_empty() {
        words.extend(["--region", region]);
    }
    words::shell::line(words)
}

/// Splits what a sweep found into what the user meant to keep and what should not be there.
///
/// `kept` are ARNs or ids of things that stay on purpose (file system and key with `--keep-data`, a
/// key that waits for its deletion).
pub fn sort(found: &[String], kept: &[String]) -> (Vec<Remains>, Vec<Remains>) {
    let mut all: Vec<Remains> = found.iter().map(|arn| classify(arn)).collect();
    all.sort_by_key(|remains| (!remains.costs, remains.arn.clone()));
    all.dedup();
    all.into_iter().partition(|remains| {
        // A bucket's ARN has no slash before its name.
        let ends = |name: &String| {
            let places = ["/", ":::"].map(|before| format!("{before}{name}"));
            places.iter().any(|end| remains.arn.ends_with(end))
        };
        kept.iter().any(|name| remains.arn == *name || ends(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_costs_and_how_to_remove_it() {
        let nat = classify("arn:aws:ec2:us-west-2:123456789012:natgateway/nat-0abc");
        assert!(
            nat.costs
                && nat
                    .remedy
                    .ends_with("--nat-gateway-id nat-0abc --region us-west-2"),
            "{nat:?}"
        );
        let role = classify("arn:aws:iam::123456789012:role/demo-us-west-2-workers");
        assert!(!role.costs && role.remedy.ends_with("demo-us-west-2-workers"));
        assert_eq!(
            classify("arn:aws:s3:::canoe-demo").remedy,
            "aws s3 rb --force s3://canoe-demo"
        );
        assert!(classify("arn:aws:logs:us-west-2:1:log-group:/aws/eks/demo/cluster").costs);
        assert!(
            classify("arn:aws:newthing:us-west-2:1:thing/x").costs,
            "unknown things are reported as costly"
        );
        assert!(classify("nonsense").costs);
    }

    /// Some ended with `…`, and none named the region, so they looked for the thing elsewhere.
    #[test]
    fn every_command_can_be_copied() {
        for (arn, command) in [
            (
                "arn:aws:ecr:us-west-2:1:repository/canoe/demo",
                "aws ecr delete-repository --force --repository-name canoe/demo --region us-west-2",
            ),
            (
                "arn:aws:eks:us-west-2:1:nodegroup/demo/workers/0a",
                "aws eks delete-nodegroup --cluster-name demo --nodegroup-name workers --region us-west-2",
            ),
            (
                "arn:aws:autoscaling:us-west-2:1:autoScalingGroup:0a:autoScalingGroupName/demo-workers",
                "aws autoscaling delete-auto-scaling-group --force-delete --auto-scaling-group-name demo-workers --region us-west-2",
            ),
            (
                "arn:aws:logs:us-west-2:1:log-group:/aws/eks/demo/cluster:*",
                "aws logs delete-log-group --log-group-name /aws/eks/demo/cluster --region us-west-2",
            ),
        ] {
            assert_eq!(classify(arn).remedy, command);
        }
        for (service, kind, ..) in KINDS {
            let remedy = classify(&format!("arn:aws:{service}:r:1:{kind}/a/b")).remedy;
            assert!(!remedy.contains('…') && !remedy.contains("''"), "{remedy}");
        }
    }

    #[test]
    fn costly_things_first_and_kept_ones_apart() {
        let found = [
            "arn:aws:ec2:r:1:vpc/vpc-1".to_owned(),
            "arn:aws:ec2:r:1:volume/vol-1".to_owned(),
            "arn:aws:elasticfilesystem:r:1:file-system/fs-1".to_owned(),
        ];
        let (kept, left) = sort(&found, &["fs-1".to_owned()]);
        assert_eq!(kept.len(), 1);
        assert_eq!(
            left.iter().map(|r| r.what).collect::<Vec<_>>(),
            ["disk", "VPC"]
        );
    }
}
