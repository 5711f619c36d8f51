"""The requests that must be allowed: what CloudFormation's handlers and our own calls ask of AWS, and what holds then.

A resource has no tags while it is being made: then only the tags in the request count, and the action that makes it.
Later it has the tags that its template gives it, if its type takes tags at all. Both are read from the rendered
templates, so a template that forgets a tag shows up as a permission that is missing.
"""

import json
import pathlib
import re

from authorization import expand, rows, schema, supported
from handlers import ALSO, MADE, ONLY_WITH, PASSED_TO, SERVICE_ROLES, TAG_ACTIONS
from iam import Request

ACCOUNT, REGION, NAME = "123456789012", "us-west-2", "demo"


def service_role_arn(service, name):
    return f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{service}.amazonaws.com/{name}"


class Case:
    """One rendered cluster: its templates, and what stands in the account once they are applied."""

    def __init__(self, directory):
        self.name = directory.name
        self.resources, self.outputs = [], {}
        for layer in ("base", "storage", "cluster"):
            template = json.loads((directory / f"{layer}.json").read_text())
            self.resources += [(r["Type"], r.get("Properties", {}), r) for r in template["Resources"].values()]
            self.outputs.update({name: output["Value"] for name, output in template["Outputs"].items()})
        self.policy = json.loads((directory / "policy.json").read_text())["Statement"]
        boundary = directory / "boundary.json"
        self.boundary = json.loads(boundary.read_text())["Statement"] if boundary.exists() else None
        self.person = json.loads((directory / "person.json").read_text())["Statement"]
        self.stacks = [s for document in json.loads((directory / "stacks.json").read_text()) for s in document["Statement"]]
        self.kinds = {kind for kind, *_ in self.resources}
        self.stack_tags = common_tags(properties_tags(kind, p) for kind, p, _ in self.resources if has_tags(kind))

    def of(self, kind):
        return [properties for one, properties, _ in self.resources if one == kind]

    def tags(self, kind):
        """Tags that everything of this type has in the account."""
        if not has_tags(kind) and kind != "AWS::EC2::LaunchTemplate":
            return {}
        own = common_tags(properties_tags(kind, p) for p in self.of(kind))
        return {**self.stack_tags, **own} if has_tags(kind) else own

    def given(self, rtype):
        """The id of a thing that cluster.yaml names; nothing if the stacks make it."""
        if rtype == "key" and "AWS::KMS::Key" not in self.kinds:
            return {"KeyId": self.outputs["KeyArn"].split("/")[-1]}
        if rtype == "file-system" and "AWS::EFS::FileSystem" not in self.kinds:
            return {"FileSystemId": self.outputs["FileSystemId"]}
        if rtype == "vpc" and "AWS::EC2::VPC" not in self.kinds:
            return {"VpcId": self.outputs["VpcId"]}
        if rtype == "subnet" and "AWS::EC2::VPC" not in self.kinds:
            return {"SubnetId": self.outputs["PrivateSubnet1"]}
        if rtype == "hostedzone" and "AWS::Route53::RecordSet" in self.kinds:
            return {"Id": self.of("AWS::Route53::RecordSet")[0]["HostedZoneId"]}
        return {}

    def spot(self):
        text = json.dumps([p for _, p, _ in self.resources])
        return '"SPOT"' in text or "SpotAllocationStrategy" in text


def has_tags(kind):
    tagging = schema(REGION, kind).get("tagging", {})
    return bool(tagging.get("taggable") and tagging.get("tagOnCreate"))


def properties_tags(kind, properties):
    if kind == "AWS::EC2::LaunchTemplate":
        specifications = properties.get("TagSpecifications", [])
        tags = [s["Tags"] for s in specifications if s["ResourceType"] == "launch-template"]
        return {tag["Key"]: tag["Value"] for one in tags for tag in one}
    tags = properties.get(schema(REGION, kind)["tagging"]["tagProperty"].split("/")[-1])
    if tags is None:
        return None
    return dict(tags) if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


def common_tags(many):
    """Tags that all have; those without a list of their own (None) are not asked."""
    many = [set(tags.items()) for tags in many if tags is not None]
    return dict(set.intersection(*many)) if many else {}


def is_used(properties, whole, wanted):
    """Whether one resource sets the property that an entry of ONLY_WITH names."""
    if wanted.startswith("!"):
        return wanted[1:] not in properties
    name, _, value = wanted.partition("=")
    found = properties.get(name, whole.get(name))
    return found is not None and (not value or str(found) == value)


