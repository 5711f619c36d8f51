"""The requests of `canoe cluster` itself, and what CloudFormation asks for a stack beside its resources.

The names are compared with the source of the client, so a call that is added there must be described here.
"""

import pathlib
import re

from authorization import privilege, rows
from needs import ACCOUNT, NAME, REGION, names, request, tag_keys

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "crates/provision/src/aws"

# S3's permissions are not named like its operations.
S3_PERMISSIONS = {"ListObjectsV2": ["ListBucket"], "Delete": ["DeleteObject", "DeleteBucket"]}
SERVICES = ["autoscaling", "cloudformation", "ec2", "ecr", "eks", "elasticfilesystem", "elasticloadbalancing", "iam", "kms", "logs", "route53",
            "servicequotas", "ssm", "sts", "tag"]

# Action, and the state of the thing that it is about: see `facts`. "eks", "self-managed", "dns" and "images" name the
# clusters that need it, if not all do.
CALLS = [
    ("cloudformation:CreateChangeSet", "new stack"), ("cloudformation:CreateChangeSet", "stack"),
    ("cloudformation:DeleteChangeSet", "stack"), ("cloudformation:DeleteStack", "stack"),
    ("cloudformation:DescribeChangeSet", "stack"), ("cloudformation:DescribeStackDriftDetectionStatus", "any"),
    ("cloudformation:DescribeStackEvents", "stack"), ("cloudformation:DescribeStacks", "stack"),
    ("cloudformation:DetectStackDrift", "stack"), ("cloudformation:ExecuteChangeSet", "reviewed stack"),
    ("cloudformation:ExecuteChangeSet", "stack"), ("cloudformation:ListStackResources", "stack"), ("cloudformation:UpdateTerminationProtection", "stack"),
    ("ec2:DeleteNetworkInterface", "kubernetes"), ("ec2:DeleteSecurityGroup", "kubernetes"), ("ec2:DeleteVolume", "ours"),
    ("ec2:DescribeAddresses", "any"), ("ec2:DescribeAvailabilityZones", "any"),
    ("ec2:DescribeInstanceTypeOfferings", "any"), ("ec2:DescribeKeyPairs", "any"),
    ("autoscaling:DescribeAutoScalingGroups", "any self-managed"), ("ec2:DescribeLaunchTemplates", "any"),
    ("ec2:DescribeInstances", "any self-managed"), ("ec2:DescribeSubnets", "any"),
    ("ec2:TerminateInstances", "ours self-managed"), ("ssm:GetParameters", "image self-managed"),
    ("ec2:DescribeNetworkInterfaces", "any"), ("ec2:DescribeSecurityGroups", "any"), ("ec2:DescribeVolumes", "any"),
    ("ec2:DescribeVpcs", "any"),
    ("ecr:DescribeRepositories", "repository images"), ("ecr:ListTagsForResource", "repository images"),
    ("ecr:GetAuthorizationToken", "any images"),
    ("eks:DescribeCluster", "ours eks"), ("eks:DescribeClusterVersions", "any eks"),
    ("eks:DescribeAddonVersions", "any eks"),
    ("elasticfilesystem:DeleteFileSystem", "ours"), ("elasticfilesystem:DescribeFileSystems", "any"),
    ("elasticfilesystem:DescribeMountTargets", "untagged"),
    ("elasticloadbalancing:DeleteLoadBalancer", "kubernetes"), ("elasticloadbalancing:DescribeLoadBalancers", "any"),
    ("elasticloadbalancing:DescribeTags", "any"),
    ("iam:GetPolicy", "boundary"), ("iam:GetPolicyVersion", "boundary"), ("iam:GetRole", "roles"), ("iam:GetInstanceProfile", "profiles self-managed"),
    ("iam:SimulatePrincipalPolicy", "any"),
    ("kms:DescribeKey", "any"), ("kms:Encrypt", "key self-managed"), ("kms:ScheduleKeyDeletion", "ours"),
    ("logs:DeleteLogGroup", "ours eks"), ("logs:DescribeLogGroups", "any eks"), ("logs:ListTagsForResource", "untagged eks"),
    ("route53:GetHostedZone", "zone dns"),
    ("s3:CreateBucket", "bucket"), ("s3:DeleteBucket", "bucket"), ("s3:DeleteObject", "bucket"),
    ("s3:GetBucketTagging", "bucket"), ("s3:ListBucket", "bucket"), ("s3:PutBucketPublicAccessBlock", "bucket"),
    ("s3:PutBucketTagging", "bucket"), ("s3:PutObject", "bucket"),
    ("servicequotas:GetServiceQuota", "any"), ("sts:GetCallerIdentity", "any"), ("tag:GetResources", "any"),
]

# Called by us, and not for operators: an administrator makes the boundary, changes and removes it.
NOT_FOR_OPERATORS = {"iam:CreatePolicy", "iam:DeletePolicy", "iam:CreatePolicyVersion", "iam:DeletePolicyVersion", "iam:ListPolicyVersions"}

