//! Runs kubectl and reads what it says.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{self, LogWish, Mode, Scope, Target};
use crate::k8s::explain::{self, Observed};
use crate::k8s::{objects, yaml};
use crate::node::health::NodeStatus;

/// Why a call did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no kubectl.
    #[error(
        "run {program}; install kubectl, or use `canoe job render` and apply its output elsewhere"
    )]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The cluster said no, or could not be reached.
    #[error("kubectl {action}: {message}")]
    Refused {
        /// What was asked.
        action: String,
        /// The last words of kubectl.
        message: String,
    },
    /// The answer is not what kubectl prints.
    #[error("kubectl {action} printed something that is not JSON")]
    Answer {
        /// What was asked.
        action: String,
        /// Where it stops.
        #[source]
        source: serde_json::Error,
    },
    /// Objects of these names belong to somebody else.
    #[error(
        "objects of the job are there already and were made or changed by somebody else: {message}\nif they are of an earlier job, `canoe job delete` removes \
         them; if not, choose another name"
    )]
    Taken {
        /// Which fields, and whose.
        message: String,
    },
    /// A job of this name is there already and differs.
    #[error(
        "job {job} is there already and differs:\n  {}\na Job cannot be changed while it exists: submit with --replace to remove it first \
         (data, logs and models stay on the volume), or choose another name",
        .differences.join("\n  ")
    )]
    Differs {
        /// The job.
        job: String,
        /// Each with its place.
        differences: Vec<String>,
    },
}

/// The program and whom it talks to.
#[derive(Debug, Clone)]
pub struct Kubectl {
    /// Usually `kubectl`.
    pub program: PathBuf,
    /// The kubeconfig, if not the usual one.
    pub kubeconfig: Option<PathBuf>,
    /// The context, if not the current one.
    pub context: Option<String>,
    /// How long the server may take for one answer; logs and commands in pods have no limit.
    pub request_timeout: Duration,
}

