//! Nothing goes that runs, that nobody agreed to, or that is another's; and whatever `down` leaves, the next `up` uses.

use serde_json::json;

use super::down::{DownOptions, down};
use super::stack::ChangeReview;
use super::tests::{
    ID, OTHER_ID, PACE, TalkRecorder, down_options, marked, named, owned, run_down_of, run_up, spec,
};
use super::up::{UpOptions, up};
use super::validate::{CheckVerdict, online};
use super::*;
use crate::assets::AssetFolder;
use crate::double::account::key_arn;
use crate::double::api_server::ApiDouble;
use crate::double::{Double, refused};
use crate::lifecycle::teardown::{DataFate, Interface};
use crate::ownership::Tags;
use crate::spec::{ClusterSpec, write};
use crate::template::StackLayer;

/// A cluster on which a job runs.
async fn busy_cluster() -> ApiDouble {
    let server = ApiDouble::start().await;
    let job = json!({"metadata": {"name": "ctr", "namespace": "default"}, "status": {"active": 3}});
    server.put("/apis/batch/v1/namespaces/default/jobs/ctr", job);
    server
}

/// Jobs were asked for only while the stack was ready: during a `scale`, and after an update that failed, a running job
/// was deleted with its results.
#[tokio::test]
async fn the_state_of_the_stack_does_not_hide_running_jobs() {
    for (status, pending) in [
        ("UPDATE_IN_PROGRESS", Some((2, "UPDATE"))),
        ("UPDATE_ROLLBACK_FAILED", None),
        ("UPDATE_ROLLBACK_COMPLETE", None),
        ("DELETE_FAILED", None),
    ] {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        run_up(&cloud, &spec(), &folder).await.unwrap();
        cloud.with(|account| account.set_state("demo-cluster", status, pending));
        let busy = busy_cluster().await;
        for (api, words) in [
            (Some(busy.api()), "1 job is running: default/ctr"),
            (None, "cannot be asked"),
        ] {
            let options = DownOptions {
                force: false,
                api,
                ..down_options(Some(DataFate::Delete))
            };
            let error = down(&cloud, &spec(), options, &mut TalkRecorder::default())
                .await
                .unwrap_err();
            assert!(error.to_string().contains(words), "{status}: {error}");
        }
        cloud.with(|account| {
            assert!(
                account
                    .file_systems
                    .contains_key("demo-storage.FileSystemId")
            );
            let calls = account.calls.join(" ");
            assert!(!calls.contains("delete_"), "{status}: {calls}");
        });
    }
}

/// A cluster whose deletion was interrupted no longer answers; the same command continues it, and the data stay.
#[tokio::test]
async fn a_cluster_that_is_going_need_not_answer_while_its_data_stay() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    cloud.with(|account| {
        account.set_state("demo-cluster", "DELETE_IN_PROGRESS", Some((9, "DELETE")))
    });
    let options = DownOptions {
        force: false,
        ..down_options(None)
    };
    let mut sink = TalkRecorder::default();
    down(&cloud, &spec(), options, &mut sink).await.unwrap();
    assert!(sink.text().contains("not whole"), "{}", sink.text());
    assert_eq!(cloud.with(|account| account.file_systems.len()), 1);
}

/// A folder that was copied and given another name deleted the first cluster's file system, key and bucket.
#[tokio::test(start_paused = true)]
async fn a_copy_of_the_cluster_file_is_refused_everywhere() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    for data_only in [false, true] {
        if data_only {
            run_down_of(&cloud, &spec(), DataFate::Keep).await.unwrap();
        }
        let copy = named("other");
        let mut said = vec![
            run_up(&cloud, &copy, &folder)
                .await
                .unwrap_err()
                .to_string(),
        ];
        for data in [DataFate::Keep, DataFate::Delete] {
            let error = run_down_of(&cloud, &copy, data).await.unwrap_err();
            said.push(error.to_string());
        }
        let checks = online(&cloud, &copy).await;
        let names = checks.iter().find(|check| check.what == "names").unwrap();
        assert_eq!(names.verdict, CheckVerdict::Fail);
        said.push(names.text.clone());
        for words in said {
            assert!(
                words.contains("the cluster demo") && words.contains("it is a copy"),
                "{words}"
            );
        }
        cloud.with(|account| {
            assert_eq!(account.file_systems.len(), 1);
            assert!(!account.keys[&key_arn("demo-base")].1);
        });
    }
}

