//! CloudFormation templates: a pure function of the cluster file.
//!
//! Three stacks, made in this order and removed in the reverse one: `base` (key, network, groups),
//! `storage` (file system), `cluster` (control plane and workers). Each stays under the 51,200 bytes
//! that CloudFormation takes without a bucket. What one stack needs of another goes through exports,
//! so AWS itself refuses to remove them in the wrong order.
//!
//! The templates name concrete values instead of parameters: what is rendered is what will exist,
//! and two renders of one file are equal byte for byte. Group rules are written inside their group
//! and roles are never reached by `Fn::GetAtt` across stacks, which keeps the templates within what
//! the test servers understand.

pub(crate) mod base;
pub(crate) mod eks;
pub(crate) mod groups;
pub(crate) mod network;
pub(crate) mod roles;
pub(crate) mod self_managed;
pub(crate) mod storage;

use serde_json::{Map, Value, json};

use crate::ownership::ID_TAG;
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::user_data::UserData;

/// The largest template that CloudFormation takes in the request itself.
pub(crate) const MAX_BODY: usize = 51_200;

/// Tag with the cluster's name, for people and for bills. What is ours is decided by [`ID_TAG`] alone.
pub const CLUSTER_TAG: &str = "canoe:cluster";

/// What CloudFormation does with the data and logs of a stack that goes: it leaves them, unless the stack
/// was never finished. `down` removes them itself, by their id, and only if it is asked to.
pub(crate) const KEEP: &str = "RetainExceptOnCreate";

/// Which stack of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StackLayer {
    /// Key, network, groups.
    Base,
    /// File system.
    Storage,
    /// Control plane and workers.
    Cluster,
}

impl StackLayer {
    /// In the order of creation.
    pub const ALL: [Self; 3] = [Self::Base, Self::Storage, Self::Cluster];

    /// Name as it stands in stack and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Storage => "storage",
            Self::Cluster => "cluster",
        }
    }

    /// Name of this stack of the cluster `cluster`.
    pub(crate) fn stack_name(self, cluster: &str) -> String {
        format!("{cluster}-{}", self.name())
    }
}

/// A rendered stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Which one.
    pub layer: StackLayer,
    /// Its name in CloudFormation.
    pub name: String,
    /// The template.
    pub body: Value,
}

impl Stack {
    /// The template as text, with two-space indent and sorted keys.
    pub fn text(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(&self.body).expect("a template has only text keys");
        text.push('\n');
        text
    }

    /// The template without spaces, which is what is sent.
    pub fn compact(&self) -> String {
        self.body.to_string()
    }
}

/// What decides a render beside the cluster file.
#[derive(Debug, Clone, Default)]
pub struct Render {
    /// Image of the self-managed controller that is there; another one would replace it.
    pub controller_image: Option<String>,
}

/// The whole chain, in the order of creation.
pub fn render(spec: &ClusterSpec, options: &Render) -> Vec<Stack> {
    let cluster = match spec.control_plane.mode {
        ControlPlaneMode::Eks => eks::template(spec),
        ControlPlaneMode::SelfManaged => self_managed::template(
            spec,
            &UserData::render(spec),
            options.controller_image.as_deref(),
        ),
    };
    let bodies = [base::template(spec), storage::template(spec), cluster];
    StackLayer::ALL
        .into_iter()
        .zip(bodies)
        .map(|(layer, body)| Stack {
            layer,
            name: layer.stack_name(&spec.name),
            body,
        })
        .collect()
}

/// A template under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    resources: Map<String, Value>,
    outputs: Map<String, Value>,
}

impl Builder {
    /// Adds a resource. `rest` may carry `DependsOn`, `DeletionPolicy` and the like.
    pub(crate) fn resource(
        &mut self,
        id: &str,
        kind: &str,
        properties: Value,
    ) -> &mut Map<String, Value> {
        let previous = self.resources.insert(
            id.to_owned(),
            json!({"Type": kind, "Properties": properties}),
        );
        debug_assert!(previous.is_none(), "resource {id} is defined once");
        self.resources
            .get_mut(id)
            .and_then(Value::as_object_mut)
            .expect("just inserted as an object")
    }

    /// Adds an output that other stacks can import.
    pub(crate) fn export(&mut self, spec: &ClusterSpec, id: &str, about: &str, value: Value) {
        let output = json!({"Description": about, "Value": value, "Export": {"Name": export_name(spec, id)}});
        self.outputs.insert(id.to_owned(), output);
    }

    /// Adds an output for people and for `canoe cluster status`.
    pub(crate) fn output(&mut self, id: &str, about: &str, value: Value) {
        self.outputs
            .insert(id.to_owned(), json!({"Description": about, "Value": value}));
    }

    /// The finished template.
    pub(crate) fn finish(self, about: &str) -> Value {
        json!({
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": about,
            "Resources": self.resources,
            "Outputs": self.outputs,
        })
    }
}

pub(crate) fn export_name(spec: &ClusterSpec, id: &str) -> String {
    format!("{}-{id}", spec.name)
}

pub(crate) fn import(spec: &ClusterSpec, id: &str) -> Value {
    json!({"Fn::ImportValue": export_name(spec, id)})
}

pub(crate) fn reference(id: &str) -> Value {
    json!({"Ref": id})
}

pub(crate) fn attribute(id: &str, name: &str) -> Value {
    json!({"Fn::GetAtt": [id, name]})
}

pub(crate) fn sub(text: impl Into<String>) -> Value {
    json!({"Fn::Sub": text.into()})
}

/// Tags of a resource: its name, the cluster's tag, the user's.
pub(crate) fn tags(spec: &ClusterSpec, name: &str) -> Value {
    Value::Array(
        tag_map(spec, name)
            .into_iter()
            .map(|(key, value)| json!({"Key": key, "Value": value}))
            .collect(),
    )
}

/// Properties of a launch template. CloudFormation gives it no tags of the stack, so it gets its own.
pub(crate) fn template_of_machines(spec: &ClusterSpec, name: &str, data: Value) -> Value {
    let tags = json!({"ResourceType": "launch-template", "Tags": tags(spec, name)});
    json!({
        "LaunchTemplateName": format!("{}-{name}", spec.name),
        "LaunchTemplateData": data,
        "TagSpecifications": [tags],
    })
}

/// The same as an object, which is how EKS wants them.
pub(crate) fn tag_map(spec: &ClusterSpec, name: &str) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in &spec.tags {
        all.insert(key.clone(), Value::from(value.as_str()));
    }
    all.insert(
        "Name".to_owned(),
        Value::from(format!("{}-{name}", spec.name)),
    );
    all.insert(CLUSTER_TAG.to_owned(), Value::from(spec.name.as_str()));
    if let Some(id) = &spec.id {
        all.insert(ID_TAG.to_owned(), Value::from(id.as_str()));
    }
    all
}