def left_out(case, kind, action):
    """Whether our templates set nothing that makes the handler use this permission."""
    for one, pattern, wanted, _ in ONLY_WITH:
        if one == kind and re.fullmatch(pattern, action):
            used = [is_used(p, whole, w) for k, p, whole in case.resources if k == kind for w in wanted or []]
            if not any(used):
                return True
    return False


def fill(arn, values):
    parts = {"Partition": "aws", "Region": REGION, "Account": ACCOUNT, **values}
    return re.sub(r"\$\{(\w+)\}", lambda match: parts.get(match.group(1), "0abc"), arn)


def names(case, rtype):
    """The parts of the ARN that we choose, for each thing of this type."""
    if rtype == "role":
        return [{"RoleNameWithPath": p["RoleName"]} for p in case.of("AWS::IAM::Role")]
    if rtype == "instance-profile":
        return [{"InstanceProfileNameWithPath": p["InstanceProfileName"]} for p in case.of("AWS::IAM::InstanceProfile")]
    fixed = {
        "repository": {"RepositoryName": f"canoe/{NAME}"},
        "alias": {"Alias": f"canoe/{NAME}"},
        "cluster": {"ClusterName": NAME}, "nodegroup": {"ClusterName": NAME}, "addon": {"ClusterName": NAME},
        "podidentityassociation": {"ClusterName": NAME}, "access-entry": {"ClusterName": NAME},
    }
    if rtype == "autoScalingGroup":
        return [{"GroupFriendlyName": p["AutoScalingGroupName"]} for p in case.of("AWS::AutoScaling::AutoScalingGroup")]
    if rtype == "log-group":  # CloudWatch Logs checks some actions against the group, some against its streams
        return [{"LogGroupName": f"/aws/eks/{NAME}/cluster"}, {"LogGroupName": f"/aws/eks/{NAME}/cluster:log-stream:"}]
    if rtype == "subnet" and case.given("subnet"):
        return [{"SubnetId": value} for name, value in case.outputs.items() if name.startswith("PrivateSubnet")]
    if rtype in ("key", "file-system", "hostedzone", "vpc", "subnet"):
        return [case.given(rtype)]
    return [fixed.get(rtype, {})]


def request(action, row, values, facts, why):
    """A request against one row of the reference; keys that the action does not know are not there."""
    _, _, arn, known = row
    keys = {"aws:RequestedRegion": "us-east-1" if action.startswith("iam:") else REGION, **facts}
    kept = tuple((key, value) for key, value in keys.items() if value is not None and supported(key, known))
    return Request(action, fill(arn, values), kept, why)


def tag_keys(prefix, tags):
    return {f"aws:{prefix}Tag/{key}": value for key, value in tags.items() if isinstance(value, str)}


