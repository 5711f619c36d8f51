//! The cluster's own bucket: whose the one of its name is, and which of its objects we wrote.
//!
//! Its name holds the id, which proves nothing: anybody may take it before us. What proves is the tags. A bucket without any
//! and with nothing in it is what an interrupted creation leaves, and is taken.

use super::stack::stack_tags;
use super::{CommandError, Sink, Talk, own};
use crate::cloud::{Cloud, CloudError};
use crate::node::{COPIES_OF_ETCD, SCRIPTS};
use crate::ownership::{ID_TAG, is_ours, stranger};
use crate::policy::bucket_name;
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::{MAX_BODY, Render, StackLayer, render};

/// Whose the bucket of the cluster's name is.
#[derive(Debug)]
pub(super) enum BucketOwner {
    /// There is none.
    Nothing,
    /// The cluster's.
    Ours,
    /// Made, but not tagged: nothing is in it.
    Unfinished,
    /// Somebody else's, in words.
    Stranger(String),
}

/// Looks at the bucket of this name, which holds the cluster's id.
pub(super) async fn find(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    bucket: &str,
) -> Result<BucketOwner, CloudError> {
    let Some(tags) = cloud.bucket_tags(bucket).await? else {
        return Ok(BucketOwner::Nothing);
    };
    if is_ours(&tags, spec) {
        return Ok(BucketOwner::Ours);
    }
    if !tags.is_empty() {
        let what = format!("bucket {bucket}");
        return Ok(BucketOwner::Stranger(stranger(&what, &tags, spec)));
    }
    if cloud.objects(bucket).await?.is_empty() {
        return Ok(BucketOwner::Unfinished);
    }
    Ok(BucketOwner::Stranger(format!(
        "bucket {bucket} carries no tag {ID_TAG} and is not empty, so it is not this cluster's and stays as it is; its owner may \
         delete it"
    )))
}

/// Size of the largest template.
pub(super) fn largest_template(spec: &ClusterSpec) -> usize {
    let stacks = render(spec, &Render::default());
    let sizes = stacks.iter().map(|stack| stack.compact().len());
    sizes.max().unwrap_or(0)
}

/// Whether the cluster needs a bucket: for a large template, or for the scripts of its machines.
pub(super) fn is_needed(spec: &ClusterSpec) -> bool {
    spec.control_plane.mode == ControlPlaneMode::SelfManaged || largest_template(spec) > MAX_BODY
}

