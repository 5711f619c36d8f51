//! The boundary of the roles: there before the first role, gone after the last.
//!
//! An operator's policy does not allow to make or change it, or it would bound nobody. Whoever may (the owner
//! of an account of one's own, an administrator) gets it from `up`; for others an administrator makes it once.

use super::stack::stack_tags;
use super::{CommandError, Sink, Talk};
use crate::cloud::Cloud;
use crate::ownership::is_ours;
use crate::policy::{boundary, boundary_arn, boundary_name};
use crate::spec::ClusterSpec;

/// Makes the boundary if there is none.
pub(super) async fn ensure(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let arn = boundary_arn(spec, &cloud.caller().await?.account);
    if cloud.policy_tags(&arn).await?.is_some() {
        return Ok(());
    }
    let name = boundary_name(spec);
    let document = boundary(spec).to_string();
    match cloud
        .create_policy(&name, &document, &stack_tags(spec))
        .await
    {
        Ok(()) => {
            sink.talk(Talk::Step(format!(
                "creating policy {name}: the most that any role of the cluster may do"
            )));
            Ok(())
        }
        Err(error) if error.is_denied() => Err(CommandError::Decision(format!(
            "policy {name} is missing, which bounds the roles of the cluster, and you may not make it; \
             an administrator runs what `canoe cluster policy --write` prints"
        ))),
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
    let tags = cloud.policy_tags(&arn).await?;
    if !tags.is_some_and(|tags| is_ours(&tags, spec.id.as_deref())) {
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
    use crate::command::tests::{ID, OTHER_ID, owned, run_down_of, run_up, spec};
    use crate::double::Double;
    use crate::lifecycle::teardown::DataFate;
    use crate::ownership::Tags;

    const ARN: &str = "arn:aws:iam::123456789012:policy/demo-us-west-2-boundary";

    fn policies(cloud: &Double) -> Vec<(String, Tags)> {
        cloud.with(|account| account.policies.clone().into_iter().collect())
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
        assert_eq!(cloud.stack_names(), [""; 0]);
        cloud.with(|account| account.policies.insert(ARN.to_owned(), owned(ID)));
        run_up(&cloud, &spec(), &folder).await.unwrap();
        run_down_of(&cloud, &spec(), DataFate::Delete)
            .await
            .unwrap();
        assert_eq!(policies(&cloud).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_boundary_of_others_is_used_and_stays() {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        cloud.with(|account| account.policies.insert(ARN.to_owned(), owned(OTHER_ID)));
        run_up(&cloud, &spec(), &folder).await.unwrap();
        run_down_of(&cloud, &spec(), DataFate::Delete)
            .await
            .unwrap();
        assert_eq!(policies(&cloud), [(ARN.to_owned(), owned(OTHER_ID))]);
    }
}
