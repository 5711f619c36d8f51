//! The questions of `canoe cluster init` on a terminal: each with a default, asked again until the
//! answer would pass the checks of the cluster file.

use std::io::{self, BufRead, Write};

use provision::spec::check::check;
use provision::spec::{Capacity, ClusterSpec, ControlPlaneMode, Severity};

/// Where the lines of the user come from.
pub(super) struct Dialogue<R, W> {
    pub(super) input: R,
    pub(super) output: W,
}

impl<R: BufRead, W: Write> Dialogue<R, W> {
    /// One answer; an empty line is the default.
    fn line(&mut self, question: &str, default: &str) -> io::Result<String> {
        write!(self.output, "{question} [{default}]: ")?;
        self.output.flush()?;
        let mut answer = String::new();
        if self.input.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "not all questions were answered; nothing was written",
            ));
        }
        let answer = answer.trim();
        Ok(if answer.is_empty() { default } else { answer }.to_owned())
    }

    /// Asks until `set` has put the answer into the spec and `field` has no error.
    pub(super) fn ask(
        &mut self,
        spec: &mut ClusterSpec,
        field: &str,
        question: &str,
        default: &str,
        set: impl Fn(&mut ClusterSpec, &str) -> Result<(), String>,
    ) -> io::Result<()> {
        loop {
            let answer = self.line(question, default)?;
            let mut tried = spec.clone();
            match set(&mut tried, &answer).and_then(|()| good(&tried, field)) {
                Ok(()) => {
                    *spec = tried;
                    return Ok(());
                }
                Err(complaint) => writeln!(self.output, "  {complaint}")?,
            }
        }
    }

    /// Where: the first question, because the others depend on it.
    pub(super) fn region(&mut self, spec: &mut ClusterSpec, default: &str) -> io::Result<()> {
        self.ask(spec, "region", "AWS region", default, |spec, answer| {
            *spec = ClusterSpec::new(&spec.name, answer);
            Ok(())
        })
    }

    /// Everything else. `own` is the caller's address, if it is known; `offered` are the account's
    /// zones, if they could be asked for.
    pub(super) fn rest(
        &mut self,
        spec: &mut ClusterSpec,
        own: Option<&str>,
        offered: &[String],
    ) -> io::Result<()> {
        let zones = spec.zones.join(",");
        self.ask(
            spec,
            "zones",
            "Zones, one to three",
            &zones,
            |spec, answer| {
                spec.zones = words(answer);
                unknown_zone(&spec.zones, offered).map_or(Ok(()), Err)
            },
        )?;
        self.ask(
            spec,
            "controlPlane",
            "Control plane: eks (AWS runs it) or self-managed",
            "eks",
            |spec, answer| {
                spec.control_plane.mode = match answer {
                    "eks" => ControlPlaneMode::Eks,
                    "self-managed" => ControlPlaneMode::SelfManaged,
                    _ => return Err("write eks or self-managed".to_owned()),
                };
                Ok(())
            },
        )?;
        self.workers(spec)?;
        let reach = own.map_or("nobody".to_owned(), |address| format!("{address}/32"));
        self.ask(
            spec,
            "controlPlane.allowedCidrs",
            "Networks that may reach the API (none: only from inside the VPC)",
            &reach,
            |spec, answer| {
                spec.control_plane.allowed_cidrs = match answer {
                    "nobody" => Vec::new(),
                    given => words(given),
                };
                Ok(())
            },
        )?;
        self.brought(spec)
    }

    fn workers(&mut self, spec: &mut ClusterSpec) -> io::Result<()> {
        let count = spec.workers.count.to_string();
        self.ask(
            spec,
            "workers.count",
            "Number of workers",
            &count,
            |spec, answer| {
                let count: u32 = answer
                    .parse()
                    .ok()
                    .filter(|count| (1..=1000).contains(count))
                    .ok_or("write a whole number from 1 to 1000")?;
                spec.workers.count = count;
                spec.workers.max = spec.workers.max.max(count);
                Ok(())
            },
        )?;
        let types = spec.workers.instance_types.join(",");
        self.ask(
            spec,
            "workers.instanceTypes",
            "Instance types",
            &types,
            |spec, answer| {
                spec.workers.instance_types = words(answer);
                Ok(())
            },
        )?;
        self.ask(
            spec,
            "workers.capacity",
            "on-demand, or spot (about a third of the price, but may be reclaimed)",
            "on-demand",
            |spec, answer| {
                spec.workers.capacity = match answer {
                    "on-demand" => Capacity::OnDemand,
                    "spot" => Capacity::Spot,
                    _ => return Err("write on-demand or spot".to_owned()),
                };
                Ok(())
            },
        )
    }

    fn brought(&mut self, spec: &mut ClusterSpec) -> io::Result<()> {
        let optional = |answer: &str| (answer != "none").then(|| answer.to_owned());
        self.ask(
            spec,
            "kmsKeyArn",
            "ARN of your own KMS key (none: one is created)",
            "none",
            |spec, answer| {
                spec.kms_key_arn = optional(answer);
                Ok(())
            },
        )?;
        self.ask(
            spec,
            "sshKeyName",
            "EC2 key pair for SSH (not needed)",
            "none",
            |spec, answer| {
                spec.ssh_key_name = optional(answer);
                Ok(())
            },
        )?;
        self.ask(
            spec,
            "dns.externalName",
            "your own DNS name for the API server",
            "none",
            |spec, answer| {
                spec.dns.external_name = optional(answer);
                Ok(())
            },
        )?;
        if spec.dns.external_name.is_none() {
            return Ok(());
        }
        self.ask(
            spec,
            "dns.hostedZoneId",
            "Route 53 zone that gets the record",
            "none",
            |spec, answer| {
                spec.dns.hosted_zone_id = optional(answer);
                Ok(())
            },
        )
    }
}