impl Kubectl {
    /// A command with these arguments.
    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        // Before the arguments, because those of `exec` end with a command of its own.
        if let Some(path) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(path);
        }
        if let Some(context) = &self.context {
            command.arg("--context").arg(context);
        }
        command.args(args);
        command
    }

    /// Runs it with `input` and collects what it prints.
    pub(super) fn call(&self, args: &[String], input: &str) -> Result<Output, ClusterError> {
        let failed = |source| self.not_started(source);
        let mut child = self
            .command(args)
            .arg(format!(
                "--request-timeout={}s",
                self.request_timeout.as_secs()
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pipe = child.stdin.take();
        let input = input.to_owned();
        let writer = thread::spawn(move || pipe.map(|mut pipe| pipe.write_all(input.as_bytes())));
        let output = child.wait_with_output().map_err(failed)?;
        // kubectl that ends before it has read everything says why itself.
        drop(writer.join());
        Ok(output)
    }

    /// Runs it; its standard output if it ended well.
    fn text(&self, args: &[String], input: &str) -> Result<String, ClusterError> {
        let output = self.call(args, input)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(refused(args, &output))
    }

    fn json(&self, args: &[String]) -> Result<Option<Value>, ClusterError> {
        let text = self.text(args, "")?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|source| ClusterError::Answer {
                action: action(args),
                source,
            })
    }

    fn items(&self, args: &[String]) -> Result<Vec<Value>, ClusterError> {
        let list = self.json(args)?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// What not everybody may see: without the right to it, there is nothing.
    fn optional(&self, args: &[String]) -> Result<Vec<Value>, ClusterError> {
        match self.items(args) {
            Err(ClusterError::Refused { message, .. }) if message.contains("Forbidden") => {
                Ok(Vec::new())
            }
            found => found,
        }
    }

    /// Applies the objects. Returns a line for each, and the server's warnings: a Job whose pods will
    /// be refused is accepted with nothing but a warning.
    pub fn apply(
        &self,
        objects: &[Value],
        mode: Mode,
    ) -> Result<(Vec<String>, Vec<String>), ClusterError> {
        let args = arguments::apply(mode);
        let output = self.call(&args, &yaml::documents(objects))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let conflicts: Vec<&str> = said
                .lines()
                .skip_while(|line| !line.contains("Apply failed with"))
                // What follows speaks of flags of kubectl.
                .take_while(|line| !line.starts_with("Please review"))
                .collect();
            return Err(match conflicts.is_empty() {
                true => refused(&args, &output),
                false => ClusterError::Taken {
                    message: conflicts.join("\n"),
                },
            });
        }
        let lines = |bytes: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(bytes)
                .lines()
                .map(str::to_owned)
                .collect()
        };
        let warnings = lines(&output.stderr)
            .into_iter()
            .filter(|line| line.starts_with("Warning:"))
            .collect();
        Ok((lines(&output.stdout), warnings))
    }

    /// What is there of these objects.
    pub fn same_objects(&self, objects: &[Value]) -> Result<Vec<Value>, ClusterError> {
        let args = arguments::get_same();
        let text = self.text(&args, &yaml::documents(objects))?;
        let found: Value = match text.trim() {
            "" => return Ok(Vec::new()),
            text => serde_json::from_str(text).map_err(|source| ClusterError::Answer {
                action: action(&args),
                source,
            })?,
        };
        Ok(match found["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![found],
        })
    }

    /// Removes the Jobs of a job and waits until they are gone.
    pub fn delete_jobs(&self, target: &Target) -> Result<(), ClusterError> {
        self.unhurried(&arguments::delete_jobs(target)).map(drop)
    }

    /// Runs it without a limit for one request: kubectl waits with requests that stay open.
    fn unhurried(&self, args: &[String]) -> Result<String, ClusterError> {
        let output = self
            .command(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| self.not_started(source))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(refused(args, &output))
    }

    fn not_started(&self, source: io::Error) -> ClusterError {
        ClusterError::Start {
            program: self.program.clone(),
            source,
        }
    }

    /// A pod, if it is there.
    pub fn pod(&self, namespace: &str, name: &str) -> Result<Option<Value>, ClusterError> {
        self.json(&arguments::get_pod(namespace, name))
    }

    /// The pods of a Job.
    pub fn pods(&self, target: &Target) -> Result<Vec<Value>, ClusterError> {
        self.items(&arguments::get_pods(target))
    }

    /// Why a pod does not run: what it shows itself, and what events tell about it.
    pub fn trouble(&self, namespace: &str, pod: &Value) -> Result<Vec<String>, ClusterError> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let target = Target {
            namespace: namespace.to_owned(),
            job: name.to_owned(),
        };
        let mut events = self.optional(&arguments::get_events(&target))?;
        events.retain(|event| event["involvedObject"]["name"] == name);
        let mut found = explain::pod(pod);
        for text in explain::events(&events) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        Ok(found)
    }

    /// Removes a pod without waiting.
    pub fn delete_pod(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        self.text(&arguments::delete_pod(namespace, name), "")
            .map(drop)
    }

    /// A command that runs in a pod; the caller connects its input and output.
    pub fn exec(&self, namespace: &str, pod: &str, input: bool, command: &[String]) -> Command {
        self.command(&arguments::exec(namespace, pod, input, command))
    }

    /// What the node in a pod says about itself.
    pub fn node_status(&self, namespace: &str, pod: &str) -> Result<NodeStatus, ClusterError> {
        let command = ["canoe", "node", "--show_status"].map(str::to_owned);
        let args = arguments::exec(namespace, pod, false, &command);
        let mut text = self.unhurried(&args)?;
        // kubectl loses what arrives before it is ready to listen, and ends well all the same.
        for _ in 0..2 {
            if text.is_empty() {
                text = self.unhurried(&args)?;
            }
        }
        serde_json::from_str(&text).map_err(|source| ClusterError::Answer {
            action: action(&args),
            source,
        })
    }

    /// The Job, if it is there.
    pub fn job(&self, target: &Target) -> Result<Option<Value>, ClusterError> {
        self.json(&arguments::get_job(target))
    }

    /// Everything that the status of a job is told from.
    pub fn observe(&self, target: &Target) -> Result<Observed, ClusterError> {
        let prefix = format!("{}-", target.job);
        let about = |event: &Value| {
            let name = event["involvedObject"]["name"].as_str().unwrap_or("");
            name == target.job || name.starts_with(&prefix)
        };
        let mut events = self.optional(&arguments::get_events(target))?;
        events.retain(about);
        // The newest last; events of the new kind have no time in this field and come first.
        events.sort_by_key(|event| event["lastTimestamp"].as_str().unwrap_or("").to_owned());
        let data = Target {
            namespace: target.namespace.clone(),
            job: objects::data_job_name(&target.job),
        };
        Ok(Observed {
            job: self.job(target)?,
            pods: self.pods(target)?,
            events,
            claims: self.optional(&arguments::get_claims(target))?,
            data_job: self.job(&data)?,
            data_pods: self.pods(&data)?,
        })
    }

    /// The command that prints the log of a pod; the caller runs it with its own output.
    pub fn logs(&self, namespace: &str, pod: &str, wish: &LogWish) -> Command {
        self.command(&arguments::logs(namespace, pod, wish))
    }

    /// The command that leads a port of this machine to one of a pod; it runs until it is ended.
    pub fn forward(&self, namespace: &str, pod: &str, local: u16, remote: u16) -> Command {
        self.command(&arguments::forward(namespace, pod, local, remote))
    }

    /// Removes what submit has made; a line for each object that was there.
    pub fn delete(&self, target: &Target, scope: Scope) -> Result<Vec<String>, ClusterError> {
        let mut lines = Vec::new();
        for call in arguments::delete(target, scope) {
            lines.extend(self.unhurried(&call)?.lines().map(str::to_owned));
        }
        Ok(lines)
    }
}

fn action(args: &[String]) -> String {
    args.iter().take(2).cloned().collect::<Vec<_>>().join(" ")
}

fn refused(args: &[String], output: &Output) -> ClusterError {
    let text = String::from_utf8_lossy(&output.stderr);
    let message = text.trim();
    let message = if message.is_empty() {
        format!("ended with {}", output.status)
    } else {
        message.to_owned()
    };
    ClusterError::Refused {
        action: action(args),
        message,
    }
}