/// Refuses somebody else's bucket before anything is made, if one will be needed.
pub(super) async fn refuse_stranger(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<(), CommandError> {
    if !is_needed(spec) {
        return Ok(());
    }
    match find(cloud, spec, &bucket_name(own::id(spec)?)).await? {
        BucketOwner::Stranger(words) => Err(CommandError::NotOurs(vec![words])),
        _ => Ok(()),
    }
}

/// The cluster's own bucket, made if there is none; somebody else's is refused.
pub(super) async fn ready(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    why: &str,
    sink: &mut impl Sink,
) -> Result<String, CommandError> {
    let bucket = bucket_name(own::id(spec)?);
    let owner = find(cloud, spec, &bucket).await?;
    match owner {
        BucketOwner::Stranger(words) => return Err(CommandError::NotOurs(vec![words])),
        BucketOwner::Ours => {}
        BucketOwner::Nothing => {
            sink.talk(Talk::Step(format!("bucket {bucket} is made for {why}")));
            cloud.create_bucket(&bucket).await?;
            cloud.close_bucket(&bucket).await?;
        }
        BucketOwner::Unfinished => {
            let words = format!("bucket {bucket}, empty and without tags, is taken for {why}");
            sink.talk(Talk::Step(words));
            cloud.close_bucket(&bucket).await?;
        }
    }
    cloud.tag_bucket(&bucket, &stack_tags(spec)).await?;
    Ok(bucket)
}

/// Key of a template.
pub(super) fn template_key(stack: &str) -> String {
    format!("{stack}.json")
}

/// Whether we, or the controller's copies of etcd, wrote the object of this key.
pub(super) fn is_our_object(key: &str, spec: &ClusterSpec) -> bool {
    let template = |layer: StackLayer| key == template_key(&layer.stack_name(&spec.name));
    SCRIPTS.contains(&key)
        || StackLayer::ALL.into_iter().any(template)
        || (key.starts_with(COPIES_OF_ETCD) && key.ends_with(".db"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::AssetFolder;
    use crate::command::tests::{
        ID, down_options, owned, run_down_of, run_up, spec, with_credentials,
    };
    use crate::command::validate::{CheckVerdict, online};
    use crate::double::Double;
    use crate::lifecycle::teardown::DataFate;
    use crate::ownership::Tags;

    fn self_managed() -> ClusterSpec {
        let mut spec = spec();
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        spec
    }

    fn with_bucket(tags: Tags, objects: &[&str]) -> Double {
        let cloud = Double::default();
        let objects = objects.iter().map(|key| (*key).to_owned()).collect();
        cloud.with(|account| account.buckets.insert(bucket_name(ID), (tags, objects)));
        cloud
    }

    fn objects(cloud: &Double) -> Option<Vec<String>> {
        cloud.with(|account| {
            let found = account.buckets.get(&bucket_name(ID));
            found.map(|(_, objects)| objects.iter().cloned().collect())
        })
    }

    fn calls(cloud: &Double) -> String {
        cloud.with(|account| account.calls.join(" "))
    }

    /// A bucket of others was tagged as ours by `up`, and deleted with what was in it by `down`.
    #[tokio::test(start_paused = true)]
    async fn a_bucket_of_others_is_neither_taken_nor_emptied() {
        let team = Tags::from([("team".to_owned(), "web".to_owned())]);
        for tags in [Tags::new(), team] {
            let cloud = with_bucket(tags.clone(), &["precious.txt"]);
            let (spec, place) = (self_managed(), tempfile::tempdir().unwrap());
            let folder = AssetFolder::new(place.path());
            with_credentials(&folder, &spec).await;
            let error = run_up(&cloud, &spec, &folder).await.unwrap_err();
            assert!(matches!(error, CommandError::NotOurs(_)), "{error}");
            assert!(error.to_string().contains(&bucket_name(ID)), "{error}");
            for verb in ["create_", "put_object", "tag_bucket", "close_bucket"] {
                assert!(!calls(&cloud).contains(verb), "{verb}");
            }
            let checks = online(&cloud, &spec).await;
            let bucket = checks.iter().find(|check| check.what == "bucket").unwrap();
            assert_eq!(bucket.verdict, CheckVerdict::Fail, "{}", bucket.text);
            for data in [DataFate::Keep, DataFate::Delete] {
                run_down_of(&cloud, &spec, data).await.unwrap();
            }
            assert_eq!(objects(&cloud).unwrap(), ["precious.txt"]);
            let now = cloud.with(|account| account.buckets[&bucket_name(ID)].0.clone());
            assert_eq!(now, tags);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_that_was_interrupted_is_ended() {
        let cloud = with_bucket(Tags::new(), &[]);
        let (spec, place) = (self_managed(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        with_credentials(&folder, &spec).await;
        run_up(&cloud, &spec, &folder).await.unwrap();
        assert!(calls(&cloud).contains("close_bucket tag_bucket"));
        let tags = cloud.with(|account| account.buckets[&bucket_name(ID)].0.clone());
        assert!(is_ours(&tags, &spec));
    }

    /// What somebody had put into the cluster's bucket went with it.
    #[tokio::test(start_paused = true)]
    async fn what_we_did_not_write_stays_and_is_named() {
        let cloud = with_bucket(owned(ID), &["demo-base.json", "mine.csv"]);
        let sink = &mut crate::command::tests::TalkRecorder::default();
        let options = down_options(Some(DataFate::Delete));
        let report = crate::command::down::down(&cloud, &spec(), options, sink)
            .await
            .unwrap();
        assert_eq!(objects(&cloud).unwrap(), ["demo-base.json", "mine.csv"]);
        assert!(sink.text().contains("mine.csv"), "{}", sink.text());
        assert_eq!(report.kept.len(), 1);
        cloud.with(|account| {
            let bucket = account.buckets.get_mut(&bucket_name(ID)).unwrap();
            bucket.1.remove("mine.csv");
        });
        run_down_of(&cloud, &spec(), DataFate::Keep).await.unwrap();
        assert_eq!(objects(&cloud), None);
    }

    #[test]
    fn our_objects_are_templates_scripts_and_copies_of_etcd() {
        for (key, ours) in [
            ("demo-cluster.json", true),
            ("other-cluster.json", false),
            ("node/worker.sh", true),
            ("node/other.sh", false),
            ("etcd/3-12.db", true),
            ("etcd/notes.txt", false),
            ("precious.txt", false),
        ] {
            assert_eq!(is_our_object(key, &spec()), ours, "{key}");
        }
    }
}