fn words(answer: &str) -> Vec<String> {
    let separated = answer.split([',', ' ']).map(str::trim);
    separated
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What is wrong with a zone that the account does not have. No list, no complaint.
pub(super) fn unknown_zone(zones: &[String], offered: &[String]) -> Option<String> {
    if offered.is_empty() {
        return None;
    }
    let missing: Vec<&str> = zones
        .iter()
        .filter(|zone| !offered.contains(zone))
        .map(String::as_str)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{} not available to this account; choose from {}",
            missing.join(", "),
            offered.join(", ")
        )
    })
}

/// The first error of the field, if it has one.
fn good(spec: &ClusterSpec, field: &str) -> Result<(), String> {
    let problems = check(spec);
    let own = problems
        .iter()
        .find(|problem| problem.severity == Severity::Error && problem.field.starts_with(field));
    own.map_or(Ok(()), |problem| {
        Err(format!("{}; {}", problem.message, problem.remedy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str, own: Option<&str>, offered: &[&str]) -> (ClusterSpec, String) {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        let mut dialogue = Dialogue {
            input: text.as_bytes(),
            output: Vec::new(),
        };
        let offered: Vec<String> = offered.iter().map(|zone| (*zone).to_owned()).collect();
        dialogue.region(&mut spec, "us-west-2").unwrap();
        dialogue.rest(&mut spec, own, &offered).unwrap();
        (spec, String::from_utf8(dialogue.output).unwrap())
    }

    #[test]
    fn empty_answers_are_the_defaults() {
        let (spec, said) = answered(&"\n".repeat(10), Some("203.0.113.7"), &[]);
        let mut expected = ClusterSpec::new("demo", "us-west-2");
        expected.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
        assert_eq!(spec, expected);
        assert!(said.contains("[us-west-2a,us-west-2b]"), "{said}");
    }

    #[test]
    fn wrong_answers_are_asked_again_with_the_way_out() {
        let answers = "eu_west\neu-west-1\neu-west-1a,us-west-2b\neu-west-1d\neu-west-1a\necs\n\
                       self-managed\nmany\n4\nm5.lrage\nm6i.large\n\nspt\nspot\n0.0.0.0/0\n";
        let answers = answers.replace("m6i.large\n\n", "m6i.large m5.large\n");
        let rest = "203.0.113.0/24\nnone\nmy-key\npaddle.example.com\nz1\nZ1ABC\n";
        let (spec, said) = answered(&(answers + rest), None, &["eu-west-1a", "eu-west-1b"]);
        assert_eq!(spec.region, "eu-west-1");
        assert_eq!(spec.zones, ["eu-west-1a"]);
        assert_eq!(spec.control_plane.mode, ControlPlaneMode::SelfManaged);
        assert_eq!(
            (spec.workers.count, spec.workers.capacity),
            (4, Capacity::Spot)
        );
        assert_eq!(spec.workers.instance_types, ["m6i.large", "m5.large"]);
        assert_eq!(spec.control_plane.allowed_cidrs, ["203.0.113.0/24"]);
        assert_eq!(spec.dns.hosted_zone_id.as_deref(), Some("Z1ABC"));
        for words in [
            "not a region",
            "not available to this account",
            "did you mean m5.large",
            "whole number",
            "whole Internet",
            "hosted zone id",
        ] {
            assert!(said.contains(words), "{words} is not in\n{said}");
        }
    }

    #[test]
    fn an_end_of_input_is_no_answer() {
        let mut dialogue = Dialogue {
            input: &b"us-west-2\n"[..],
            output: Vec::new(),
        };
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        dialogue.region(&mut spec, "us-west-2").unwrap();
        assert!(dialogue.rest(&mut spec, None, &[]).is_err());
    }
}
