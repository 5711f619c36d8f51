//! Parses the XML documents of S3. Pure. Names of objects are untrusted: this module only returns them.

use roxmltree::{Document, Node};

use crate::client::Object;

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListingPage {
    pub objects: Vec<Object>,
    /// Where the next page begins.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorDocument {
    pub code: String,
    pub message: String,
    pub region: Option<String>,
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<&'a str> {
    let mut children = node.children();
    let found = children.find(|child| child.tag_name().name() == name)?;
    Some(found.text().unwrap_or_default())
}

/// A page of `ListObjectsV2`.
pub(crate) fn page(xml: &str) -> Result<ListingPage, String> {
    let document = Document::parse(xml).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "ListBucketResult" {
        return Err(format!("a {:?} came", root.tag_name().name()));
    }
    let mut page = ListingPage::default();
    let contents = root.children();
    for node in contents.filter(|node| node.tag_name().name() == "Contents") {
        let key = child(node, "Key").ok_or("an object without a key")?;
        let size = child(node, "Size").and_then(|size| size.parse().ok());
        page.objects.push(Object {
            key: key.to_owned(),
            size: size.ok_or("an object without a size")?,
            etag: child(node, "ETag").map(etag).unwrap_or_default(),
        });
    }
    if child(root, "IsTruncated") == Some("true") {
        let next = child(root, "NextContinuationToken");
        page.next = Some(next.ok_or("a page without the next one")?.to_owned());
    }
    Ok(page)
}

/// An entity tag without its quotes.
pub(crate) fn etag(text: &str) -> String {
    text.trim_matches('"').to_owned()
}

/// The contents of a header such as `bytes 5-9/10`.
#[derive(Debug, PartialEq)]
pub(crate) struct ContentRange {
    /// Where the part begins.
    pub(crate) start: u64,
    /// Length of the whole object.
    pub(crate) total: u64,
}

pub(crate) fn range(text: &str) -> Option<ContentRange> {
    let (range, total) = text.trim().strip_prefix("bytes")?.split_once('/')?;
    let start = range.trim().split_once('-')?.0;
    Some(ContentRange {
        start: start.parse().ok()?,
        total: total.trim().parse().ok()?,
    })
}

/// The number of a multipart upload.
pub(crate) fn upload_id(xml: &str) -> Result<String, String> {
    let document = Document::parse(xml).map_err(|error| error.to_string())?;
    let id = child(document.root_element(), "UploadId").filter(|id| !id.is_empty());
    id.map(str::to_owned)
        .ok_or_else(|| "an upload without a number".to_owned())
}

/// Why a request was refused; servers and proxies in between may send anything.
pub(crate) fn refusal(body: &str) -> ErrorDocument {
    let Ok(document) = Document::parse(body) else {
        return ErrorDocument::default();
    };
    let root = document.root_element();
    let text = |name| child(root, name).unwrap_or_default().to_owned();
    ErrorDocument {
        code: text("Code"),
        message: text("Message"),
        region: child(root, "Region").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read_page_by_page() {
        let xml = r#"<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true</IsTruncated>
            <Contents><Key>a/b &amp; c</Key><Size>7</Size><ETag>&quot;0123&quot;</ETag></Contents><NextContinuationToken>t=</NextContinuationToken></ListBucketResult>"#;
        let page = page(xml).unwrap();
        assert_eq!(page.next.as_deref(), Some("t="));
        assert_eq!(
            page.objects,
            [Object {
                key: "a/b & c".into(),
                size: 7,
                etag: "0123".into()
            }]
        );
    }

    #[test]
    fn what_is_no_listing_is_refused() {
        for xml in [
            "",
            "<html/>",
            "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        ] {
            assert!(page(xml).is_err(), "{xml}");
        }
        let said = refusal("<Error><Code>NoSuchBucket</Code><Message>not there</Message></Error>");
        assert_eq!(
            (said.code.as_str(), said.message.as_str()),
            ("NoSuchBucket", "not there")
        );
        assert_eq!(refusal("<html>Bad Gateway"), ErrorDocument::default());
        assert!(upload_id("<a/>").is_err());
        let part = ContentRange {
            start: 5,
            total: 10,
        };
        assert_eq!(range("bytes 5-9/10"), Some(part));
        assert_eq!(range("bytes */10"), None);
        assert_eq!(range("bytes 5-9/*"), None);
    }
}
