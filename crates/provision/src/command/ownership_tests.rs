//! What belongs to others survives every command, whatever it is called.

use super::tests::{
    ID, OTHER_ID, TalkRecorder, down_options, marked, named, owned, run_down_of, run_up, spec,
};
use super::validate::{CheckVerdict, online};
use super::*;
use crate::assets::AssetFolder;
use crate::command::api_server::ApiServer;
use crate::command::down::{DownOptions, down};
use crate::command::status::status;
use crate::double::Double;
use crate::double::account::Account;
use crate::lifecycle::teardown::{DataFate, Interface};
use crate::ownership::Tags;
use crate::spec::{Capacity, ClusterSpec, ControlPlaneMode, WorkerGroup};
use crate::template::StackLayer;

/// Things in the account that are not the cluster's, but look like it.
fn fill_with_foreign_things(account: &mut Account) {
    account
        .file_systems
        .insert("fs-other".to_owned(), (owned(OTHER_ID), 0));
    account
        .file_systems
        .insert("fs-named".to_owned(), (Tags::new(), 0));
    account.keys.insert(
        "arn:aws:kms:us-west-2:1:key/other".to_owned(),
        (owned(OTHER_ID), false),
    );
    account
        .log_groups
        .insert("/aws/eks/demo/other".to_owned(), Tags::new());
    account
        .log_groups
        .insert("/aws/eks/demo/mine".to_owned(), owned(OTHER_ID));
    account
        .volumes
        .insert("vol-other".to_owned(), marked("demo"));
    account
        .load_balancers
        .insert("lb-other".to_owned(), Tags::new());
    account
        .groups
        .insert("sg-other".to_owned(), marked("other"));
    let bucket = crate::policy::bucket_name(ID);
    let object = ["precious".to_owned()].into();
    account.buckets.insert(bucket, (owned(OTHER_ID), object));
}

fn count(account: &Account) -> usize {
    account.file_systems.len()
        + account
            .keys
            .values()
            .filter(|(_, pending)| !pending)
            .count()
        + account.log_groups.len()
        + account.volumes.len()
        + account.load_balancers.len()
        + account.groups.len()
        + account
            .buckets
            .values()
            .map(|(_, objects)| 1 + objects.len())
            .sum::<usize>()
}

async fn refusals(cloud: &Double, spec: &ClusterSpec) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let folder = AssetFolder::new(place.path());
    let up = run_up(cloud, spec, &folder).await.unwrap_err();
    let mut said = vec![up.to_string()];
    for data in [DataFate::Keep, DataFate::Delete] {
        let down = run_down_of(cloud, spec, data).await.unwrap_err();
        assert!(matches!(down, CommandError::NotOurs(_)), "{down}");
        said.push(down.to_string());
    }
    let checks = online(cloud, spec).await;
    let names = checks
        .into_iter()
        .find(|check| check.what == "names")
        .unwrap();
    assert_eq!(names.verdict, CheckVerdict::Fail);
    said.push(names.text);
    said
}

