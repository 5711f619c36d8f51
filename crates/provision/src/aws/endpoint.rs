//! Where a service is reached, and for which region its requests are signed.
//!
//! `e2e/aws/conformance.py` holds this against the rules that botocore ships, for every service that we
//! call, in every partition, with and without FIPS and IPv6.

use hyper::Uri;

use crate::cloud::CloudError;
use crate::partition::{Fips, Global, Partition};

/// Which kind of host is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostKind {
    /// With validated cryptography.
    pub fips: bool,
    /// With IPv6 addresses, too.
    pub dual_stack: bool,
}

/// Services whose ordinary hosts in the government's partition are the ones with validated cryptography.
const FIPS_ANYWAY: [&str; 9] = [
    "autoscaling",
    "cloudformation",
    "ec2",
    "eks",
    "elasticloadbalancing",
    "logs",
    "servicequotas",
    "ssm",
    "sts",
];

/// The URL of a service (by its signing name) in a region, without a slash at its end.
pub fn url(service: &str, region: &str, kind: HostKind) -> Result<String, CloudError> {
    let partition = Partition::of(region);
    if kind.fips && partition.fips == Fips::Absent {
        return Err(CloudError::Settings(format!(
            "the partition {} of {region} has no FIPS endpoints; unset AWS_USE_FIPS_ENDPOINT",
            partition.name
        )));
    }
    let suffix = if kind.dual_stack {
        partition.dual_stack_suffix
    } else {
        partition.suffix
    };
    let fips = if kind.fips { "-fips" } else { "" };
    let host = match (service, global(service, partition)) {
        (_, Some(global)) => {
            let place = if kind.dual_stack {
                global.dual_stack_place
            } else {
                global.place
            };
            let everywhere = partition.fips == Fips::Everywhere;
            let fips = if everywhere { "" } else { fips };
            format!("{service}{fips}.{place}{suffix}")
        }
        ("s3", _) => {
            let dual = if kind.dual_stack { ".dualstack" } else { "" };
            format!("s3{fips}{dual}.{region}.{}", partition.suffix)
        }
        _ if kind.fips && !kind.dual_stack && is_fips_anyway(service, partition) => {
            format!("{service}.{region}.{suffix}")
        }
        ("eks", _) if kind.fips && !kind.dual_stack => format!("fips.eks.{region}.{suffix}"),
        ("ecr", _) if !kind.dual_stack => format!("api.ecr{fips}.{region}.{suffix}"),
        ("elasticfilesystem", _) if kind.dual_stack => format!("efs{fips}.{region}.{suffix}"),
        _ => format!("{service}{fips}.{region}.{suffix}"),
    };
    Ok(format!("https://{host}"))
}

/// The address of a service that the environment or the profile gives, without a slash at its end.
pub(super) fn given(url: &str) -> Result<String, CloudError> {
    let parsed = url.parse::<Uri>().ok();
    let scheme = parsed.as_ref().and_then(Uri::scheme_str);
    if matches!(scheme, Some("http" | "https")) {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    Err(CloudError::Settings(format!(
        "{url:?} is not the address of a service (AWS_ENDPOINT_URL, the variable of that name for a service, or endpoint_url in the \
         profile): it begins with http:// or https://, and has no spaces, such as http://localhost:4566"
    )))
}

/// The region that a service's requests are signed for.
pub fn signing_region<'a>(service: &str, region: &'a str) -> &'a str {
    global(service, Partition::of(region)).map_or(region, |global| global.signing_region)
}

fn is_fips_anyway(service: &str, partition: &Partition) -> bool {
    partition.fips == Fips::Everywhere && FIPS_ANYWAY.contains(&service)
}

fn global(service: &str, partition: &'static Partition) -> Option<&'static Global> {
    match service {
        "iam" => Some(&partition.iam),
        "route53" => Some(&partition.route53),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: HostKind = HostKind {
        fips: false,
        dual_stack: false,
    };

    #[test]
    fn hosts_of_every_partition() {
        let url = |service, region| url(service, region, PLAIN).unwrap();
        assert_eq!(
            url("ec2", "us-west-2"),
            "https://ec2.us-west-2.amazonaws.com"
        );
        assert_eq!(url("iam", "us-west-2"), "https://iam.amazonaws.com");
        assert_eq!(
            url("iam", "us-gov-east-1"),
            "https://iam.us-gov.amazonaws.com"
        );
        assert_eq!(
            url("iam", "cn-northwest-1"),
            "https://iam.cn-north-1.amazonaws.com.cn"
        );
        assert_eq!(
            url("route53", "cn-north-1"),
            "https://route53.amazonaws.com.cn"
        );
        assert_eq!(
            url("eks", "cn-north-1"),
            "https://eks.cn-north-1.amazonaws.com.cn"
        );
        for (service, region, signed) in [
            ("iam", "eu-west-1", "us-east-1"),
            ("iam", "us-gov-east-1", "us-gov-west-1"),
            ("iam", "cn-northwest-1", "cn-north-1"),
            ("route53", "cn-north-1", "cn-northwest-1"),
            ("ec2", "cn-north-1", "cn-north-1"),
        ] {
            assert_eq!(
                signing_region(service, region),
                signed,
                "{service} {region}"
            );
        }
    }

    /// It ended with "the response of AWS cannot be read: failed to create canonical request".
    #[test]
    fn a_given_address_without_a_scheme_is_named() {
        assert_eq!(
            given("http://localhost:4566/").unwrap(),
            "http://localhost:4566"
        );
        for wrong in ["localhost:4566", "127.0.0.1", "ftp://x", "http://a b", ""] {
            let error = given(wrong).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{wrong:?}")) && error.contains("http://"),
                "{error}"
            );
        }
    }

    #[test]
    fn fips_and_dual_stack() {
        let at =
            |service, region, fips, dual_stack| url(service, region, HostKind { fips, dual_stack });
        let good = |service, fips, dual| at(service, "us-west-2", fips, dual).unwrap();
        assert_eq!(
            good("ec2", true, false),
            "https://ec2-fips.us-west-2.amazonaws.com"
        );
        assert_eq!(good("ec2", false, true), "https://ec2.us-west-2.api.aws");
        assert_eq!(
            good("eks", true, false),
            "https://fips.eks.us-west-2.amazonaws.com"
        );
        assert_eq!(
            good("s3", true, true),
            "https://s3-fips.dualstack.us-west-2.amazonaws.com"
        );
        let gov = at("ec2", "us-gov-west-1", true, false).unwrap();
        assert_eq!(gov, "https://ec2.us-gov-west-1.amazonaws.com");
        let gov = at("autoscaling", "us-gov-east-1", true, false).unwrap();
        assert_eq!(gov, "https://autoscaling.us-gov-east-1.amazonaws.com");
        let error = at("ec2", "cn-north-1", true, false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("AWS_USE_FIPS_ENDPOINT"), "{error}");
    }
}