/// The cluster of a VPC that is there already.
fn in_given_vpc() -> ClusterSpec {
    let mut cases = crate::matrix::cases().into_iter();
    let (_, mut spec) = cases.find(|(name, _)| name == "eks-given-vpc").unwrap();
    spec.id = Some(ID.to_owned());
    spec
}

/// In a VPC of the user's own `down` deleted what another cluster of the same name had made.
#[tokio::test(start_paused = true)]
async fn in_a_vpc_of_others_the_mark_of_kubernetes_is_not_enough() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let spec = in_given_vpc();
    run_up(&cloud, &spec, &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let interface = |id: &str, group: &str| Interface {
        id: id.to_owned(),
        status: "available".into(),
        description: String::new(),
        groups: vec![group.to_owned()],
        tags: marked("demo"),
    };
    cloud.with(|account| {
        account
            .load_balancers
            .insert("lb-kops".to_owned(), marked("demo"));
        account.groups.insert("sg-kops".to_owned(), marked("demo"));
        account.interfaces.push(interface("eni-kops", "sg-kops"));
        account
            .interfaces
            .push(interface("eni-ours", "demo-base.WorkerSecurityGroup"));
    });
    let mut sink = TalkRecorder::default();
    down(
        &cloud,
        &spec,
        down_options(Some(DataFate::Delete)),
        &mut sink,
    )
    .await
    .unwrap();
    assert!(cloud.stack_names().is_empty());
    cloud.with(|account| {
        assert!(account.load_balancers.contains_key("lb-kops"));
        assert!(account.groups.contains_key("sg-kops"));
        let left: Vec<&str> = account.interfaces.iter().map(|i| i.id.as_str()).collect();
        assert_eq!(left, ["eni-kops"]);
    });
    let said = sink.text();
    assert!(
        said.contains("lb-kops has Kubernetes' mark")
            && said.contains("sg-kops has Kubernetes' mark"),
        "{said}"
    );
}

/// Groups and interfaces that come to light on the way were deleted without a question.
#[tokio::test(start_paused = true)]
async fn what_comes_to_light_later_is_shown_and_asked_for() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let options = DownOptions {
        ask: true,
        ..down_options(Some(DataFate::Keep))
    };
    let mut sink = TalkRecorder {
        yes: 1,
        ..TalkRecorder::default()
    };
    let error = down(&cloud, &spec(), options.clone(), &mut sink)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("run this again"), "{error}");
    let said = sink.text();
    assert!(
        said.contains("security group sg-k8s-elb") && said.contains("network interface eni-k8s"),
        "{said}"
    );
    cloud.with(|account| {
        assert!(account.groups.contains_key("sg-k8s-elb"));
        assert_eq!(account.interfaces.last().unwrap().id, "eni-k8s");
    });
    let mut sink = TalkRecorder {
        yes: 9,
        ..TalkRecorder::default()
    };
    down(&cloud, &spec(), options, &mut sink).await.unwrap();
    assert!(cloud.stack_names().is_empty());
}

/// Interrupted after any call of `down`, the next `up` used a new, empty file system: what had been kept was written to
/// cluster.yaml at the very end only.
#[tokio::test(start_paused = true)]
async fn an_interrupted_down_never_leads_to_a_second_file_system() {
    let mut call = 0;
    loop {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        folder.write_spec(&write::write(&spec()), false).unwrap();
        run_up(&cloud, &spec(), &folder).await.unwrap();
        let expired = refused("any", "ExpiredToken", "expired");
        let begin = cloud.with(|account| account.calls.len());
        cloud.with(|account| account.fault = Some((begin + call, u32::MAX, expired)));
        let options = DownOptions {
            folder: Some(folder.clone()),
            ..down_options(Some(DataFate::Keep))
        };
        let ended = down(
            &cloud,
            &spec(),
            options.clone(),
            &mut TalkRecorder::default(),
        )
        .await;
        cloud.with(|account| account.fault = None);
        let text = folder.read_spec().unwrap();
        let mut now = spec();
        now.storage.file_system_id = write::text_at(&text, "storage.fileSystemId");
        now.kms_key_arn = write::text_at(&text, "kmsKeyArn");
        let report = run_up(&cloud, &now, &folder).await.unwrap();
        assert_eq!(
            report.file_system, "demo-storage.FileSystemId",
            "interrupted at call {call}"
        );
        cloud.with(|account| {
            assert_eq!(account.file_systems.len(), 1, "interrupted at call {call}");
            assert_eq!(account.keys.len(), 1, "interrupted at call {call}");
        });
        if ended.is_ok() {
            break;
        }
        call += 1;
    }
    assert!(call > 30, "down makes more than {call} calls");
}