class Needs:
    """Collects the requests of one case."""

    def __init__(self, case):
        self.case = case
        self.requests = set()
        self.kind_of = {rtype: kind for kind, (rtype, _) in MADE.items() if rtype}

    def add(self, action, row, values, facts, why):
        self.requests.add(request(action, row, values, {"aws:CalledVia": ("cloudformation.amazonaws.com",), **facts}, why))

    def everything(self):
        for kind in sorted(self.case.kinds):
            handlers = schema(REGION, kind)["handlers"]
            for handler, needs in handlers.items():
                actions = [a for a in needs["permissions"] if not left_out(self.case, kind, a)]
                actions += [a for k, h, more, _ in ALSO if k == kind and handler in h for a in more]
                for action in sorted({one for a in actions for one in expand(a)}):
                    self.of_handler(kind, handler, action)
        return self.requests

    def of_handler(self, kind, handler, action):
        why = f"{kind} {handler}"
        special = getattr(self, "on_" + action.split(":")[1], None) if action.startswith(("iam:", "ec2:", "ssm:")) else None
        if special and special(kind, handler, action, why):
            return
        self.generic(kind, handler, action, why)

    def generic(self, kind, handler, action, why):
        rtype, maker = MADE[kind]
        all_rows = rows(action)
        chosen = [row for row in all_rows if row[1] and self.exists(row[0])]
        chosen += [row for row in all_rows if not row[1] and self.touches(kind, action, row[0])]
        if not chosen and not any(row[1] for row in all_rows):
            chosen = [row for row in all_rows if row[0] == rtype]
        assert chosen, f"{why}: {action} is checked against {[row[0] for row in all_rows]}, none of which we know"
        for row in chosen:
            for values in names(self.case, row[0]):
                for facts in self.moments(kind, handler, action, row, maker):
                    self.add(action, row, values, facts, why)

    def exists(self, rtype):
        if rtype.startswith(("loadbalancer/", "listener/")):
            return "/net" in rtype
        return True

    def touches(self, kind, action, rtype):
        """Whether an action that may concern several types concerns this one here."""
        if rtype == "internet-gateway" and "RouteTable" in action:
            return False
        if rtype == "podidentityassociation" and action == "eks:CreateAddon":
            return any("PodIdentityAssociations" in properties for properties in self.case.of(kind))
        tagging = action in TAG_ACTIONS or action in ("ec2:DeleteTags", "eks:UntagResource") or "Untag" in action or "RemoveTags" in action
        if tagging or "ListTags" in action or "DescribeTags" in action:
            return rtype == MADE[kind][0]
        there = self.kind_of.get(rtype) in self.case.kinds or rtype == "file-system" or bool(self.case.given(rtype))  # one of the two ways
        return there and self.exists(rtype)

    def moments(self, kind, handler, action, row, maker):
        """What holds when this is asked: the tags in the request, and those that the resource already has."""
        rtype = row[0]
        tags = self.case.tags(kind) if MADE[kind][0] else {}
        asked = tag_keys("Request", tags)
        made_now = rtype == MADE[kind][0] or not rtype
        if action == maker:
            # Reference rows that are not what is made are things that are there already.
            return [asked] if made_now else [{**self.standing(rtype), **asked}]
        if handler == "create" and action in TAG_ACTIONS:
            service = action.split(":")[0]
            return [{**asked, f"{service}:CreateAction": maker.split(":")[1]}]
        facts = self.standing(rtype)
        if action in TAG_ACTIONS:
            facts = {**facts, **asked}
        if action.startswith("kms:") and rtype == "key":
            # Tags of a key may take five minutes until KMS goes by them (KMS Developer Guide, ABAC): all that follows at
            # once, and a rollback, must do without.
            grant = {"kms:GrantIsForAWSResource": "true"} if action == "kms:CreateGrant" else {}
            young = {key: value for key, value in facts.items() if not key.startswith("aws:ResourceTag")}
            moments = [{**facts, **grant}] if (kind, handler) != ("AWS::KMS::Key", "create") else []
            return moments + ([{**young, **grant}] if handler in ("create", "delete", "read") else [])
        return [facts]

    def standing(self, rtype):
        """Keys of a thing that is there: its tags, and for a role its boundary."""
        kind = self.kind_of.get(rtype)
        return tag_keys("Resource", self.case.tags(kind)) if kind in self.case.kinds else {}

    # Actions whose circumstances are special.

    def on_PassRole(self, kind, _handler, action, why):
        for service in PASSED_TO[kind]:
            for values in names(self.case, "role"):
                if passes(kind, values["RoleNameWithPath"]):
                    self.add(action, rows(action)[0], values, {"iam:PassedToService": service}, why)
        return True

    def on_CreateServiceLinkedRole(self, kind, _handler, action, why):
        for service, name in self.service_roles(kind):
            row = ("role", True, service_role_arn(service, name), rows(action)[0][3])
            self.add(action, row, {}, {"iam:AWSServiceName": f"{service}.amazonaws.com"}, why)
        return True

    def service_roles(self, kind):
        return [(s, n) for s, n in SERVICE_ROLES.get(kind, []) if s != "spot" or self.case.spot()]

    def on_GetRole(self, kind, _handler, action, why):
        for service, name in self.service_roles(kind):
            if service.startswith("eks"):
                self.add(action, ("role", True, service_role_arn(service, name), rows(action)[0][3]), {}, {}, why)
        return False  # and on our own roles

    def on_role(self, _kind, _handler, action, why):
        """Actions on our roles: the boundary and the attached policy are known to IAM."""
        for properties in self.case.of("AWS::IAM::Role"):
            facts = {"iam:PermissionsBoundary": plain(properties.get("PermissionsBoundary"))}
            if action != "iam:CreateRole":
                facts.update(tag_keys("Resource", self.case.tags("AWS::IAM::Role")))
            if action in ("iam:CreateRole", "iam:TagRole"):
                facts.update(tag_keys("Request", self.case.tags("AWS::IAM::Role")))
            values = {"RoleNameWithPath": properties["RoleName"]}
            policies = [plain(arn) for arn in properties.get("ManagedPolicyArns", [])]
            attaches = action in ("iam:AttachRolePolicy", "iam:DetachRolePolicy")
            for arn in policies if attaches else [None]:
                self.add(action, rows(action)[0], values, {**facts, "iam:PolicyARN": arn}, why)
        return True

    on_CreateRole = on_AttachRolePolicy = on_DetachRolePolicy = on_DeleteRole = on_role
    on_PutRolePolicy = on_DeleteRolePolicy = on_PutRolePermissionsBoundary = on_UpdateAssumeRolePolicy = on_role
    on_TagRole = on_role

    def on_RunInstances(self, kind, _handler, action, why):
        """Asked by EC2, by Auto Scaling and by EKS, which try the launch template with the caller's rights."""
        tags = launch_tags(self.case)
        for row in rows(action):
            rtype = row[0]
            if rtype in tags:
                self.add(action, row, {}, tag_keys("Request", tags[rtype]), why)
            elif rtype in ("image", "network-interface"):
                self.add(action, row, {}, {}, why)
            elif rtype in ("subnet", "launch-template"):
                for values in names(self.case, rtype):
                    self.add(action, row, values, self.standing(rtype), why)
            elif rtype == "security-group":
                self.add(action, row, {}, self.standing(rtype), why)
                if kind == "AWS::EKS::Nodegroup":
                    self.add(action, row, {}, {}, why)  # the group that EKS makes
            elif rtype == "key-pair":
                for key in sorted({p["LaunchTemplateData"].get("KeyName", "") for p in self.case.of("AWS::EC2::LaunchTemplate")} - {""}):
                    self.add(action, row, {"KeyPairName": key}, {}, why)
        self.on_CreateTags(kind, "create", "ec2:CreateTags", why, launched=True)
        return True

    def on_CreateTags(self, kind, _handler, action, why, launched=False):
        if not launched and kind != "AWS::EKS::Nodegroup":
            return False
        for rtype, tags in launch_tags(self.case).items():
            row = next(row for row in rows(action) if row[0] == rtype)
            self.add(action, row, {}, {**tag_keys("Request", tags), "ec2:CreateAction": "RunInstances"}, why)
        return True

    def on_CreateNetworkInterface(self, _kind, _handler, action, why):
        for row in rows(action):
            if row[0] in ("network-interface", "subnet", "security-group"):
                for values in names(self.case, row[0]):
                    self.add(action, row, values, self.standing(row[0]), why)
        return True

    def on_ModifyNetworkInterfaceAttribute(self, _kind, _handler, action, why):
        for row in rows(action):
            if row[0] in ("network-interface", "security-group"):
                self.add(action, row, {}, self.standing(row[0]), why)
        return True

    def on_GetParameters(self, kind, _handler, action, why):
        images = re.findall(r"resolve:ssm:(/[^}]+)}}", json.dumps(self.case.of(kind)))
        for image in sorted(set(images)):
            arn = f"arn:aws:ssm:{REGION}::parameter{image}"
            self.add(action, ("parameter", True, arn, rows(action)[0][3]), {}, {}, why)
        return True


