//! Names as AWS will judge them, so that a bad one is found before anything is made.

use crate::partition::Partition;

/// A rule that a name must meet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameRule {
    /// What is named.
    pub what: &'static str,
    /// Fewest and most characters.
    pub length: (usize, usize),
    /// What a name looks like, in words.
    pub form: &'static str,
    accepts: fn(&str) -> bool,
}

impl NameRule {
    /// `None` when the name is good, else what is wrong with it.
    pub(crate) fn complaint(&self, name: &str) -> Option<String> {
        let (low, high) = self.length;
        let count = name.chars().count();
        if count < low || count > high {
            return Some(format!(
                "{name:?} has {count} characters, a {} has {low} to {high}",
                self.what
            ));
        }
        (!(self.accepts)(name)).then(|| format!("{name:?} is not a {}", self.what))
    }
}

/// Our cluster names: a stack name that leaves room for what is appended to role and bucket names.
pub(crate) const CLUSTER: NameRule = NameRule {
    what: "cluster name",
    length: (1, 32),
    form: "a letter, then letters, digits and hyphens, not ending in a hyphen",
    accepts: |name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !name.ends_with('-')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    },
};

/// EC2 key pairs.
pub(crate) const KEY_PAIR: NameRule = NameRule {
    what: "key pair name",
    length: (1, 255),
    form: "printable ASCII without spaces at either end",
    accepts: |name| name.bytes().all(|b| (32..127).contains(&b)) && name.trim() == name,
};

/// S3 buckets.
pub(crate) const BUCKET: NameRule = NameRule {
    what: "bucket name",
    length: (3, 63),
    form: "lower-case letters, digits and hyphens, beginning and ending with a letter or digit",
    accepts: |name| {
        let end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        name.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && end(name.as_bytes().first())
            && end(name.as_bytes().last())
            && !name.starts_with("xn--")
            && !name.ends_with("-s3alias")
    },
};

/// Groups of workers.
pub(crate) const GROUP: NameRule = NameRule {
    what: "group name",
    length: (1, 20),
    form: "a lower-case letter, then lower-case letters, digits and hyphens",
    accepts: |name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    },
};

