//! ECR: a login for the account's registry, good for twelve hours, and whose a repository is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::Aws;
use crate::cloud::CloudError;
use crate::ownership::Tags;

/// A name and a password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The name; `AWS`.
    pub user: String,
    /// Valid for twelve hours.
    pub password: String,
}

impl Aws {
    /// Asks for a login to the registry of this account and region.
    pub async fn registry_login(&self) -> Result<RegistryLogin, CloudError> {
        let action = "ecr:GetAuthorizationToken";
        let reply = self
            .json("ecr", &target("GetAuthorizationToken"), &json!({}))
            .await?;
        read(&reply).ok_or_else(|| CloudError::Unreadable {
            action: action.to_owned(),
            reason: "there is no token in the reply".to_owned(),
        })
    }

    /// Tags of a repository, if there is one of this name.
    pub(super) async fn find_repository(&self, name: &str) -> Result<Option<Tags>, CloudError> {
        let asked = json!({"repositoryNames": [name]});
        let reply = match self
            .json("ecr", &target("DescribeRepositories"), &asked)
            .await
        {
            Ok(reply) => reply,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        };
        let arn = &reply["repositories"][0]["repositoryArn"];
        let asked = json!({"resourceArn": arn});
        let reply = self
            .json("ecr", &target("ListTagsForResource"), &asked)
            .await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tags = reply["tags"].as_array().into_iter().flatten();
        let tags = tags.map(|tag| (text(&tag["Key"]), text(&tag["Value"])));
        Ok(Some(tags.collect()))
    }
}

fn target(operation: &str) -> String {
    format!("AmazonEC2ContainerRegistry_V20150921.{operation}")
}

/// The first token of a reply: base64 of `name:password`.
fn read(reply: &Value) -> Option<RegistryLogin> {
    let token = reply["authorizationData"][0]["authorizationToken"].as_str()?;
    let pair = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some(RegistryLogin {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_unpacked() {
        let token = STANDARD.encode("AWS:secret:with:colons");
        let reply = json!({"authorizationData": [{"authorizationToken": token}]});
        let login = read(&reply).unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str()),
            ("AWS", "secret:with:colons")
        );
        for wrong in [
            json!(null),
            json!({}),
            json!({"authorizationData": [{"authorizationToken": "%"}]}),
        ] {
            assert!(read(&wrong).is_none(), "{wrong}");
        }
    }
}
