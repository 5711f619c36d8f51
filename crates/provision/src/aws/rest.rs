//! S3: a bucket for templates that are too large, closed to the public from the start.

use hyper::Method;

use super::client::{Aws, Call};
use super::query::{encode, entries_named, read, text};
use crate::cloud::CloudError;

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

    pub(super) async fn s3_exists(&self, bucket: &str) -> Result<bool, CloudError> {
        let path = format!("/{bucket}?location=");
        match self
            .s3("s3:GetBucketLocation", Method::GET, path, String::new())
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn s3_create(&self, bucket: &str) -> Result<(), CloudError> {
        let region = self.region();
        let body = if region == "us-east-1" {
            String::new()
        } else {
            format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            )
        };
        self.s3("s3:CreateBucket", Method::PUT, format!("/{bucket}"), body)
            .await?;
        let block = "<PublicAccessBlockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
        let path = format!("/{bucket}?publicAccessBlock=");
        self.s3(
            "s3:PutBucketPublicAccessBlock",
            Method::PUT,
            path,
            block.to_owned(),
        )
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
        Ok(format!("{}{path}", self.endpoint("s3")))
    }

    pub(super) async fn s3_list(&self, bucket: &str) -> Result<Vec<String>, CloudError> {
        let action = "s3:ListObjectsV2";
        let xml = self
            .s3(
                action,
                Method::GET,
                format!("/{bucket}?list-type=2"),
                String::new(),
            )
            .await?;
        read(action, &xml, |root| entries_named(root, "Contents", "Key"))
    }

    pub(super) async fn s3_delete(&self, path: String) -> Result<(), CloudError> {
        self.s3("s3:Delete", Method::DELETE, path, String::new())
            .await
            .map(drop)
    }
}
