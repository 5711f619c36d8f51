//! Clusters with options of their own, through their whole life in the double.

use super::tests::{ID, OTHER_ID, owned, run_down_of, run_up, spec};
use super::validate::{Check, CheckVerdict, online};
use crate::assets::AssetFolder;
use crate::double::Double;
use crate::lifecycle::teardown::DataFate;
use crate::spec::ClusterSpec;
use crate::template::{Render, render};

fn case(wanted: &str) -> ClusterSpec {
    let mut cases = crate::matrix::cases().into_iter();
    let (_, mut spec) = cases.find(|(name, _)| name == wanted).unwrap();
    spec.id = Some(ID.to_owned());
    spec
}

fn found<'a>(checks: &'a [Check], what: &str) -> &'a Check {
    checks.iter().find(|check| check.what == what).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_private_cluster_comes_up_twice_and_goes() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let spec = case("eks-endpoints");
    let base = render(&spec, &Render::default()).remove(0).compact();
    assert!(base.contains("AWS::EC2::VPCEndpoint") && base.contains("AWS::ECR::Repository"));
    for absent in ["NatGateway", "InternetGateway", "\"0.0.0.0/0\",\"Gateway"] {
        assert!(!base.contains(absent), "{absent}");
    }
    assert_eq!(
        run_up(&cloud, &spec, &folder).await.unwrap().changed.len(),
        3
    );
    assert_eq!(run_up(&cloud, &spec, &folder).await.unwrap().changed, []);
    run_down_of(&cloud, &spec, DataFate::Delete).await.unwrap();
    assert_eq!(cloud.stack_names(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_image_repository_of_others_is_named() {
    let cloud = Double::default();
    let mut spec = spec();
    let name = "canoe/demo".to_owned();
    cloud.with(|account| account.repositories.insert(name.clone(), owned(OTHER_ID)));
    let checks = online(&cloud, &spec).await;
    assert_eq!(found(&checks, "names").verdict, CheckVerdict::Pass); // nobody asks for one
    spec.image_repository = true;
    let checks = online(&cloud, &spec).await;
    let names = found(&checks, "names");
    assert_eq!(names.verdict, CheckVerdict::Fail);
    assert!(
        names
            .text
            .contains("image repository canoe/demo belongs to the cluster with the id")
    );
}

#[tokio::test(start_paused = true)]
async fn stacks_act_by_the_service_role() {
    let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
    let folder = AssetFolder::new(place.path());
    let plain = spec();
    run_up(&cloud, &plain, &folder).await.unwrap();
    let roles = |cloud: &Double| cloud.with(|account| account.asked_roles.clone());
    assert_eq!(roles(&cloud), [None, None, None]);
    run_down_of(&cloud, &plain, DataFate::Delete).await.unwrap();
    let (cloud, mut spec) = (Double::default(), plain);
    spec.service_role = true;
    let checks = online(&cloud, &spec).await;
    let check = found(&checks, "service role");
    assert_eq!(check.verdict, CheckVerdict::Fail);
    assert!(check.text.contains("policy --write"), "{}", check.text);
    let arn = "arn:aws:iam::123456789012:role/demo-us-west-2-stacks".to_owned();
    cloud.with(|account| {
        account
            .roles
            .insert("demo-us-west-2-stacks".to_owned(), arn.clone())
    });
    let checks = online(&cloud, &spec).await;
    assert_eq!(found(&checks, "service role").verdict, CheckVerdict::Pass);
    run_up(&cloud, &spec, &folder).await.unwrap();
    assert_eq!(
        roles(&cloud),
        [Some(arn.clone()), Some(arn.clone()), Some(arn)]
    );
}
