//! What `canoe cluster status` shows, as data and as lines.

use serde::Serialize;

use super::next::StackState;
use super::passes::PassCost;
use crate::template::StackLayer;

/// One stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackLine {
    /// Which one.
    pub layer: StackLayer,
    /// The name that CloudFormation knows.
    pub name: String,
    /// Its state.
    pub state: StackState,
    /// There is a stack of this name that is not this cluster's: whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// Whether it is as its template says, or why that is not known.
    pub drift: Option<String>,
}

/// The cluster as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// As in cluster.yaml.
    pub name: String,
    /// As in cluster.yaml.
    pub region: String,
    /// The stacks, in order of creation.
    pub stacks: Vec<StackLine>,
    /// Address of the API server.
    pub endpoint: Option<String>,
    /// Ready nodes, when the API server could be asked.
    pub nodes_ready: Option<u32>,
    /// Workers that the cluster file asks for.
    pub nodes_wanted: u32,
    /// Id of the EFS file system, if there is one.
    pub file_system: Option<String>,
    /// Directory on it that jobs see.
    pub access_point: Option<String>,
    /// Where images can be pushed.
    pub images: Option<String>,
    /// Hours since the first stack was made.
    pub hours: Option<f64>,
    /// Estimate, USD an hour.
    pub cost_hourly: f64,
    /// Estimate since creation, USD.
    pub cost_so_far: Option<f64>,
    /// What a pass of each running job costs.
    pub passes: Vec<PassCost>,
    /// What to know about the end of the Kubernetes version's support.
    pub support: Option<String>,
    /// Add-ons with the versions that the cluster file asks for.
    pub addons: Vec<String>,
    /// What carries the cluster's id although no stack is there: it was kept, and costs.
    pub kept: Vec<String>,
    /// Whose copy this cluster file is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// Version that an unfinished upgrade goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrading: Option<String>,
    /// Days until the first certificate of a self-managed cluster expires.
    pub certificate_days: Option<i64>,
}

impl ClusterStatus {
    /// Whether every stack is there and settled.
    pub fn is_up(&self) -> bool {
        self.stacks.len() == StackLayer::ALL.len()
            && self
                .stacks
                .iter()
                .all(|line| matches!(line.state, StackState::Ready(_)))
    }

    /// Whether there is no stack at all.
    pub fn is_absent(&self) -> bool {
        self.stacks
            .iter()
            .all(|line| line.state == StackState::Absent)
    }

    /// Lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("cluster   {} in {}", self.name, self.region)];
        for line in &self.stacks {
            let drift = line
                .drift
                .as_deref()
                .map_or(String::new(), |drift| format!(", drift {drift}"));
            let state = match &line.foreign {
                Some(words) => format!("not this cluster's: {words}"),
                None => state_words(&line.state),
            };
            lines.push(format!("stack     {:<30} {state}{drift}", line.name));
        }
        if self.is_absent() {
            lines.extend(self.without_stacks());
            return lines;
        }
        lines.push(format!(
            "endpoint  {}",
            self.endpoint.as_deref().unwrap_or("not there yet")
        ));
        let ready = self
            .nodes_ready
            .map_or("unknown".to_owned(), |ready| ready.to_string());
        lines.push(format!("nodes     {ready} of {} ready", self.nodes_wanted));
        if let Some(id) = &self.file_system {
            let point = self
                .access_point
                .as_deref()
                .unwrap_or("no access point yet");
            lines.push(format!("files     {id}, {point}"));
        }
        if let Some(address) = &self.images {
            lines.push(format!("images    {address}"));
        }
        if !self.addons.is_empty() {
            lines.push(format!("add-ons   {}", self.addons.join(", ")));
        }
        let mut cost = format!("cost      about {:.2} USD per hour", self.cost_hourly);
        if let (Some(hours), Some(usd)) = (self.hours, self.cost_so_far) {
            cost.push_str(&format!(
                ", {usd:.2} USD in {hours:.1} hours so far at this size"
            ));
        }
        lines.push(cost);
        for pass in &self.passes {
            lines.push(format!(
                "          job {}: about {:.4} USD per pass, of {:.0} s ({} so far)",
                pass.job,
                pass.usd,
                pass.hours * 3600.0,
                pass.passes
            ));
        }
        if let Some(version) = &self.upgrading {
            lines.push(format!(
                "version   the upgrade to {version} is not finished; `canoe cluster upgrade --to {version}` continues it"
            ));
        }
        if let Some(words) = &self.support {
            lines.push(format!("version   {words}"));
        }
        if let Some(days) = self.certificate_days {
            lines.push(certificate_line(days));
        }
        lines
    }
}