def passes(kind, role):
    """Whether a resource of this type is given this role."""
    purpose = role.split(f"{REGION}-")[-1]
    return {
        "AWS::EKS::Cluster": purpose == "control-plane",
        "AWS::EKS::Nodegroup": purpose == "workers",
        "AWS::EKS::Addon": purpose.endswith(("-csi", "-cni")),
        "AWS::EKS::PodIdentityAssociation": purpose == "buckets",
    }.get(kind, True)


def launch_tags(case):
    """Tags that a launch template puts on what it starts."""
    found = {}
    for properties in case.of("AWS::EC2::LaunchTemplate"):
        for one in properties["LaunchTemplateData"]["TagSpecifications"]:
            found.setdefault(one["ResourceType"], []).append({tag["Key"]: tag["Value"] for tag in one["Tags"]})
    for properties in case.of("AWS::EC2::Instance"):
        for rtype in ("instance", "volume") if properties.get("PropagateTagsToVolumeOnCreation") else ("instance",):
            found.setdefault(rtype, []).append({tag["Key"]: tag["Value"] for tag in properties["Tags"]})
    return {rtype: common_tags(many) for rtype, many in found.items()}


def plain(value):
    """The text behind `Fn::Sub` of the pseudo parameters."""
    text = value.get("Fn::Sub") if isinstance(value, dict) else value
    for name, known in (("Partition", "aws"), ("AccountId", ACCOUNT), ("Region", REGION)):
        text = text and text.replace(f"${{AWS::{name}}}", known)
    return text


def cases(matrix):
    return [Case(path) for path in sorted(pathlib.Path(matrix).iterdir()) if (path / "policy.json").exists()]