/// An unrelated stack `web-base` was updated by `up`, and deleted with its bucket by `down`.
#[tokio::test(start_paused = true)]
async fn a_stack_of_somebody_else_is_named_and_refused() {
    for (layer, tags) in [
        (StackLayer::Base, Tags::new()),
        (
            StackLayer::Storage,
            Tags::from([("canoe:cluster".to_owned(), "web".to_owned())]),
        ),
        (StackLayer::Cluster, owned(OTHER_ID)),
    ] {
        let cloud = Double::default();
        let name = layer.stack_name("web");
        cloud.with(|account| account.add_foreign_stack(&name, tags));
        for words in refusals(&cloud, &named("web")).await {
            assert!(
                words.contains(&name) && words.contains("choose another name"),
                "{words}"
            );
        }
        assert_eq!(cloud.stack_names(), [name.as_str()]);
        let calls = cloud.with(|account| account.calls.join(" "));
        for verb in ["delete", "create_", "execute", "protect"] {
            assert!(!calls.contains(verb), "{verb} in {calls}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn status_says_that_a_stack_is_not_this_clusters() {
    let cloud = Double::default();
    cloud.with(|account| account.add_foreign_stack("web-base", Tags::new()));
    let now = time::OffsetDateTime::UNIX_EPOCH;
    let status = status(&cloud, &named("web"), None, now).await.unwrap();
    assert!(!status.is_up());
    let text = status.lines().join("\n");
    assert!(
        text.contains("web-base") && text.contains("not this cluster's"),
        "{text}"
    );
}

/// Everything that carries another id, or none, is there after `up`, `down` and `down` with the data.
#[tokio::test(start_paused = true)]
async fn foreign_things_survive_every_command() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let stranger = Interface {
        id: "eni-other".to_owned(),
        status: "available".into(),
        description: String::new(),
        groups: Vec::new(),
        tags: Tags::new(),
    };
    cloud.with(|account| {
        fill_with_foreign_things(account);
        // These two are in our VPC and hold it; they are removed by hand before the end.
        account.interfaces.push(stranger);
    });
    let before = cloud.with(|account| count(account)) - 3; // our own file system, key and log group
    let mut recorder = TalkRecorder::default();
    let options = down_options(Some(DataFate::Delete));
    down(&cloud, &spec(), options.clone(), &mut recorder)
        .await
        .unwrap_err();
    let said = recorder.text();
    assert!(
        said.contains("vol-other") && said.contains("carries no tag"),
        "{said}"
    );
    cloud.with(|account| {
        assert!(account.interfaces.iter().any(|i| i.id == "eni-other"));
        account.interfaces.clear();
        assert!(account.load_balancers.contains_key("lb-other"));
        assert!(account.groups.contains_key("sg-other"));
        account.load_balancers.clear();
        account.groups.clear();
    });
    down(&cloud, &spec(), options, &mut recorder).await.unwrap();
    assert!(cloud.stack_names().is_empty());
    assert_eq!(cloud.with(|account| count(account)), before - 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_file_without_an_id_changes_nothing_and_says_how_to_get_one() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let mut nameless = spec();
    nameless.id = None;
    for error in [
        run_up(&cloud, &nameless, &folder).await.unwrap_err(),
        run_down_of(&cloud, &nameless, DataFate::Keep)
            .await
            .unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(
            text.contains(&format!("put the line `id: \"{ID}\"` back"))
                && text.contains("nothing was changed"),
            "{text}"
        );
    }
    assert_eq!(cloud.stack_names().len(), 3);
    let now = time::OffsetDateTime::UNIX_EPOCH;
    assert!(status(&cloud, &nameless, None, now).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stacks_are_protected_while_the_cluster_is_up() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    cloud.with(|account| {
        for name in ["demo-base", "demo-storage", "demo-cluster"] {
            assert!(account.is_protected(name), "{name}");
        }
    });
    run_down_of(&cloud, &spec(), DataFate::Keep).await.unwrap();
    assert!(cloud.stack_names().is_empty());
}

/// `down` used to warn and to delete the data of a cluster that it could not ask.
#[tokio::test]
async fn an_unreachable_cluster_is_not_taken_down_without_force() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let silent = ApiServer::new(place.path().join("kubeconfig"), "false".into());
    for api in [None, Some(silent.clone())] {
        let options = DownOptions {
            force: false,
            api,
            ..down_options(Some(DataFate::Delete))
        };
        let error = down(&cloud, &spec(), options, &mut TalkRecorder::default())
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("cannot be asked") && text.contains("--force"),
            "{text}"
        );
        assert_eq!(cloud.stack_names().len(), 3);
    }
    let forced = DownOptions {
        api: Some(silent),
        ..down_options(None)
    };
    down(&cloud, &spec(), forced, &mut TalkRecorder::default())
        .await
        .unwrap();
    assert!(cloud.stack_names().is_empty());
    assert_eq!(
        cloud.with(|account| account.file_systems.len()),
        1,
        "the data stay"
    );
}

/// Puts a thing of somebody else under each name that only the cluster stack, or the base stack, gives; what it is called.
fn take_a_name(account: &mut Account, kind: &str) -> String {
    let (name, tags) = ("demo-workers".to_owned(), owned(OTHER_ID));
    match kind {
        "launch template" => account.launch_templates.insert(name.clone(), tags),
        "auto-scaling group" => account.scaling_groups.insert(name.clone(), Tags::new()),
        "image repository" => {
            let name = "canoe/demo".to_owned();
            account.repositories.insert(name.clone(), tags);
            return name;
        }
        _ => {
            let name = "demo-us-west-2-workers".to_owned();
            account.profiles.insert(name.clone());
            return name;
        }
    };
    name
}

/// They were met by CloudFormation, after the minutes that the stacks before take.
#[tokio::test(start_paused = true)]
async fn launch_templates_groups_profiles_and_repositories_of_others_are_named_before_anything_is_made()
 {
    let mut own = spec();
    own.control_plane.mode = ControlPlaneMode::SelfManaged;
    let mut images = spec();
    images.image_repository = true;
    for (kind, spec) in [
        ("launch template", spec()),
        ("launch template", own.clone()),
        ("auto-scaling group", own.clone()),
        ("instance profile", own),
        ("image repository", images),
    ] {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let name = cloud.with(|account| take_a_name(account, kind));
        let folder = AssetFolder::new(place.path());
        let said = run_up(&cloud, &spec, &folder)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            said.contains(&format!("{kind} {name}"))
                && said.contains("choose another name")
                && said.contains("nothing was changed"),
            "{said}"
        );
        let checks = online(&cloud, &spec).await;
        let names = checks.iter().find(|check| check.what == "names").unwrap();
        assert_eq!(names.verdict, CheckVerdict::Fail);
        assert!(names.text.contains(&name), "{}", names.text);
        run_down_of(&cloud, &spec, DataFate::Delete).await.unwrap();
        cloud.with(|account| {
            assert!(account.stacks_with_work().is_empty());
            let left = account.launch_templates.len()
                + account.scaling_groups.len()
                + account.profiles.len()
                + account.repositories.len();
            assert_eq!(left, 1, "{kind}");
            let calls = account.calls.join(" ");
            assert!(!calls.contains("create_change_set"), "{calls}");
        });
    }
}

/// A cluster that is up and asks for more met the names of others in the middle of the update.
#[tokio::test(start_paused = true)]
async fn what_an_update_adds_is_looked_at_and_what_is_there_is_its_own() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let mut more = spec();
    more.image_repository = true;
    more.workers.groups = vec![WorkerGroup {
        name: "gpu".to_owned(),
        count: 1,
        max: None,
        instance_types: vec!["m5.4xlarge".to_owned()],
        capacity: Capacity::OnDemand,
        disk_gib: 50,
    }];
    cloud.with(|account| {
        let theirs = [("demo-workers-gpu".to_owned(), Tags::new())];
        account.launch_templates.extend(theirs);
        account
            .repositories
            .insert("canoe/demo".to_owned(), owned(OTHER_ID));
        account.calls.clear();
    });
    let said = run_up(&cloud, &more, &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("launch template demo-workers-gpu")
            && said.contains("image repository canoe/demo"),
        "{said}"
    );
    let calls = cloud.with(|account| account.calls.join(" "));
    assert!(!calls.contains("change_set"), "{calls}");
    cloud.with(|account| {
        account.launch_templates.clear();
        account.repositories.clear();
    });
    run_up(&cloud, &more, &folder).await.unwrap();
    assert!(
        run_up(&cloud, &more, &folder)
            .await
            .unwrap()
            .changed
            .is_empty()
    );
    let down = run_down_of(&cloud, &more, DataFate::Delete).await;
    assert!(down.is_ok() && cloud.stack_names().is_empty());
}

/// A thing of our own without a stack was said to be without our tag.
#[tokio::test(start_paused = true)]
async fn what_a_stack_of_ours_has_left_is_named_with_the_command_that_removes_it() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    cloud.with(|account| {
        account
            .launch_templates
            .insert("demo-workers".to_owned(), owned(ID))
    });
    let said = run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap_err()
        .to_string();
    let command =
        "`aws ec2 delete-launch-template --launch-template-name demo-workers --region us-west-2`";
    assert!(
        said.contains(command) && said.contains("nothing was changed"),
        "{said}"
    );
}

/// `status --json` listed the key and the file system of a cluster that is up as if they were left over.
#[tokio::test(start_paused = true)]
async fn what_the_stacks_have_is_not_said_to_be_kept() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let now = time::OffsetDateTime::UNIX_EPOCH;
    let up = status(&cloud, &spec(), None, now).await.unwrap();
    assert_eq!(up.kept, Vec::<String>::new());
    run_down_of(&cloud, &spec(), DataFate::Keep).await.unwrap();
    let down = status(&cloud, &spec(), None, now).await.unwrap();
    assert!(
        down.kept.iter().any(|line| line.contains("file-system")),
        "{:?}",
        down.kept
    );
}
