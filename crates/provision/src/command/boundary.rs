//! The boundary of the roles: there before the first role, gone after the last.
//!
//! An operator's policy does not allow to make or change it, or it would bound nobody. Whoever may (the owner
//! of an account of one's own, an administrator) gets it from `up`; for others an administrator makes it once.

use serde_json::Value;

use super::stack::stack_tags;
use super::{CommandError, Sink, Talk};
use crate::cloud::{Cloud, CloudError, PolicyView};
use crate::ownership::{has_id, stranger};
use crate::policy::{boundary, boundary_arn, boundary_name};
use crate::spec::ClusterSpec;

/// Whose policy of the boundary's name is in the way, if one is. The name of the policy holds that of the cluster, so the
/// id is enough.
pub(super) async fn foreign(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Option<String>, CloudError> {
    let arn = boundary_arn(spec, &cloud.caller().await?.account);
    let Some(view) = cloud.policy(&arn).await? else {
        return Ok(None);
    };
    let what = format!("policy {}", boundary_name(spec));
    let ours = has_id(&view.tags, spec.id.as_deref());
    Ok((!ours).then(|| stranger(&what, &view.tags, spec)))
}

/// What a run of `up` has done about the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundaryProgress {
    /// Nothing yet.
    Untouched,
    /// It was there.
    Found,
    /// It was made.
    Made,
}

impl BoundaryProgress {
    /// Sees to the boundary, once in a run: not before the first plan was agreed to, and before the first role.
    pub(super) async fn ensure(
        &mut self,
        cloud: &impl Cloud,
        spec: &ClusterSpec,
        sink: &mut impl Sink,
    ) -> Result<(), CommandError> {
        if *self == Self::Untouched {
            *self = match ensure(cloud, spec, sink).await? {
                true => Self::Made,
                false => Self::Found,
            };
        }
        Ok(())
    }
}

