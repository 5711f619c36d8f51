//! The commands against the double: the way there, the way back, and every fault in between.

use std::time::Duration;

use super::down::{DownOptions, down};
use super::stack::ChangeReview;
use super::up::{UpOptions, up};
use super::validate::{CheckVerdict, online};
use super::*;
use crate::assets::AssetFolder;
use crate::cloud::Cloud as _;
use crate::credentials;
use crate::double::account::key_arn;
use crate::double::{Double, refused};
use crate::lifecycle::teardown::{DataFate, Interface};
use crate::ownership::{ID_TAG, Tags};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::StackLayer;

#[derive(Default)]
pub(super) struct TalkRecorder {
    pub(super) talk: Vec<Talk>,
    /// Questions that are answered with yes; all others with no.
    pub(super) yes: usize,
}

impl TalkRecorder {
    pub(super) fn text(&self) -> String {
        let lines = self.talk.iter().map(|talk| match talk {
            Talk::Step(line) | Talk::Detail(line) | Talk::Warning(line) => line.clone(),
            Talk::Resource { resource, .. } => resource.clone(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Sink for TalkRecorder {
    fn talk(&mut self, talk: Talk) {
        self.talk.push(talk);
    }

    fn confirm(&mut self, question: &str) -> bool {
        self.talk.push(Talk::Detail(question.to_owned()));
        let yes = self.yes > 0;
        self.yes = self.yes.saturating_sub(1);
        yes
    }
}

pub(super) const PACE: Pace = Pace {
    poll: Duration::from_millis(10),
    patience: Duration::from_secs(5),
    delete_attempts: 5,
};

pub(super) const ID: &str = "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11";
pub(super) const OTHER_ID: &str = "00000000-0000-4000-8000-000000000000";

pub(super) fn spec() -> ClusterSpec {
    named("demo")
}

pub(super) fn named(name: &str) -> ClusterSpec {
    let mut spec = ClusterSpec::new(name, "us-west-2");
    spec.id = Some(ID.to_owned());
    spec
}

/// Tags of something that belongs to the cluster with this id.
pub(super) fn owned(id: &str) -> Tags {
    let tags = [("canoe:cluster", "demo"), (ID_TAG, id)];
    tags.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Kubernetes' own mark of something that it made for the cluster `name`.
pub(super) fn marked(name: &str) -> Tags {
    Tags::from([(format!("kubernetes.io/cluster/{name}"), "owned".to_owned())])
}

pub(super) async fn run_up(
    cloud: &Double,
    spec: &ClusterSpec,
    folder: &AssetFolder,
) -> Result<up::UpReport, CommandError> {
    let options = UpOptions {
        program: "/usr/bin/canoe".to_owned(),
        review: ChangeReview::Show,
        pace: PACE,
    };
    up(cloud, spec, folder, options, &mut TalkRecorder::default()).await
}

/// There is no Kubernetes behind the double, so `down` has to be forced.
pub(super) fn down_options(data: Option<DataFate>) -> DownOptions {
    DownOptions {
        data,
        ask: false,
        force: true,
        folder: None,
        api: None,
        pace: PACE,
    }
}

async fn run_down(cloud: &Double, data: DataFate) -> Result<down::DownReport, CommandError> {
    run_down_of(cloud, &spec(), data).await
}

pub(super) async fn run_down_of(
    cloud: &Double,
    spec: &ClusterSpec,
    data: DataFate,
) -> Result<down::DownReport, CommandError> {
    let options = down_options(Some(data));
    down(cloud, spec, options, &mut TalkRecorder::default()).await
}

fn lost() -> CloudError {
    CloudError::Unreachable {
        action: "any".to_owned(),
        endpoint: "https://aws".to_owned(),
        reason: "connection reset".to_owned(),
        connecting: false,
    }
}

fn names(cloud: &Double) -> Vec<String> {
    cloud.stack_names()
}

const ALL: [&str; 3] = ["demo-base", "demo-cluster", "demo-storage"];

#[tokio::test(start_paused = true)]
async fn up_makes_everything_once() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let report = run_up(&cloud, &spec(), &folder).await.unwrap();
    assert_eq!(report.changed, StackLayer::ALL);
    assert_eq!(report.file_system, "demo-storage.FileSystemId");
    assert!(folder.path("kubeconfig").is_file() && folder.path("manifests/volume.json").is_file());
    let again = run_up(&cloud, &spec(), &folder).await.unwrap();
    assert!(again.changed.is_empty(), "{:?}", again.changed);
    let mut larger = spec();
    larger.workers.count = 5;
    assert_eq!(
        run_up(&cloud, &larger, &folder).await.unwrap().changed,
        [StackLayer::Cluster]
    );
}

#[tokio::test(start_paused = true)]
async fn down_takes_everything_in_order_and_twice_is_once() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let bucket = crate::policy::bucket_name(ID);
    cloud.with(|account| {
        account
            .load_balancers
            .insert("lb".to_owned(), marked("demo"));
        account.volumes.insert("vol-1".to_owned(), owned(ID));
        let templates = ["demo-base.json".to_owned()].into();
        account
            .buckets
            .insert(bucket.clone(), (owned(ID), templates));
        account.calls.clear();
        account.slowness = 3;
    });
    let report = run_down(&cloud, DataFate::Delete).await.unwrap();
    assert!(report.kept.is_empty());
    assert!(names(&cloud).is_empty());
    cloud.with(|account| {
        assert!(
            account.buckets.is_empty()
                && account.volumes.is_empty()
                && account.interfaces.is_empty()
        );
        assert!(account.log_groups.is_empty() && account.file_systems.is_empty());
        assert!(
            account.keys[&key_arn("demo-base")].1,
            "the key waits for its deletion"
        );
        let order: Vec<&str> = account
            .calls
            .iter()
            .map(String::as_str)
            .filter(|call| call.starts_with("delete_") && call.contains(' '))
            .collect();
        assert_eq!(
            order,
            [
                "delete_load_balancer lb",
                "delete_stack demo-cluster",
                "delete_volume vol-1",
                "delete_interface eni-k8s",
                "delete_group sg-k8s-elb",
                "delete_stack demo-storage",
                "delete_file_system demo-storage.FileSystemId",
                "delete_stack demo-base",
                "delete_log_group /aws/eks/demo/cluster",
            ]
        );
    });
    assert!(report.found);
    let again = run_down(&cloud, DataFate::Delete).await.unwrap();
    assert!(!again.found, "the second time there is nothing");
}

/// `down` with the credentials of another account said that nothing that costs money is left, and removed the kubeconfig's entries.
#[tokio::test(start_paused = true)]
async fn down_in_another_account_says_where_it_looked() {
    let (here, elsewhere, place) = (
        Double::default(),
        Double::default(),
        tempfile::tempdir().unwrap(),
    );
    run_up(&here, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let mut sink = TalkRecorder::default();
    let options = down_options(Some(DataFate::Delete));
    let report = down(&elsewhere, &spec(), options, &mut sink).await.unwrap();
    assert!(!report.found);
    let said = sink.text();
    assert!(
        said.contains("nothing of cluster demo")
            && said.contains("is in account 123456789012, region us-west-2"),
        "{said}"
    );
    assert!(!names(&here).is_empty(), "the cluster is still there");
}

#[tokio::test(start_paused = true)]
async fn data_and_key_stay_unless_the_word_is_given() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    cloud.with(|account| account.volumes.insert("vol-1".to_owned(), owned(ID)));
    let mut recorder = TalkRecorder::default();
    // Nobody answers the question about the data.
    let report = down(&cloud, &spec(), down_options(None), &mut recorder)
        .await
        .unwrap();
    assert!(names(&cloud).is_empty());
    let key = key_arn("demo-base");
    cloud.with(|account| {
        assert!(
            account
                .file_systems
                .contains_key("demo-storage.FileSystemId")
        );
        assert!(!account.keys[&key].1 && account.volumes.contains_key("vol-1"));
    });
    let what: Vec<&str> = report.kept.iter().map(|remains| remains.what).collect();
    assert_eq!(what, ["disk", "file system", "key"], "{:?}", report.kept);
    let said = recorder.text();
    assert!(
        said.contains("will stay") && said.contains("down --delete-data"),
        "{said}"
    );
    // The next cluster uses both, and its `down` with the word takes them away.
    let mut again = spec();
    again.storage.file_system_id = Some("demo-storage.FileSystemId".to_owned());
    again.kms_key_arn = Some(key.clone());
    let up = run_up(&cloud, &again, &AssetFolder::new(place.path()))
        .await
        .unwrap();
    assert_eq!(up.file_system, "demo-storage.FileSystemId");
    run_down_of(&cloud, &again, DataFate::Delete).await.unwrap();
    assert!(names(&cloud).is_empty());
    cloud.with(|account| {
        assert!(account.file_systems.is_empty() && account.volumes.is_empty());
        assert!(account.keys[&key].1);
    });
}

/// Sets a fault `call` calls ahead, runs the command, and says whether the fault was met.
async fn disturbed<T>(
    cloud: &Double,
    call: usize,
    run: impl Future<Output = Result<T, CommandError>>,
) -> bool {
    let begin = cloud.with(|account| account.calls.len());
    cloud.with(|account| account.fault = Some((begin + call, 1, lost())));
    if let Err(error) = run.await {
        assert!(error.to_string().contains("run this again"), "{error}");
    }
    cloud
        .with(|account| account.fault.take())
        .is_some_and(|(_, left, _)| left == 0)
}

/// A connection that is lost at any call: the second run ends where an undisturbed one does.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_anywhere_is_survived() {
    let mut call = 0;
    loop {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        cloud.with(|account| account.slowness = 1);
        let met_up = disturbed(&cloud, call, run_up(&cloud, &spec(), &folder)).await;
        run_up(&cloud, &spec(), &folder).await.unwrap();
        assert_eq!(names(&cloud), ALL, "fault at call {call} of up");
        let met_down = disturbed(&cloud, call, run_down(&cloud, DataFate::Delete)).await;
        run_down(&cloud, DataFate::Delete).await.unwrap();
        assert!(names(&cloud).is_empty(), "fault at call {call} of down");
        if !met_up && !met_down {
            break;
        }
        call += 1;
    }
    assert!(call > 50, "the commands make more than {call} calls");
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_are_named_and_survived() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let expired = refused(
        "cloudformation:DescribeStacks",
        "ExpiredToken",
        "the security token is expired",
    );
    cloud.with(|account| account.fault = Some((12, u32::MAX, expired)));
    let error = run_up(&cloud, &spec(), &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sign in again") && error.contains("continues where it stopped"),
        "{error}"
    );
    cloud.with(|account| account.fault = None);
    run_up(&cloud, &spec(), &folder).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_fails_is_named_and_the_next_run_clears_up() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let reason = "Could not launch: InsufficientInstanceCapacity".to_owned();
    cloud.with(|account| {
        account.failing = Some(("demo-cluster".to_owned(), "Workers".to_owned(), reason))
    });
    let error = run_up(&cloud, &spec(), &folder).await.unwrap_err();
    let CommandError::Stack {
        stack,
        cause: Some(cause),
        leftover,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (stack.as_str(), cause.resource.as_str()),
        ("demo-cluster", "Workers")
    );
    assert_eq!(*leftover, Leftover::Deletable);
    assert!(
        error.to_string().contains("no such machines") && error.to_string().contains("left behind"),
        "{error}"
    );
    cloud.with(|account| account.failing = None);
    assert_eq!(
        run_up(&cloud, &spec(), &folder).await.unwrap().changed,
        [StackLayer::Cluster]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_update_is_rolled_back_and_told() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let mut larger = spec();
    larger.workers.count = 9;
    let reason = "vCPU limit exceeded: quota".to_owned();
    cloud.with(|account| {
        account.failing = Some(("demo-cluster".to_owned(), "Workers".to_owned(), reason))
    });
    let error = run_up(&cloud, &larger, &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("quota"), "{error}");
    cloud.with(|account| account.failing = None);
    assert_eq!(
        run_up(&cloud, &larger, &folder).await.unwrap().changed,
        [StackLayer::Cluster]
    );
}

#[tokio::test(start_paused = true)]
async fn an_interface_that_is_released_late_only_delays() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let stubborn = Interface {
        id: "eni-lb".to_owned(),
        status: "in-use".into(),
        description: "ELB net/x".to_owned(),
        groups: Vec::new(),
        tags: Tags::new(),
    };
    cloud.with(|account| account.interfaces.push(stubborn));
    let error = run_down(&cloud, DataFate::Delete).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("eni-lb") && text.contains("canoe cluster down"),
        "{text}"
    );
    assert_eq!(names(&cloud), ["demo-base"]);
    cloud.with(|account| account.interfaces.clear());
    run_down(&cloud, DataFate::Delete).await.unwrap();
    assert!(names(&cloud).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_without_consent() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let options = UpOptions {
        program: "/usr/bin/canoe".to_owned(),
        review: ChangeReview::Ask,
        pace: PACE,
    };
    let mut no = TalkRecorder::default();
    let error = up(&cloud, &spec(), &folder, options, &mut no)
        .await
        .unwrap_err();
    assert!(matches!(error, CommandError::Declined(_)));
    assert!(
        no.talk
            .iter()
            .any(|talk| matches!(talk, Talk::Detail(line) if line.contains("Vpc")))
    );
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let options = DownOptions {
        ask: true,
        ..down_options(Some(DataFate::Delete))
    };
    let mut no = TalkRecorder::default();
    assert!(matches!(
        down(&cloud, &spec(), options, &mut no).await,
        Err(CommandError::Declined(_))
    ));
    assert_eq!(names(&cloud), ALL);
    assert!(
        no.talk
            .iter()
            .any(|talk| matches!(talk, Talk::Detail(line) if line.contains("ALL ITS DATA")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_never_ends_is_given_up_with_a_way_on() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    cloud.with(|account| account.slowness = u32::MAX);
    let error = run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, CommandError::Patience { .. }));
    assert!(error.to_string().contains("run this again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn self_managed_assets_are_encrypted_once_and_never_sent_in_the_clear() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let mut spec = spec();
    spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    let error = run_up(&cloud, &spec, &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("render credentials --generate-ca"),
        "{error}"
    );
    let now = time::OffsetDateTime::now_utc();
    let ca = credentials::authority(&spec, now).unwrap();
    let mut pairs = credentials::pairs(&spec, &ca, now).unwrap();
    pairs.push(ca);
    folder.write_credentials(&pairs, false).unwrap();
    run_up(&cloud, &spec, &folder).await.unwrap();
    let again = run_up(&cloud, &spec, &folder).await.unwrap();
    assert!(
        again.changed.is_empty(),
        "the same ciphertexts are used again"
    );
    for file in [
        "stack-template.json",
        "userdata/cloud-config-controller",
        "userdata/cloud-config-worker",
        "kubeconfig",
    ] {
        let text = std::fs::read_to_string(folder.path(file)).unwrap();
        assert!(!text.contains("PRIVATE KEY"), "{file}");
        for pair in &pairs {
            let secret: String = pair.key.lines().nth(1).unwrap().to_owned();
            assert!(
                !text.contains(&secret),
                "{file} holds the key of {}",
                pair.name
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn validate_names_what_is_missing() {
    let cloud = Double::default();
    let mut spec = spec();
    let checks = online(&cloud, &spec).await;
    assert!(
        checks
            .iter()
            .all(|check| check.verdict == CheckVerdict::Pass),
        "{checks:?}"
    );
    cloud.with(|account| {
        account.slowness = 7;
        account
            .foreign
            .extend(["demo", "a", "b", "c", "d"].map(str::to_owned));
        account.lacking.extend(["eks", "elasticfilesystem"]);
    });
    spec.zones = vec!["us-west-2a".to_owned(), "us-west-2c".to_owned()];
    spec.workers.count = 17;
    spec.ssh_key_name = Some("other".to_owned());
    spec.kms_key_arn = Some("arn:aws:kms:us-west-2:123456789012:key/1".to_owned());
    spec.storage.file_system_id = Some("fs-0123456789abcdef0".to_owned());
    spec.dns.external_name = Some("paddle.example.org".to_owned());
    spec.dns.hosted_zone_id = Some("Z1".to_owned());
    let failed: Vec<(&str, String)> = online(&cloud, &spec)
        .await
        .into_iter()
        .filter(|check| check.verdict == CheckVerdict::Fail)
        .map(|check| (check.what, check.text))
        .collect();
    let what: Vec<&str> = failed.iter().map(|(what, _)| *what).collect();
    assert_eq!(
        what,
        [
            "permissions",
            "EKS",
            "EFS",
            "zones",
            "instance types",
            "vCPU quota",
            "network quota",
            "names",
            "key pair",
            "KMS key",
            "file system",
            "hosted zone",
        ]
    );
    assert!(failed[0].1.contains("eks:CreateCluster"));
    let text = |what: &str| &failed.iter().find(|(name, _)| *name == what).unwrap().1;
    assert!(text("EKS").contains("does not have it") && text("EKS").contains("self-managed"));
    assert!(text("EFS").contains("choose another region"));
    assert!(text("names").contains("EKS cluster demo exists"));
    assert!(text("hosted zone").contains("cannot hold paddle.example.org"));
    assert!(text("file system").contains("does not exist"));
    assert!(text("KMS key").contains("does not exist"));
    assert!(text("network quota").contains("7 VPCs"));
    cloud.with(|account| account.fault = Some((0, u32::MAX, lost())));
    let checks = online(&cloud, &spec).await;
    assert_eq!((checks.len(), checks[0].verdict), (1, CheckVerdict::Fail));
}

#[tokio::test(start_paused = true)]
async fn status_follows_the_cluster() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let now =
        time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_454) + time::Duration::hours(2);
    assert!(
        status::status(&cloud, &spec(), None, now)
            .await
            .unwrap()
            .is_absent()
    );
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let status = status::status(&cloud, &spec(), Some(PACE), now)
        .await
        .unwrap();
    assert!(status.is_up());
    assert_eq!(status.hours, Some(2.0));
    assert_eq!(status.stacks[0].drift.as_deref(), Some("IN_SYNC"));
    assert_eq!(status.endpoint.as_deref(), Some("demo-cluster.Endpoint"));
    assert!(cloud.caller().await.is_ok());
}

pub(super) async fn with_credentials(folder: &AssetFolder, spec: &ClusterSpec) {
    let now = time::OffsetDateTime::now_utc();
    let ca = credentials::authority(spec, now).unwrap();
    let mut pairs = credentials::pairs(spec, &ca, now).unwrap();
    pairs.push(ca);
    folder.write_credentials(&pairs, false).unwrap();
}

/// A newer image, another version and more machines once replaced the controller, whose address is in use.
#[tokio::test(start_paused = true)]
async fn the_controller_is_never_replaced() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let mut spec = spec();
    spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    with_credentials(&folder, &spec).await;
    run_up(&cloud, &spec, &folder).await.unwrap();
    cloud.with(|account| account.newest_image = Some("ami-second".to_owned()));
    spec.kubernetes_version = "1.36".to_owned();
    spec.control_plane.instance_type = "t3.large".to_owned();
    spec.workers.count = 4;
    run_up(&cloud, &spec, &folder).await.unwrap();
    let template = std::fs::read_to_string(folder.path("stack-template.json")).unwrap();
    assert!(template.contains("ami-first") && !template.contains("ami-second"));
    let script = std::fs::read_to_string(folder.path("userdata/controller.sh")).unwrap();
    assert!(
        script.contains("version=1.36"),
        "the machine is told, not replaced"
    );
    // What cannot be changed without replacing it is refused, and nothing is touched.
    spec.ssh_key_name = Some("my-key".to_owned());
    let error = run_up(&cloud, &spec, &folder)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("would replace Controller"), "{error}");
    spec.ssh_key_name = None;
    let back = run_up(&cloud, &spec, &folder).await.unwrap().changed;
    assert_eq!(back, [StackLayer::Base], "only port 22 had been opened");
}

#[tokio::test(start_paused = true)]
async fn etcd_stays_with_the_data_and_is_used_again() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let mut spec = spec();
    spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    with_credentials(&folder, &spec).await;
    run_up(&cloud, &spec, &folder).await.unwrap();
    folder
        .write_spec(&crate::spec::write::write(&spec), true)
        .unwrap();
    let down_in = |data| DownOptions {
        folder: Some(folder.clone()),
        ..down_options(Some(data))
    };
    let sink = &mut TalkRecorder::default();
    down(&cloud, &spec, down_in(DataFate::Keep), sink)
        .await
        .unwrap();
    let named = |path: &str| crate::spec::write::text_at(&folder.read_spec().unwrap(), path);
    let etcd_disk = named("controlPlane.etcdVolumeId");
    assert_eq!(etcd_disk.as_deref(), Some("demo-storage.EtcdVolumeId"));
    let bucket = crate::policy::bucket_name(ID);
    cloud.with(|account| {
        assert!(account.volumes.contains_key("demo-storage.EtcdVolumeId"));
        assert!(
            account.buckets.contains_key(&bucket),
            "copies of etcd are in it"
        );
    });
    spec.control_plane.etcd_volume_id = etcd_disk;
    spec.storage.file_system_id = Some("demo-storage.FileSystemId".to_owned());
    spec.kms_key_arn = Some(key_arn("demo-base"));
    run_up(&cloud, &spec, &folder).await.unwrap();
    let script = std::fs::read_to_string(folder.path("userdata/controller.sh")).unwrap();
    assert!(script.contains("volume=demo-storage.EtcdVolumeId"));
    down(&cloud, &spec, down_in(DataFate::Delete), sink)
        .await
        .unwrap();
    assert_eq!(named("controlPlane.etcdVolumeId"), None);
    assert_eq!(named("storage.fileSystemId"), None);
    cloud.with(|account| assert!(account.volumes.is_empty() && account.buckets.is_empty()));
}

/// `validate` called the names free and said nothing of the data for which `up` then refused, and `down --delete-data` called
/// the file system that it had just deleted the user's own.
#[tokio::test(start_paused = true)]
async fn what_a_down_left_is_named_by_validate_and_is_never_the_users_own() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    run_up(&cloud, &spec(), &folder).await.unwrap();
    run_down(&cloud, DataFate::Keep).await.unwrap();
    let data = async |spec: &ClusterSpec| {
        let checks = online(&cloud, spec).await.into_iter();
        let mut data = checks.filter(|check| check.what == "data");
        data.next().unwrap()
    };
    let found = data(&spec()).await;
    assert_eq!(found.verdict, CheckVerdict::Fail);
    assert!(
        found.text.contains("fileSystemId: demo-storage"),
        "{found:?}"
    );
    let mut named = spec();
    named.storage.file_system_id = Some("demo-storage.FileSystemId".to_owned());
    named.kms_key_arn = Some(key_arn("demo-base"));
    assert_eq!(data(&named).await.verdict, CheckVerdict::Pass);
    let sink = &mut TalkRecorder::default();
    let options = down_options(Some(DataFate::Delete));
    down(&cloud, &named, options, sink).await.unwrap();
    assert!(!sink.text().contains("which is yours"), "{}", sink.text());
}

/// Every stage of an upgrade is an update of its own: the workers stay behind until theirs.
#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_through_control_plane_addons_and_workers() {
    use crate::lifecycle::upgrade::{edited, steps};
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let first = spec();
    run_up(&cloud, &first, &folder).await.unwrap();
    let mut text = crate::spec::write::write(&first);
    let mut seen = Vec::new();
    for step in steps(&first, "1.36").unwrap() {
        let spec = crate::spec::read(&text).unwrap().spec;
        let mut addons = std::collections::BTreeMap::new();
        for addon in &spec.addons {
            let version = cloud
                .addon_version(addon, &spec.kubernetes_version)
                .await
                .unwrap();
            addons.insert(addon.clone(), version.unwrap());
        }
        text = edited(&text, &spec, &step, &addons).unwrap();
        let spec = crate::spec::read(&text).unwrap().spec;
        let report = run_up(&cloud, &spec, &folder).await.unwrap();
        assert_eq!(report.changed, [StackLayer::Cluster], "{step:?}");
        let template = std::fs::read_to_string(folder.path("stack-template.json")).unwrap();
        let template: serde_json::Value = serde_json::from_str(&template).unwrap();
        let property = |id: &str, name: &str| {
            let value = &template["Resources"][id]["Properties"][name];
            value.as_str().unwrap_or("default").to_owned()
        };
        seen.push([
            property("Cluster", "Version"),
            property("AddonVpcCni", "AddonVersion"),
            property("Workers", "Version"),
        ]);
    }
    let words = |a: &str, b: &str, c: &str| [a, b, c].map(str::to_owned);
    let addon = "v1.36.7-of-vpc-cni";
    assert_eq!(
        seen,
        [
            words("1.36", "default", "1.35"),
            words("1.36", addon, "1.35"),
            words("1.36", addon, "1.36")
        ]
    );
    assert_eq!(
        cloud.eks_cluster("demo").await.unwrap().as_deref(),
        Some("1.36")
    );
}

#[tokio::test(start_paused = true)]
async fn a_network_of_the_users_own_is_checked_used_and_left_alone() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let (_, mut spec) = crate::matrix::cases()
        .into_iter()
        .find(|(name, _)| name == "eks-given-vpc")
        .unwrap();
    spec.id = Some(ID.to_owned());
    let wrong = |checks: &[validate::Check]| -> String {
        let found = checks.iter().find(|check| check.what == "subnets").unwrap();
        assert_eq!(found.verdict, CheckVerdict::Fail);
        found.text.clone()
    };
    assert!(wrong(&online(&cloud, &spec).await).contains("does not exist"));
    let ids = [
        &spec.network.private_subnet_ids[..],
        &spec.network.public_subnet_ids,
    ]
    .concat();
    cloud.with(|account| {
        account.subnets = (0..4)
            .map(|index| crate::cloud::SubnetView {
                id: ids[index].clone(),
                vpc: "vpc-0123456789abcdef0".to_owned(),
                zone: format!("us-west-2{}", ["a", "b"][index % 2]),
                cidr: format!("10.0.{index}.0/24"),
            })
            .collect();
    });
    let checks = online(&cloud, &spec).await;
    assert!(
        checks
            .iter()
            .any(|c| c.what == "subnets" && c.verdict == CheckVerdict::Pass),
        "{checks:?}"
    );
    cloud.with(|account| account.subnets[1].zone = "us-west-2c".to_owned());
    assert!(wrong(&online(&cloud, &spec).await).contains("is in us-west-2c"));
    cloud.with(|account| account.subnets[0].vpc = "vpc-other".to_owned());
    assert!(wrong(&online(&cloud, &spec).await).contains("is in vpc-other"));
    run_up(&cloud, &spec, &folder).await.unwrap();
    let base = std::fs::read_to_string(folder.path("stacks/base.json")).unwrap();
    assert!(
        !base.contains("AWS::EC2::VPC\"")
            && !base.contains("AWS::EC2::Subnet\"")
            && !base.contains("AWS::EC2::Route")
    );
    run_down_of(&cloud, &spec, DataFate::Delete).await.unwrap();
    cloud.with(|account| assert_eq!(account.subnets.len(), 4));
}