/// A cluster.yaml that lost what was kept: nothing is made beside it.
#[tokio::test(start_paused = true)]
async fn data_that_no_stack_has_are_named_and_nothing_is_made_beside_them() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    run_down_of(&cloud, &spec(), DataFate::Keep).await.unwrap();
    let error = run_up(&cloud, &spec(), &folder)
        .await
        .unwrap_err()
        .to_string();
    for words in [
        "storage.fileSystemId: demo-storage.FileSystemId",
        "kmsKeyArn: arn:aws:kms",
        "down --delete-data",
    ] {
        assert!(error.contains(words), "{words} is not in {error}");
    }
    assert!(cloud.stack_names().is_empty());
    let now = time::OffsetDateTime::UNIX_EPOCH;
    let status = status::status(&cloud, &spec(), None, now).await.unwrap();
    let text = status.lines().join("\n");
    assert!(
        text.contains("demo-storage.FileSystemId") && text.contains("is kept, and costs"),
        "{text}"
    );
}

/// `validate` saw them; `up` began all the same, and its `down` deleted them.
#[tokio::test(start_paused = true)]
async fn up_refuses_every_name_that_is_taken_before_it_makes_anything() {
    let roles = ["workers", "control-plane", "efs-csi", "vpc-cni"];
    let roles = roles.map(|purpose| format!("demo-us-west-2-{purpose}"));
    type Fill = Box<dyn Fn(&mut crate::double::account::Account)>;
    let mut cases: Vec<(String, Fill)> = vec![
        (
            "log group /aws/eks/demo/cluster".to_owned(),
            Box::new(|account| {
                let group = "/aws/eks/demo/cluster".to_owned();
                account.log_groups.insert(group, owned(OTHER_ID));
            }),
        ),
        (
            "alias/canoe/demo".to_owned(),
            Box::new(|account| {
                account.aliases.insert("alias/canoe/demo".to_owned());
            }),
        ),
        (
            "EKS cluster demo".to_owned(),
            Box::new(|account| {
                account.foreign.insert("demo".to_owned());
            }),
        ),
    ];
    for role in roles {
        let named = role.clone();
        cases.push((
            format!("role {role}"),
            Box::new(move |account| {
                account.roles.insert(named.clone(), "arn".to_owned());
            }),
        ));
    }
    for (what, fill) in cases {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        cloud.with(|account| fill(account));
        let error = run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&what), "{what}: {error}");
        assert!(cloud.stack_names().is_empty(), "{what}");
        let checks = online(&cloud, &spec()).await;
        let names = checks.iter().find(|check| check.what == "names").unwrap();
        assert!(
            names.verdict == CheckVerdict::Fail && names.text.contains(&what),
            "{}",
            names.text
        );
    }
}

/// CloudFormation refuses to make a log group that is there; one of ours outlives a `down` that was interrupted.
#[tokio::test(start_paused = true)]
async fn a_log_group_of_our_own_that_is_left_makes_room() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let group = "/aws/eks/demo/cluster".to_owned();
    cloud.with(|account| account.log_groups.insert(group.clone(), owned(ID)));
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let calls = cloud.with(|account| account.calls.join("\n"));
    let deleted = calls.find(&format!("delete_log_group {group}")).unwrap();
    assert!(deleted < calls.find("create_change_set demo-cluster").unwrap());
}

/// "nothing was changed", after a VPC with a NAT gateway had been made.
#[tokio::test(start_paused = true)]
async fn a_no_in_the_middle_names_what_is_there() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let options = UpOptions {
        program: "/usr/bin/canoe".to_owned(),
        review: ChangeReview::Ask,
        pace: PACE,
    };
    let mut sink = TalkRecorder {
        yes: 1,
        ..TalkRecorder::default()
    };
    let folder = AssetFolder::new(place.path());
    let error = up(&cloud, &spec(), &folder, options, &mut sink)
        .await
        .unwrap_err()
        .to_string();
    for words in [
        "policy demo-us-west-2-boundary",
        "stack demo-base",
        "canoe cluster down",
    ] {
        assert!(error.contains(words), "{words} is not in {error}");
    }
    assert!(!error.contains("nothing was changed"), "{error}");
}

