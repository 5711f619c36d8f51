//! S3: a bucket for templates that are too large, closed to the public from the start.

use hyper::Method;

use super::client::{Aws, Call};
use super::pages::Tokens;
use super::query::{encode, entries_named, field, read, text};
use crate::cloud::CloudError;
use crate::ownership::Tags;

/// Namespace of S3's documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

impl Aws {
    async fn s3(
        &self,
        action: &str,
        method: Method,
        path: String,
        body: String,
    ) -> Result<String, CloudError> {
        let call = Call {
            action,
            service: "s3",
            method,
            path,
            headers: vec![("content-type", "application/xml".to_owned())],
            body: body.into_bytes(),
        };
        text(action, self.send(call).await?)
    }

    /// `None` when there is no such bucket; one without tags has a response of its own.
    pub(super) async fn s3_tags(&self, bucket: &str) -> Result<Option<Tags>, CloudError> {
        let action = "s3:GetBucketTagging";
        let path = format!("/{bucket}?tagging=");
        match self.s3(action, Method::GET, path, String::new()).await {
            Ok(xml) => read(action, &xml, |root| {
                let all = root.descendants();
                let tags = all.filter(|node| node.tag_name().name() == "Tag");
                Some(
                    tags.map(|tag| (field(tag, "Key"), field(tag, "Value")))
                        .collect(),
                )
            }),
            Err(CloudError::Refused { code, .. }) if code == "NoSuchTagSet" => {
                Ok(Some(Tags::new()))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn s3_tag(&self, bucket: &str, tags: &Tags) -> Result<(), CloudError> {
        let tag = |(key, value): (&String, &String)| {
            let (key, value) = (escaped(key), escaped(value));
            format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")
        };
        let tags: String = tags.iter().map(tag).collect();
        let body = format!("<Tagging xmlns=\"{NAMESPACE}\"><TagSet>{tags}</TagSet></Tagging>");
        let path = format!("/{bucket}?tagging=");
        self.s3("s3:PutBucketTagging", Method::PUT, path, body)
            .await
            .map(drop)
    }

    pub(super) async fn s3_create(&self, bucket: &str) -> Result<(), CloudError> {
        let region = self.region();
        let body = if region == "us-east-1" {
            String::new()
        } else {
            format!(
                "<CreateBucketConfiguration xmlns=\"{NAMESPACE}\"><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            )
        };
        self.s3("s3:CreateBucket", Method::PUT, format!("/{bucket}"), body)
            .await
            .map(drop)
    }

    pub(super) async fn s3_close(&self, bucket: &str) -> Result<(), CloudError> {
        let block = format!(
            "<PublicAccessBlockConfiguration xmlns=\"{NAMESPACE}\"><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>"
        );
        let path = format!("/{bucket}?publicAccessBlock=");
        self.s3("s3:PutBucketPublicAccessBlock", Method::PUT, path, block)
            .await
            .map(drop)
    }

    pub(super) async fn s3_put(
        &self,
        bucket: &str,
        key: &str,
        body: &str,
    ) -> Result<String, CloudError> {
        let path = format!("/{bucket}/{}", encode(key));
        self.s3("s3:PutObject", Method::PUT, path.clone(), body.to_owned())
            .await?;
        Ok(format!("{}{path}", self.endpoint("s3")?))
    }

    pub(super) async fn s3_list(&self, bucket: &str) -> Result<Vec<String>, CloudError> {
        let action = "s3:ListObjectsV2";
        let mut tokens = Tokens::default();
        let mut all = Vec::new();
        loop {
            let more = tokens.query("&continuation-token=");
            let path = format!("/{bucket}?list-type=2{more}");
            let xml = self.s3(action, Method::GET, path, String::new()).await?;
            let (mut page, next) = read(action, &xml, |root| {
                let keys = entries_named(root, "Contents", "Key");
                (keys, field(root, "NextContinuationToken"))
            })?;
            all.append(&mut page);
            if !tokens.follow(action, next)? {
                return Ok(all);
            }
        }
    }

    pub(super) async fn s3_delete(&self, path: String) -> Result<(), CloudError> {
        self.s3("s3:Delete", Method::DELETE, path, String::new())
            .await
            .map(drop)
    }
}

/// Text inside an XML element.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}
