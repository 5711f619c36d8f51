//! The repository for images: made by its stack, filled by `canoe image push`.

use super::grant::{Grant, PolicyScope, through_stacks};

/// What a push does.
const PUSH: [&str; 6] = [
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
];

/// What the stack does with a repository that is there.
const OWN: [&str; 4] = [
    "ecr:DeleteRepository",
    "ecr:PutImageScanningConfiguration",
    "ecr:TagResource",
    "ecr:UntagResource",
];

pub(super) fn images(scope: PolicyScope<'_>) -> Vec<Grant> {
    if !scope.spec.image_repository {
        return Vec::new();
    }
    let place = place(scope);
    vec![
        Grant::allow("MakeImages", &["ecr:CreateRepository"], place.clone()).when(scope.asked()),
        Grant::allow("TagImages", &["ecr:TagResource"], place.clone())
            .when(through_stacks())
            .when(scope.asked()),
        Grant::allow("OwnImages", &OWN, place.clone()).when(scope.owned()),
        Grant::allow(
            "LookAtImages",
            &[
                "ecr:DescribeRepositories",
                "ecr:GetLifecyclePolicy",
                "ecr:GetRepositoryPolicy",
                "ecr:ListTagsForResource",
            ],
            place,
        ),
    ]
    .into_iter()
    .chain(pushes(scope))
    .collect()
}

/// For the person, when the stack acts by a role of its own.
pub(super) fn push(scope: PolicyScope<'_>) -> Vec<Grant> {
    let looks = ["ecr:DescribeRepositories", "ecr:ListTagsForResource"];
    let mut all = vec![Grant::allow("LookAtImages", &looks, place(scope))];
    all.extend(pushes(scope));
    all
}

/// A login opens what its owner may do, and nothing else.
fn pushes(scope: PolicyScope<'_>) -> [Grant; 2] {
    [
        Grant::allow("PushImages", &PUSH, place(scope)).when(scope.owned()),
        Grant::anywhere("ImageLogin", &["ecr:GetAuthorizationToken"]),
    ]
}

/// ARN of the repository.
fn place(scope: PolicyScope<'_>) -> Vec<String> {
    let name = scope.spec.repository_name();
    vec![scope.arn("ecr", &format!("repository/{name}"))]
}