/// A stack whose deletion failed was removed for good without a question.
#[tokio::test(start_paused = true)]
async fn a_broken_stack_is_removed_only_after_a_question() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    cloud.with(|account| account.set_state("demo-cluster", "DELETE_FAILED", None));
    let options = UpOptions {
        program: "/usr/bin/canoe".to_owned(),
        review: ChangeReview::Ask,
        pace: PACE,
    };
    let mut sink = TalkRecorder::default();
    let error = up(&cloud, &spec(), &folder, options, &mut sink).await;
    assert!(matches!(error, Err(CommandError::Declined(_))));
    assert!(
        sink.text()
            .contains("a deletion that did not get to its end")
    );
    assert!(
        cloud
            .stack_names()
            .contains(&StackLayer::Cluster.stack_name("demo"))
    );
}

/// Runs `up` with questions, and does something to the account at the first one, as another machine may.
async fn crossed_by(
    cloud: &Double,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    answer: bool,
    other: impl FnOnce(&mut crate::double::account::Account) + Send,
) -> CommandError {
    struct Crossing<'a, F> {
        cloud: &'a Double,
        other: Option<F>,
        answer: bool,
    }
    impl<F: FnOnce(&mut crate::double::account::Account) + Send> Sink for Crossing<'_, F> {
        fn talk(&mut self, _: Talk) {}
        fn confirm(&mut self, _: &str) -> bool {
            if let Some(other) = self.other.take() {
                self.cloud.with(other);
            }
            self.answer
        }
    }
    let options = UpOptions {
        program: "canoe".to_owned(),
        review: ChangeReview::Ask,
        pace: PACE,
    };
    let other = Some(other);
    let mut sink = Crossing {
        cloud,
        other,
        answer,
    };
    up(cloud, spec, folder, options, &mut sink)
        .await
        .unwrap_err()
}

/// Change sets have one name. What another machine had put in the place of ours, in the time of the question, was executed
/// unseen.
#[tokio::test(start_paused = true)]
async fn a_yes_is_for_what_was_shown() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let mut wider = spec();
    wider.workers.count += 1;
    let before = cloud.with(|account| account.calls.len());
    let error = crossed_by(&cloud, &wider, &folder, true, |account| {
        account.plan_of_another_machine("demo-cluster");
    });
    let words = error.await.to_string();
    assert!(words.contains("somebody else runs"), "{words}");
    let status = cloud.with(|account| {
        assert!(account.calls.len() > before);
        account.stacks_with_work()
    });
    assert_eq!(
        status,
        Vec::<String>::new(),
        "the other's plan waits for the other's yes"
    );
}

/// A `no` to a stack that was to be made deleted it by its name: also when another machine was making it by then.
#[tokio::test(start_paused = true)]
async fn a_no_takes_back_only_what_is_still_in_review() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let fresh = spec();
    let declined = crossed_by(&cloud, &fresh, &folder, false, |account| {
        account.set_state("demo-base", "CREATE_IN_PROGRESS", None);
    });
    assert!(matches!(declined.await, CommandError::Declined(_)));
    let calls = cloud.with(|account| account.calls.join("\n"));
    assert!(!calls.contains("delete_stack"), "{calls}");
    // Nobody else: the empty stack goes again.
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    crossed_by(&cloud, &spec(), &folder, false, |_| ()).await;
    assert!(cloud.with(|account| account.calls.join("\n").contains("delete_stack")));
}

/// AWS refuses most of these, after minutes; the access point was replaced under the pods that had mounted it, and a zone lost
/// its files while its workers ran.
#[tokio::test(start_paused = true)]
async fn what_other_stacks_and_pods_use_is_neither_replaced_nor_taken_away() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    type Edit = fn(&mut ClusterSpec);
    let edits: [(&str, &str, Edit); 4] = [
        ("replace", "PrivateSubnet1", |spec| spec.zones.reverse()),
        ("replace", "AccessPoint", |spec| {
            spec.storage.directory = "/other".to_owned()
        }),
        ("replace", "AccessPoint", |spec| {
            spec.storage.file_system_id = Some("fs-0123456789abcdef0".to_owned());
        }),
        ("remove", "MountTarget2", |spec| spec.zones.truncate(1)),
    ];
    for (verb, what, edit) in edits {
        let mut edited = spec();
        edit(&mut edited);
        let error = run_up(&cloud, &edited, &folder)
            .await
            .unwrap_err()
            .to_string();
        let words = format!("would {verb} ");
        assert!(
            error.contains(&words) && error.contains(what),
            "{what}: {error}"
        );
        assert_eq!(
            cloud.with(|account| account.stacks_with_work()),
            Vec::<String>::new()
        );
    }
    let changed = run_up(&cloud, &spec(), &folder).await.unwrap().changed;
    assert_eq!(changed, [], "nothing was changed by any of them");
}