# Not called by us: action, state, and where it is written.
FOR_STACKS = [
    ("cloudformation:TagResource", "new stack", "CloudFormation User Guide, control access: tags of a stack"),
    ("cloudformation:TagResource", "stack", "the same"),
    ("cloudformation:ListExports", "any", "Fn::ImportValue"),
    ("cloudformation:DetectStackResourceDrift", "stack", "CloudFormation User Guide, detect drift: permissions"),
    ("cloudformation:BatchDescribeTypeConfigurations", "any", "the same"),
    ("s3:GetObject", "bucket", "TemplateURL is read with the caller's rights"),
]

# Asked by the registry for `canoe image push`, whose requests are the registry's own: ECR User Guide, "IAM permissions for
# pushing an image".
FOR_PUSHES = [(f"ecr:{verb}", "ours images") for verb in (
    "BatchCheckLayerAvailability", "BatchGetImage", "CompleteLayerUpload", "InitiateLayerUpload", "PutImage", "UploadLayerPart")]


def calls_in_source():
    """Names of operations in the client's source."""
    text = "".join(path.read_text().split("#[cfg(test)]")[0] for path in sorted(CLIENT.glob("*.rs")))
    found = set()
    for prefix, name in re.findall(r'"(?:(\w+)[.:])?([A-Z][A-Za-z0-9]+)"', text):
        if prefix == "s3":
            found.update(f"s3:{one}" for one in S3_PERMISSIONS.get(name, [name]))
        else:
            found.update(f"{s}:{name}" for s in SERVICES if privilege(f"{s}:{name}"))
    return found


def check_source():
    """The table above against the source; the same name in two services counts once."""
    source, table = calls_in_source(), {action for action, _ in CALLS}
    names = {action.split(":")[1] for action in table | NOT_FOR_OPERATORS}
    undescribed = {action for action in source if action.split(":")[1] not in names}
    return sorted(f"{action} is called but not described in own_calls.py" for action in undescribed) + sorted(
        f"{action} is described in own_calls.py but not called" for action in table - source)


def applies(case, words):
    conditions = {"eks": "AWS::EKS::Cluster" in case.kinds, "self-managed": "AWS::EC2::Instance" in case.kinds,
                  "dns": "AWS::Route53::RecordSet" in case.kinds, "images": "AWS::ECR::Repository" in case.kinds}
    return all(conditions[word] for word in words if word in conditions)


def facts(case, state, action):
    """What holds in this state, one set of keys for each thing that it can be."""
    ours = tag_keys("Resource", case.stack_tags)
    if state == "new stack":
        asked = tag_keys("Request", case.stack_tags)
        return [{**asked, "cloudformation:CreateAction": "CreateChangeSet"} if "TagResource" in action else asked]
    if state == "stack":
        asked = tag_keys("Request", case.stack_tags) if action.endswith(("CreateChangeSet", "TagResource")) else {}
        # A stack that is no more than a change set may have no tags yet.
        return [{**ours, **asked}, asked]
    if state == "key":
        return [{"kms:EncryptionContext:canoe": NAME}]
    if state == "kubernetes":
        marks = [{f"aws:ResourceTag/kubernetes.io/cluster/{NAME}": "owned"}, {"aws:ResourceTag/elbv2.k8s.aws/cluster": NAME}]
        if action == "ec2:DeleteNetworkInterface":
            marks.append({"aws:ResourceTag/cluster.k8s.amazonaws.com/name": NAME})
        return marks
    return [ours] if state in ("ours", "roles") else [{}]


def targets(case, state, action):
    """The rows of the reference that the call is checked against, with the parts of the ARN that we choose."""
    all_rows = [row for row in rows(action) if not row[0].startswith(("loadbalancer/app", "loadbalancer/gwy", "accesspoint"))]
    known = all_rows[0][3]
    if state.endswith("stack"):
        for layer in ("base", "storage", "cluster"):
            arn = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{NAME}-{layer}/0abc"
            yield ("stack", True, arn, known), {}
    elif state == "bucket":
        bucket = f"canoe-{case.stack_tags.get('canoe:cluster-id')}"
        arn = f"arn:aws:s3:::{bucket}/x" if action.endswith("Object") else f"arn:aws:s3:::{bucket}"
        yield ("bucket", True, arn, known), {}
    elif state == "boundary":
        yield all_rows[0], {"PolicyNameWithPath": f"{NAME}-{REGION}-boundary"}
    elif state == "image":
        for processor in ("amd64", "arm64"):
            arn = f"arn:aws:ssm:{REGION}::parameter/aws/service/debian/release/12/latest/{processor}"
            yield ("parameter", True, arn, known), {}
    elif state == "any":
        yield ("", True, "*", known), {}
    else:
        wanted = {"logs:ListTagsForResource": "log-group"}.get(action)
        chosen = [row for row in all_rows if row[0] == wanted] or all_rows[:1]
        for values in names(case, chosen[0][0]):
            if state == "ours":
                values = {k: v for k, v in values.items() if k not in ("KeyId", "FileSystemId")}
            yield chosen[0], values


def own_requests(case):
    found = set()
    for action, description, *_ in CALLS + FOR_STACKS + FOR_PUSHES:
        words = description.split()
        if applies(case, words):
            state = " ".join(word for word in words if word not in ("eks", "self-managed", "dns", "images"))
            for row, values in targets(case, state, action):
                for keys in facts(case, state.replace("reviewed ", ""), action):
                    found.add(request(action, row, values, keys, "canoe cluster"))
    return found