/// Makes the boundary if there is none, and brings it up to date: what it allows depends on the cluster file. Somebody
/// else's was refused before. Returns whether it was made.
async fn ensure(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    sink: &mut impl Sink,
) -> Result<bool, CommandError> {
    let arn = boundary_arn(spec, &cloud.caller().await?.account);
    let wanted = boundary(spec);
    if let Some(view) = cloud.policy(&arn).await? {
        update(cloud, spec, &arn, &view, &wanted, sink).await?;
        return Ok(false);
    }
    let name = boundary_name(spec);
    match cloud
        .create_policy(&name, &wanted.to_string(), &stack_tags(spec))
        .await
    {
        Ok(()) => {
            sink.talk(Talk::Step(format!(
                "creating policy {name}: the most that any role of the cluster may do"
            )));
            Ok(true)
        }
        // An earlier run's request was still on its way.
        Err(error) if error.is_taken() => match foreign(cloud, spec).await? {
            Some(words) => Err(CommandError::NotOurs(vec![words])),
            None => Ok(false),
        },
        Err(error) if error.is_denied() => Err(CommandError::Decision(format!(
            "policy {name} is missing, which bounds the roles of the cluster, and you may not make it; \
             an administrator runs what `canoe cluster policy --write` prints"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Gives the boundary the document that the cluster file asks for, if it has another.
async fn update(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    arn: &str,
    view: &PolicyView,
    wanted: &Value,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let name = boundary_name(spec);
    let not_now = |sink: &mut dyn FnMut(Talk), why: &str| {
        sink(Talk::Warning(format!(
            "policy {name}, which bounds the roles of the cluster, {why}; pods may be refused what cluster.yaml asks for, \
             until an administrator runs what `canoe cluster policy --write` prints"
        )));
    };
    let document = match cloud.policy_document(arn, &view.version).await {
        Ok(document) => document,
        Err(error) if error.is_denied() => {
            not_now(
                &mut |talk| sink.talk(talk),
                "cannot be compared: you may not read it",
            );
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if serde_json::from_str::<Value>(&document).is_ok_and(|found| found == *wanted) {
        return Ok(());
    }
    match cloud.update_policy(arn, &wanted.to_string()).await {
        Ok(()) => {
            sink.talk(Talk::Step(format!(
                "policy {name} is brought up to date with cluster.yaml"
            )));
            Ok(())
        }
        Err(error) if error.is_denied() => {
            not_now(
                &mut |talk| sink.talk(talk),
                "is not what cluster.yaml asks for, and you may not change it",
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the boundary if it is ours, and if the caller may; it costs nothing.
pub(super) async fn remove(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let arn = boundary_arn(spec, &cloud.caller().await?.account);
    let found = cloud.policy(&arn).await?;
    if !found.is_some_and(|view| has_id(&view.tags, spec.id.as_deref())) {
        return Ok(());
    }
    match cloud.delete_policy(&arn).await {
        Err(error) if error.is_denied() => {
            let name = boundary_name(spec);
            sink.talk(Talk::Detail(format!(
                "policy {name} stays: it costs nothing, and an administrator can delete it"
            )));
            Ok(())
        }
        Err(error) if !error.is_missing() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::assets::AssetFolder;
    use crate::cloud::Cloud as _;
    use crate::command::stack::ChangeReview;
    use crate::command::tests::{
        ID, OTHER_ID, PACE, TalkRecorder, owned, run_down_of, run_up, spec,
    };
    use crate::command::up::{UpOptions, up};
    use crate::double::Double;
    use crate::lifecycle::teardown::DataFate;
    use crate::ownership::Tags;

    const ARN: &str = "arn:aws:iam::123456789012:policy/demo-us-west-2-boundary";

    fn policies(cloud: &Double) -> Vec<(String, Tags)> {
        let tags = |(arn, (tags, _)): (&String, &(Tags, String))| (arn.clone(), tags.clone());
        cloud.with(|account| account.policies.iter().map(tags).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_may_gets_the_boundary_from_up_and_loses_it_with_down() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        run_up(&cloud, &spec(), &folder).await.unwrap();
        assert_eq!(policies(&cloud), [(ARN.to_owned(), owned(ID))]);
        run_down_of(&cloud, &spec(), DataFate::Delete)
            .await
            .unwrap();
        assert_eq!(policies(&cloud), []);
    }

    /// It was made before anything was shown or asked.
    #[tokio::test(start_paused = true)]
    async fn a_no_to_the_first_plan_makes_no_policy() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        let options = UpOptions {
            program: "/usr/bin/canoe".to_owned(),
            review: ChangeReview::Ask,
            pace: PACE,
        };
        let sink = &mut TalkRecorder::default();
        let error = up(&cloud, &spec(), &folder, options, sink).await;
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("nothing was changed")
        );
        assert_eq!(policies(&cloud), []);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_needs_the_boundary_and_cannot_remove_it() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        cloud.with(|account| account.operator = true);
        let error = run_up(&cloud, &spec(), &folder).await.unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("demo-us-west-2-boundary") && words.contains("an administrator runs"),
            "{words}"
        );
        assert!(cloud.stack("demo-base").await.unwrap().is_none());
        assert_eq!(cloud.stack_names(), [""; 0]);
        let document = crate::policy::boundary(&spec()).to_string();
        cloud.with(|account| {
            let policy = (owned(ID), document);
            account.policies.insert(ARN.to_owned(), policy)
        });
        run_up(&cloud, &spec(), &folder).await.unwrap();
        run_down_of(&cloud, &spec(), DataFate::Delete)
            .await
            .unwrap();
        assert_eq!(policies(&cloud).len(), 1);
    }

    /// Whatever somebody else's policy of this name allowed, `*:*` too, bounded the roles.
    #[tokio::test(start_paused = true)]
    async fn a_boundary_of_others_is_refused_and_stays() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        for tags in [owned(OTHER_ID), Tags::new()] {
            cloud.with(|account| {
                let policy = (tags.clone(), "{}".to_owned());
                account.policies.insert(ARN.to_owned(), policy)
            });
            let error = run_up(&cloud, &spec(), &folder).await.unwrap_err();
            assert!(
                error.to_string().contains("policy demo-us-west-2-boundary"),
                "{error}"
            );
            assert_eq!(policies(&cloud), [(ARN.to_owned(), tags)]);
            assert_eq!(cloud.stack_names(), [""; 0]);
        }
    }

    /// A bucket that was added to cluster.yaml later was never let through.
    #[tokio::test(start_paused = true)]
    async fn the_boundary_follows_the_cluster_file() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        run_up(&cloud, &spec(), &folder).await.unwrap();
        let mut with_data = spec();
        with_data.storage.buckets = vec!["my-data".to_owned()];
        let document = |cloud: &Double| cloud.with(|account| account.policies[ARN].1.clone());
        cloud.with(|account| account.operator = true);
        run_up(&cloud, &with_data, &folder).await.unwrap();
        assert!(!document(&cloud).contains("my-data"), "an operator may not");
        cloud.with(|account| account.operator = false);
        run_up(&cloud, &with_data, &folder).await.unwrap();
        assert!(document(&cloud).contains("my-data"));
        let calls = cloud.with(|account| account.calls.len());
        run_up(&cloud, &with_data, &folder).await.unwrap();
        let again = cloud.with(|account| account.calls[calls..].join(" "));
        assert!(!again.contains("update_policy"), "{again}");
    }

    /// The request of a run that was killed arrived while the next one looked.
    #[tokio::test(start_paused = true)]
    async fn a_boundary_that_comes_late_is_used() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        cloud.with(|account| {
            let policy = (owned(ID), crate::policy::boundary(&spec()).to_string());
            account.policies.insert(ARN.to_owned(), policy);
            account.slow_policies = 2;
        });
        run_up(&cloud, &spec(), &folder).await.unwrap();
    }
}
