//! The stacks of a cluster as one set of resources, with references and imports resolved.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::template::Stack;

/// A resource with the stack it is in.
pub(super) struct Resource<'a> {
    stack: &'a str,
    /// Type, such as `AWS::EC2::VPC`.
    pub kind: &'a str,
    /// The whole object.
    pub body: &'a Value,
}

impl Resource<'_> {
    /// The property at a JSON pointer below `Properties`; null when absent.
    pub(super) fn property(&self, pointer: &str) -> &Value {
        static NULL: Value = Value::Null;
        self.body
            .get("Properties")
            .and_then(|p| p.pointer(pointer))
            .unwrap_or(&NULL)
    }
}

/// All resources by logical id.
pub(super) struct TemplateModel<'a> {
    resources: BTreeMap<&'a str, Resource<'a>>,
    exports: BTreeMap<&'a str, &'a Value>,
}

impl<'a> TemplateModel<'a> {
    pub(super) fn new(stacks: &'a [Stack]) -> Self {
        let mut model = Self {
            resources: BTreeMap::new(),
            exports: BTreeMap::new(),
        };
        for stack in stacks {
            for (id, body) in stack.body["Resources"].as_object().into_iter().flatten() {
                let kind = body["Type"].as_str().unwrap_or_default();
                model.resources.insert(
                    id,
                    Resource {
                        stack: stack.layer.name(),
                        kind,
                        body,
                    },
                );
            }
            for output in stack.body["Outputs"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, output)| output)
            {
                if let Some(name) = output["Export"]["Name"].as_str() {
                    model.exports.insert(name, &output["Value"]);
                }
            }
        }
        model
    }

    /// `storage/MountTarget1` for a logical id.
    pub(super) fn place(&self, id: &str) -> String {
        self.resources
            .get(id)
            .map_or(id.to_owned(), |resource| format!("{}/{id}", resource.stack))
    }

    /// Resources of a type, in order of their ids.
    pub(super) fn of_kind<'b>(
        &'b self,
        kind: &'b str,
    ) -> impl Iterator<Item = (&'a str, &'b Resource<'a>)> + 'b {
        self.resources
            .iter()
            .filter(move |(_, resource)| resource.kind == kind)
            .map(|(id, resource)| (*id, resource))
    }

    /// The resource with this logical id.
    pub(super) fn get(&self, id: &str) -> Option<&Resource<'a>> {
        self.resources.get(id)
    }

    /// The logical id that a `Ref`, `Fn::GetAtt` or import points at.
    pub(super) fn target(&self, value: &'a Value) -> Option<&'a str> {
        if let Some(id) = value["Ref"]
            .as_str()
            .or_else(|| value["Fn::GetAtt"][0].as_str())
        {
            return Some(id);
        }
        let exported = self.exports.get(value["Fn::ImportValue"].as_str()?)?;
        exported["Ref"]
            .as_str()
            .or_else(|| exported["Fn::GetAtt"][0].as_str())
    }

    /// The zone of the subnet that a value points at.
    pub(super) fn zone(&self, subnet: &'a Value) -> Option<&'a str> {
        self.get(self.target(subnet)?)?.body["Properties"]["AvailabilityZone"].as_str()
    }

    /// Whether a list of subnets leads to ids that the cluster file gives.
    pub(super) fn given(&self, subnets: &Value) -> bool {
        let names = subnets.as_array().into_iter().flatten();
        let mut values =
            names.filter_map(|name| self.exports.get(name["Fn::ImportValue"].as_str()?));
        values.any(|value| value.is_string())
    }

    /// The zones of a list of subnets, sorted, each once.
    pub(super) fn zones(&self, subnets: &'a Value) -> Vec<&'a str> {
        let mut zones: Vec<&str> = subnets
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|subnet| self.zone(subnet))
            .collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    }

    /// Logical ids of the groups that mount targets carry.
    pub(super) fn storage_groups(&self) -> Vec<&'a str> {
        let mut groups: Vec<&str> = self
            .of_kind("AWS::EFS::MountTarget")
            .flat_map(|(_, target)| {
                target.body["Properties"]["SecurityGroups"]
                    .as_array()
                    .into_iter()
                    .flatten()
            })
            .filter_map(|group| self.target(group))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}