impl ClusterStatus {
    /// What to say when no stack of the cluster is there.
    fn without_stacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(words) = &self.copy {
            lines.push(format!("id        {words}"));
        }
        match &self.file_system {
            Some(id) if !self.kept.iter().any(|line| line.contains(id.as_str())) => {
                lines.push(format!(
                    "files     {id} is named in cluster.yaml, and costs"
                ));
            }
            _ => {}
        }
        for thing in &self.kept {
            lines.push(format!("kept      {thing} is kept, and costs"));
        }
        let foreign = self.copy.is_some() || self.stacks.iter().any(|line| line.foreign.is_some());
        lines.push(if foreign {
            "nothing of this cluster exists in this account and region; `canoe cluster up` refuses, because of what is named above"
                .to_owned()
        } else {
            "nothing exists in this account and region; `canoe cluster up` creates the cluster".to_owned()
        });
        lines
    }
}

fn certificate_line(days: i64) -> String {
    if days < 0 {
        return "tls       EXPIRED; run `canoe cluster render credentials --force` and `up`"
            .to_owned();
    }
    let hint = if days < 30 {
        "; run `canoe cluster render credentials --force` and `up` soon"
    } else {
        ""
    };
    format!("tls       first certificate expires in {days} days{hint}")
}

fn state_words(state: &StackState) -> String {
    match state {
        StackState::Absent => "absent".to_owned(),
        StackState::Busy(status) | StackState::Ready(status) => status.to_string(),
        StackState::Broken(status) => {
            format!("{status}; `canoe cluster up` creates it again, `down` removes it")
        }
        StackState::Stuck(status) => {
            format!("{status}; needs a decision, `canoe cluster up` says which")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &StackState) -> ClusterStatus {
        let line = |layer: StackLayer| StackLine {
            layer,
            name: layer.stack_name("demo"),
            state: state.clone(),
            foreign: None,
            drift: None,
        };
        ClusterStatus {
            name: "demo".to_owned(),
            region: "us-west-2".to_owned(),
            stacks: StackLayer::ALL.map(line).to_vec(),
            endpoint: Some("https://x".to_owned()),
            nodes_ready: Some(2),
            nodes_wanted: 3,
            file_system: Some("fs-1".to_owned()),
            access_point: None,
            images: None,
            hours: Some(2.0),
            cost_hourly: 0.5,
            cost_so_far: Some(1.0),
            passes: vec![PassCost {
                job: "default/ctr".to_owned(),
                passes: 3,
                hours: 0.1,
                usd: 0.05,
            }],
            support: Some("ends soon".to_owned()),
            addons: vec!["coredns".to_owned()],
            certificate_days: Some(12),
            kept: Vec::new(),
            copy: None,
            upgrading: None,
        }
    }

    #[test]
    fn says_what_is_there_and_what_it_costs() {
        let up = status(&StackState::from_status("CREATE_COMPLETE"));
        assert!(up.is_up() && !up.is_absent());
        let text = up.lines().join("\n");
        for words in [
            "2 of 3 ready",
            "1.00 USD in 2.0 hours so far at this size",
            "fs-1",
            "12 days; run",
            "job default/ctr: about 0.0500 USD per pass, of 360 s (3 so far)",
            "version   ends soon",
            "add-ons   coredns",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        let gone = status(&StackState::Absent);
        assert!(gone.is_absent() && gone.lines().last().unwrap().contains("nothing exists"));
        assert!(!status(&StackState::from_status("ROLLBACK_COMPLETE")).is_up());
        assert!(certificate_line(-1).contains("EXPIRED"));
    }
}