/// Whether a text is an id of EC2 of this kind: `vpc-` and eight or seventeen hexadecimal digits.
pub(crate) fn is_ec2_id(kind: &str, text: &str) -> bool {
    let digits = text
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('-'));
    digits.is_some_and(|digits| {
        [8, 17].contains(&digits.len())
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// DNS names of at least two labels.
pub(crate) const DNS: NameRule = NameRule {
    what: "DNS name",
    length: (3, 253),
    form: "labels of letters, digits and hyphens joined by dots, such as paddle.example.com",
    accepts: |name| name.contains('.') && name.split('.').all(dns_label),
};

/// Route 53 zones.
pub(crate) const HOSTED_ZONE: NameRule = NameRule {
    what: "hosted zone id",
    length: (2, 32),
    form: "a Z and capital letters and digits, such as Z0123456789ABCDEFGHIJ",
    accepts: |name| {
        name.starts_with('Z')
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    },
};

/// Ids of clusters.
pub(crate) const CLUSTER_ID: NameRule = NameRule {
    what: "cluster id",
    length: (36, 36),
    form: "a UUID in small letters, as `canoe cluster init` writes it",
    accepts: |id| {
        id.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
    },
};

/// EFS file systems.
pub(crate) const FILE_SYSTEM: NameRule = NameRule {
    what: "file system id",
    length: (11, 43),
    form: "fs- and hexadecimal digits, such as fs-0123456789abcdef0",
    accepts: |name| {
        name.strip_prefix("fs-").is_some_and(|rest| {
            rest.bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    },
};

/// Tag keys; `aws:` is reserved.
pub(crate) const TAG_KEY: NameRule = NameRule {
    what: "tag key",
    length: (1, 128),
    form: "letters, digits, spaces and _ . : / = + - @, not beginning with aws:",
    accepts: |name| {
        !name.to_ascii_lowercase().starts_with("aws:") && name.chars().all(tag_character)
    },
};

/// Tag values.
pub(crate) const TAG_VALUE: NameRule = NameRule {
    what: "tag value",
    length: (0, 256),
    form: "letters, digits, spaces and _ . : / = + - @",
    accepts: |value| value.chars().all(tag_character),
};

/// A directory on the file system, as an EFS access point takes it.
pub(crate) const DIRECTORY: NameRule = NameRule {
    what: "directory",
    length: (2, 100),
    form: "one to four names after slashes, such as /canoe",
    accepts: |path| {
        let Some(rest) = path.strip_prefix('/') else {
            return false;
        };
        let parts: Vec<&str> = rest.split('/').collect();
        parts.len() <= 4
            && parts.iter().all(|part| {
                !part.is_empty()
                    && *part != "."
                    && *part != ".."
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            })
    },
};

fn dns_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= 63
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn tag_character(c: char) -> bool {
    c.is_alphanumeric() || c == ' ' || "_.:/=+-@".contains(c)
}

/// Whether the text is the ARN of a KMS key, and in which region.
pub(crate) fn kms_key_region(arn: &str) -> Option<&str> {
    let parts: Vec<&str> = arn.split(':').collect();
    let [start, partition, service, region, account, resource] = parts[..] else {
        return None;
    };
    let id = resource.strip_prefix("key/")?;
    let good = start == "arn"
        && Partition::of(region).name == partition
        && service == "kms"
        && !region.is_empty()
        && account.len() == 12
        && account.bytes().all(|b| b.is_ascii_digit())
        && !id.is_empty()
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    good.then_some(region)
}

/// Whether this has the form of an EC2 instance type: a family with a generation, a dot, a size.
pub(crate) fn is_instance_type(name: &str) -> bool {
    let Some((family, size)) = name.split_once('.') else {
        return false;
    };
    let family_good = family.starts_with(|c: char| c.is_ascii_lowercase())
        && family.bytes().any(|b| b.is_ascii_digit())
        && family
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let number = size.trim_end_matches("xlarge");
    let size_good = ["nano", "micro", "small", "medium", "large", "xlarge"].contains(&size)
        || (size.ends_with("xlarge")
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit()))
        || size == "metal"
        || size
            .strip_prefix("metal-")
            .is_some_and(|rest| rest.ends_with("xl"));
    family_good && size_good
}

/// The known name that differs least from `word`, if it differs little.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = ((word.chars().count() + 1) / 3).max(1);
    known
        .map(|name| {
            (
                distance(&word.to_ascii_lowercase(), &name.to_ascii_lowercase()),
                name,
            )
        })
        .filter(|(edits, _)| *edits <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Edits between two words, by characters; swapping two neighbours is one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
            };
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_aws_judges_them() {
        let long = "a".repeat(33);
        for (rule, good, bad) in [
            (
                CLUSTER,
                &["demo", "Paddle-cluster2"][..],
                &["", "a_b", "1abc", "-a", "a-", &long, "a.b"][..],
            ),
            (
                BUCKET,
                &["demo-1", "abc"],
                &["ab", "Demo", "a_b", "-ab", "ab-", "xn--abc"],
            ),
            (
                DNS,
                &["a.b", "paddle.example.com"],
                &["paddle", "a..b", "-a.b", "a b.c", ".ab"],
            ),
            (
                HOSTED_ZONE,
                &["Z1", "Z0123456789ABCDEFGHIJ"],
                &["z1", "Z", "/hostedzone/Z1"],
            ),
            (
                TAG_KEY,
                &["team", "cost centre"],
                &["", "aws:x", "AWS:x", "a;b"],
            ),
            (
                DIRECTORY,
                &["/canoe", "/a/b/c/d"],
                &["canoe", "/", "/a/", "/a/b/c/d/e", "/..", "/a b"],
            ),
            (KEY_PAIR, &["my-key", "My Key"], &["", " a", "schlüssel"]),
        ] {
            for name in good {
                assert_eq!(rule.complaint(name), None);
            }
            for name in bad {
                assert!(
                    rule.complaint(name).is_some(),
                    "{} accepts {name:?}",
                    rule.what
                );
            }
        }
    }

    #[test]
    fn instance_types_by_form() {
        for name in [
            "m5.large",
            "t3.medium",
            "m7i-flex.2xlarge",
            "u-6tb1.56xlarge",
            "c7g.metal",
            "m7i.metal-24xl",
        ] {
            assert!(is_instance_type(name), "{name}");
        }
        for name in [
            "m5.lrage",
            "m5",
            "M5.large",
            "m.large",
            ".large",
            "m5.",
            "m5.x2large",
            "m5.large ",
        ] {
            assert!(!is_instance_type(name), "{name}");
        }
    }

    #[test]
    fn key_arns() {
        let arn = "arn:aws:kms:us-west-1:123456789012:key/1234-abcd";
        assert_eq!(kms_key_region(arn), Some("us-west-1"));
        for bad in [
            "",
            "arn:aws:kms:us-west-1:12:key/1",
            "arn:aws:kms:us-west-1:123456789012:alias/x",
            "1234-abcd",
            "arn:aws:kms:cn-north-1:123456789012:key/1234-abcd",
        ] {
            assert_eq!(kms_key_region(bad), None, "{bad}");
        }
    }

    #[test]
    fn nearest_name() {
        let known = ["count", "max", "capacity"];
        assert_eq!(nearest("cuont", known.into_iter()), Some("count"));
        assert_eq!(nearest("zones", known.into_iter()), None);
        assert_eq!(nearest("coun", known.into_iter()), Some("count"));
        assert_eq!(nearest("Capacty", known.into_iter()), Some("capacity"));
        assert_eq!(
            (
                distance("kitten", "sitting"),
                distance("nmae", "name"),
                distance("", "ab")
            ),
            (3, 1, 2)
        );
    }
}