/// EKS makes the creator administrator by itself, and the cluster stack failed at the second entry.
#[tokio::test(start_paused = true)]
async fn whoever_creates_the_cluster_is_not_named_again() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let mut named = spec();
    let me = cloud_caller(&cloud).await;
    named.control_plane.access = [(me.clone(), "admin".to_owned())].into();
    let error = run_up(&cloud, &named, &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&me) && error.contains("which is you"),
        "{error}"
    );
    assert!(cloud.stack_names().is_empty());
    let checks = online(&cloud, &named).await;
    let access = checks.iter().find(|check| check.what == "access").unwrap();
    assert_eq!(access.verdict, CheckVerdict::Fail);
    // One that somebody else created may name us.
    let other = "arn:aws:iam::123456789012:user/other".to_owned();
    named.control_plane.access = [(other, "admin".to_owned())].into();
    run_up(&cloud, &named, &folder).await.unwrap();
    named.control_plane.access.insert(me, "admin".to_owned());
    run_up(&cloud, &named, &folder).await.unwrap();
}

async fn cloud_caller(cloud: &Double) -> String {
    use crate::cloud::Cloud as _;
    cloud.caller().await.unwrap().arn
}

/// A stack failed ten minutes later: EKS puts no control plane into three zones, whose letters differ between accounts.
#[tokio::test(start_paused = true)]
async fn a_zone_without_eks_is_named_before_anything_is_made() {
    let cloud = Double::default();
    cloud.with(|account| account.zone_without_eks = Some("us-west-2b".to_owned()));
    let zones = async |spec: &ClusterSpec| {
        let checks = online(&cloud, spec).await;
        let found = checks.into_iter().find(|check| check.what == "zones");
        found.unwrap()
    };
    let check = zones(&spec()).await;
    assert_eq!(check.verdict, CheckVerdict::Fail);
    assert!(
        check.text.contains(
            "us-west-2b is a zone in which EKS puts no control plane; choose from us-west-2a"
        ),
        "{}",
        check.text
    );
    let mut own = spec();
    own.control_plane.mode = crate::spec::ControlPlaneMode::SelfManaged;
    assert_eq!(zones(&own).await.verdict, CheckVerdict::Pass);
}

/// In another region the bucket of the same id answers with a redirect, and `down` ended with that.
#[tokio::test(start_paused = true)]
async fn a_bucket_in_another_region_is_not_this_ones() {
    let cloud = Double::default();
    let moved = CloudError::Refused {
        action: "s3:GetBucketTagging".to_owned(),
        status: 301,
        code: "PermanentRedirect".to_owned(),
        message: String::new(),
    };
    cloud.with(|account| account.bucket_fault = Some(moved));
    let mut sink = TalkRecorder::default();
    let options = down_options(Some(DataFate::Keep));
    let report = down(&cloud, &spec(), options, &mut sink).await.unwrap();
    assert!(
        !report.found && sink.text().contains("nothing of cluster demo"),
        "{}",
        sink.text()
    );
}

#[tokio::test(start_paused = true)]
async fn status_says_who_is_in_the_way_and_what_is_unfinished() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let now = time::OffsetDateTime::UNIX_EPOCH;
    cloud.with(|account| account.add_foreign_stack("demo-base", Tags::new()));
    let beside = status::status(&cloud, &spec(), None, now).await.unwrap();
    let text = beside.lines().join("\n");
    assert!(
        text.contains("`canoe cluster up` refuses") && !text.contains("creates the cluster"),
        "{text}"
    );
    let cloud = Double::default();
    let mut spec = spec();
    run_up(&cloud, &spec, &AssetFolder::new(place.path()))
        .await
        .unwrap();
    spec.kubernetes_version = "1.36".to_owned();
    spec.workers.kubernetes_version = Some("1.35".to_owned());
    let text = status::status(&cloud, &spec, None, now)
        .await
        .unwrap()
        .lines()
        .join("\n");
    assert!(text.contains("upgrade --to 1.36"), "{text}");
}
