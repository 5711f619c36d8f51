//! The commands against the double: the way there, the way back, and every fault in between.

use std::time::Duration;

use super::down::{DownOptions, down};
use super::stack::Review;
use super::up::{UpOptions, up};
use super::validate::{Verdict, online};
use super::*;
use crate::assets::AssetFolder;
use crate::cloud::Cloud as _;
use crate::credentials;
use crate::double::{Double, refused};
use crate::lifecycle::teardown::Interface;
use crate::spec::{ClusterSpec, Mode};
use crate::template::Layer;

#[derive(Default)]
struct Recorder {
    talk: Vec<Talk>,
    answer: bool,
}

impl Sink for Recorder {
    fn talk(&mut self, talk: Talk) {
        self.talk.push(talk);
    }

    fn confirm(&mut self, _question: &str) -> bool {
        self.answer
    }
}

const PACE: Pace = Pace {
    poll: Duration::from_millis(10),
    patience: Duration::from_secs(5),
    delete_attempts: 5,
};

fn spec() -> ClusterSpec {
    ClusterSpec::new("demo", "us-west-2")
}

async fn run_up(
    cloud: &Double,
    spec: &ClusterSpec,
    folder: &AssetFolder,
) -> Result<up::UpReport, CommandError> {
    let options = UpOptions {
        review: Review::Show,
        pace: PACE,
    };
    up(cloud, spec, folder, options, &mut Recorder::default()).await
}

async fn run_down(cloud: &Double, keep_data: bool) -> Result<down::DownReport, CommandError> {
    run_down_of(cloud, &spec(), keep_data).await
}

async fn run_down_of(
    cloud: &Double,
    spec: &ClusterSpec,
    keep_data: bool,
) -> Result<down::DownReport, CommandError> {
    let options = DownOptions {
        keep_data,
        ask: false,
        force: false,
        kubectl: None,
        pace: PACE,
    };
    down(cloud, spec, options, &mut Recorder::default()).await
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
    assert_eq!(report.changed, Layer::ALL);
    assert_eq!(report.file_system, "demo-storage.FileSystemId");
    assert!(folder.path("kubeconfig").is_file() && folder.path("manifests/volume.json").is_file());
    let again = run_up(&cloud, &spec(), &folder).await.unwrap();
    assert!(again.changed.is_empty(), "{:?}", again.changed);
    let mut larger = spec();
    larger.workers.count = 5;
    assert_eq!(
        run_up(&cloud, &larger, &folder).await.unwrap().changed,
        [Layer::Cluster]
    );
}

#[tokio::test(start_paused = true)]
async fn down_takes_everything_in_order_and_twice_is_once() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let bucket = crate::policy::bucket_name(&spec(), "123456789012");
    cloud.with(|account| {
        account.load_balancers.insert("lb".to_owned());
        account.volumes.insert("vol-1".to_owned());
        account
            .buckets
            .entry(bucket.clone())
            .or_default()
            .insert("demo-base.json".to_owned());
        account.calls.clear();
        account.slowness = 3;
    });
    let report = run_down(&cloud, false).await.unwrap();
    assert!(report.kept.is_empty());
    assert!(names(&cloud).is_empty());
    cloud.with(|account| {
        assert!(
            account.buckets.is_empty()
                && account.volumes.is_empty()
                && account.interfaces.is_empty()
        );
        assert!(account.log_groups.is_empty() && account.retained.is_empty());
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
                "delete_stack demo-base",
                "delete_log_group /aws/eks/demo/cluster",
            ]
        );
    });
    run_down(&cloud, false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn data_and_key_stay_when_asked_to() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    let report = run_down(&cloud, true).await.unwrap();
    assert!(names(&cloud).is_empty());
    assert_eq!(
        cloud.with(|account| account.retained.iter().cloned().collect::<Vec<_>>()),
        ["demo-base.Key", "demo-storage.FileSystem"]
    );
    let what: Vec<&str> = report.kept.iter().map(|remains| remains.what).collect();
    assert_eq!(what, ["file system", "key"], "{:?}", report.kept);
    // The next cluster uses both, and its `down` without the wish to keep takes them away.
    let key = report.kept[1].arn.clone();
    let mut again = spec();
    again.storage.file_system_id = Some("demo-storage.FileSystemId".to_owned());
    again.kms_key_arn = Some(key.clone());
    let up = run_up(&cloud, &again, &AssetFolder::new(place.path()))
        .await
        .unwrap();
    assert_eq!(up.file_system, "demo-storage.FileSystemId");
    let report = run_down_of(&cloud, &again, false).await.unwrap();
    assert_eq!(
        report.forgotten,
        ["demo-storage.FileSystemId".to_owned(), key.clone()]
    );
    assert!(names(&cloud).is_empty());
    cloud.with(|account| {
        assert!(
            account.file_systems.is_empty(),
            "{:?}",
            account.file_systems
        );
        assert!(account.pending_keys.contains(&key));
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
        let met_down = disturbed(&cloud, call, run_down(&cloud, false)).await;
        run_down(&cloud, false).await.unwrap();
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
        error.contains("sign in again") && error.contains("goes on where it stopped"),
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
        [Layer::Cluster]
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
        [Layer::Cluster]
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
        status: "in-use".to_owned(),
        description: "ELB net/x".to_owned(),
    };
    cloud.with(|account| account.interfaces.push(stubborn));
    let error = run_down(&cloud, false).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("eni-lb") && text.contains("canoe cluster down"),
        "{text}"
    );
    assert_eq!(names(&cloud), ["demo-base"]);
    cloud.with(|account| account.interfaces.clear());
    run_down(&cloud, false).await.unwrap();
    assert!(names(&cloud).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_without_consent() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let options = UpOptions {
        review: Review::Ask,
        pace: PACE,
    };
    let mut no = Recorder::default();
    let error = up(&cloud, &spec(), &folder, options, &mut no)
        .await
        .unwrap_err();
    assert!(matches!(error, CommandError::Declined));
    assert!(
        no.talk
            .iter()
            .any(|talk| matches!(talk, Talk::Detail(line) if line.contains("Vpc")))
    );
    run_up(&cloud, &spec(), &folder).await.unwrap();
    let options = DownOptions {
        keep_data: false,
        ask: true,
        force: false,
        kubectl: None,
        pace: PACE,
    };
    let mut no = Recorder::default();
    assert!(matches!(
        down(&cloud, &spec(), options, &mut no).await,
        Err(CommandError::Declined)
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
    spec.control_plane.mode = Mode::SelfManaged;
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
        checks.iter().all(|check| check.verdict == Verdict::Pass),
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
        .filter(|check| check.verdict == Verdict::Fail)
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
    assert!(text("network quota").contains("7 VPCs"));
    cloud.with(|account| account.fault = Some((0, u32::MAX, lost())));
    let checks = online(&cloud, &spec).await;
    assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Fail));
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
