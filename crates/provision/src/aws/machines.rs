//! Questions about machines, their disks and subnets.

use roxmltree::Node;

use super::client::Aws;
use super::pages::params;
use super::query::{AUTO_SCALING, EC2, entries, field, tags};
use crate::cloud::{CloudError, SubnetView};
use crate::ownership::{ID_TAG, Tags, Thing};

type CloudResult<T> = Result<T, CloudError>;

/// Filters of a request, each a name and its values.
fn filters(all: &[(String, &[&str])]) -> Vec<(String, String)> {
    let mut asked = Vec::new();
    for (number, (name, values)) in (1..).zip(all) {
        asked.push((format!("Filter.{number}.Name"), name.clone()));
        for (index, value) in (1..).zip(*values) {
            asked.push((
                format!("Filter.{number}.Value.{index}"),
                (*value).to_owned(),
            ));
        }
    }
    asked
}

/// Entries of a list, each with its name and tags.
fn things(root: Node<'_, '_>, list: &str, name: &str) -> Vec<Thing> {
    let all = entries(root, list).into_iter();
    all.map(|node| Thing {
        id: field(node, name),
        tags: tags(node),
    })
    .collect()
}

impl Aws {
    pub(super) async fn find_subnets(&self, ids: &[String]) -> CloudResult<Vec<SubnetView>> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let asked = filters(&[("subnet-id".to_owned(), &ids)]);
        self.pages((EC2, "DescribeSubnets"), &asked, |root| {
            let all = entries(root, "subnetSet").into_iter();
            all.map(|node| SubnetView {
                id: field(node, "subnetId"),
                vpc: field(node, "vpcId"),
                zone: field(node, "availabilityZone"),
                cidr: field(node, "cidrBlock"),
            })
            .collect()
        })
        .await
    }

    /// One that does not exist is missing in the reply to a filter, and an error when it is asked for by name.
    pub(super) async fn find_launch_template(&self, name: &str) -> CloudResult<Option<Thing>> {
        let asked = filters(&[("launch-template-name".to_owned(), &[name])]);
        let found = self
            .pages((EC2, "DescribeLaunchTemplates"), &asked, |root| {
                things(root, "launchTemplates", "launchTemplateName")
            })
            .await?;
        Ok(found.into_iter().find(|thing| thing.id == name))
    }

    pub(super) async fn find_scaling_group(&self, name: &str) -> CloudResult<Option<Thing>> {
        let asked = params(&[("AutoScalingGroupNames.member.1", name)]);
        let found = self
            .pages(
                (AUTO_SCALING, "DescribeAutoScalingGroups"),
                &asked,
                |root| things(root, "AutoScalingGroups", "AutoScalingGroupName"),
            )
            .await?;
        Ok(found.into_iter().find(|thing| thing.id == name))
    }

    /// A stopped machine counts, one that is going does not.
    pub(super) async fn find_controller_image(&self, id: &str) -> CloudResult<Option<String>> {
        let states: &[&str] = &["pending", "running", "stopping", "stopped"];
        let asked = filters(&[
            (format!("tag:{ID_TAG}"), &[id]),
            ("tag:Name".to_owned(), &["*-controller"]),
            ("instance-state-name".to_owned(), states),
        ]);
        let images: Vec<String> = self
            .pages((EC2, "DescribeInstances"), &asked, |root| {
                let reservations = entries(root, "reservationSet").into_iter();
                let machines = reservations.flat_map(|node| entries(node, "instancesSet"));
                machines.map(|node| field(node, "imageId")).collect()
            })
            .await?;
        Ok(images.into_iter().find(|image| !image.is_empty()))
    }

    pub(super) async fn find_machine(&self, id: &str) -> CloudResult<Option<Tags>> {
        let asked = filters(&[("instance-id".to_owned(), &[id])]);
        let found: Vec<Tags> = self
            .pages((EC2, "DescribeInstances"), &asked, |root| {
                let reservations = entries(root, "reservationSet").into_iter();
                let machines = reservations.flat_map(|node| entries(node, "instancesSet"));
                machines.map(tags).collect()
            })
            .await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn find_volumes(&self, cluster: &str, id: &str) -> CloudResult<Vec<Thing>> {
        let claims = filters(&[
            (format!("tag:kubernetes.io/cluster/{cluster}"), &["owned"]),
            ("status".to_owned(), &["available"]),
        ]);
        let name = crate::ownership::etcd_disk_name(cluster);
        let etcd = filters(&[
            (format!("tag:{ID_TAG}"), &[id]),
            ("tag:Name".to_owned(), &[&name]),
        ]);
        let mut found: Vec<Thing> = Vec::new();
        for asked in [claims, etcd] {
            let page = self
                .pages((EC2, "DescribeVolumes"), &asked, |root| {
                    let all = entries(root, "volumeSet").into_iter();
                    all.map(|node| Thing {
                        id: field(node, "volumeId"),
                        tags: tags(node),
                    })
                    .collect()
                })
                .await?;
            found.extend(page);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_numbered() {
        let asked = filters(&[("a".to_owned(), &["1", "2"]), ("b".to_owned(), &["3"])]);
        let text: Vec<String> = asked.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            text,
            [
                "Filter.1.Name=a",
                "Filter.1.Value.1=1",
                "Filter.1.Value.2=2",
                "Filter.2.Name=b",
                "Filter.2.Value.1=3"
            ]
        );
    }
}
