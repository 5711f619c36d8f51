#!/usr/bin/env python3
"""Holds every request that we make against botocore: hosts, signatures and serialisation.

    conformance.py --every-call target/debug/examples/every_call

`every_call` makes each call of the `Cloud` trait once, against a recorder on loopback. For every recorded request
botocore serialises the same operation with the same input by its own model, and signs the recorded bytes at the
recorded time with the same credentials: body, path, query and signature must agree. The hosts of every service, in
every partition, with and without FIPS and IPv6, must be those of the rules that botocore ships.
"""

import argparse
import hashlib
import http.server
import itertools
import json
import os
import subprocess
import threading
import urllib.parse
from xml.etree import ElementTree

import botocore.session
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.endpoint_provider import EndpointProvider
from botocore.model import ServiceModel
from botocore.serialize import create_serializer

KEY, SECRET, TOKEN = "AKIATESTTESTTESTTEST", "secret-of-the-test", "token-of-the-test"
ID = "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11"
ARN = "arn:aws:kms:us-west-2:123456789012:key/1"
TAGS = [{"Key": "canoe:cluster", "Value": "demo"}, {"Key": "cost centre", "Value": "a+b"}]
CHANGE_SET = {"StackName": "demo-base", "ChangeSetName": "canoe", "Capabilities": ["CAPABILITY_NAMED_IAM"], "Tags": TAGS}
STACK = {"StackName": "demo-base"}
SET = {"StackName": "demo-base", "ChangeSetName": "canoe"}
BALANCER = "arn:aws:elasticloadbalancing:us-west-2:1:loadbalancer/net/a/1"
REPOSITORY = "arn:aws:ecr:us-west-2:1:repository/canoe/demo"
VPC = {"Filters": [{"Name": "vpc-id", "Values": ["vpc-1"]}]}
BLOCK = {name: True for name in ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")}
OBJECT = {"Bucket": "canoe-1", "Key": "demo base+1.json"}

# botocore's name of the service, operation, input: in the order in which every_call makes the requests.
POLICY = {"PolicyArn": "arn:aws:iam::123456789012:policy/demo-us-west-2-boundary"}
EXPECTED = [
    ("cloudformation", "DescribeStacks", STACK),
    ("cloudformation", "DescribeStackEvents", STACK),
    ("cloudformation", "CreateChangeSet", {**CHANGE_SET, "ChangeSetType": "CREATE", "TemplateBody": '{"a": "ü & ="}',
                                           "RoleARN": "arn:aws:iam::123456789012:role/demo-us-west-2-stacks"}),
    ("cloudformation", "CreateChangeSet", {**CHANGE_SET, "ChangeSetType": "UPDATE", "TemplateURL": "https://s3/x/y"}),
    ("cloudformation", "DescribeChangeSet", SET),
    ("cloudformation", "DescribeChangeSet", {**SET, "NextToken": "page two"}),
    ("cloudformation", "ExecuteChangeSet", SET),
    ("cloudformation", "DeleteChangeSet", SET),
    ("cloudformation", "DeleteStack", STACK),
    ("cloudformation", "UpdateTerminationProtection", {**STACK, "EnableTerminationProtection": True}),
    ("cloudformation", "ListStackResources", STACK),
    ("cloudformation", "ListStackResources", {**STACK, "NextToken": "page two"}),
    ("cloudformation", "DetectStackDrift", STACK),
    ("cloudformation", "DescribeStackDriftDetectionStatus", {"StackDriftDetectionId": "d-1"}),
    ("ec2", "DescribeAvailabilityZones", {"Filters": [{"Name": "state", "Values": ["available"]}]}),
    ("ec2", "DescribeInstanceTypeOfferings", {
        "LocationType": "availability-zone", "Filters": [{"Name": "instance-type", "Values": ["m5.large", "m6i.large"]}]}),
    ("ec2", "DescribeKeyPairs", {"KeyNames": ["my key"]}),
    ("ec2", "DescribeNetworkInterfaces", VPC),
    ("ec2", "DeleteNetworkInterface", {"NetworkInterfaceId": "eni-1"}),
    ("ec2", "DescribeVolumes", {"Filters": [{"Name": "tag:kubernetes.io/cluster/demo", "Values": ["owned"]},
                                            {"Name": "status", "Values": ["available"]}]}),
    ("ec2", "DescribeVolumes", {"Filters": [{"Name": "tag:canoe:cluster-id", "Values": [ID]}, {"Name": "tag:Name", "Values": ["demo-etcd"]}]}),
    ("ec2", "DescribeSubnets", {"Filters": [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}]}),
    ("ec2", "DescribeInstances", {"Filters": [
        {"Name": "tag:canoe:cluster-id", "Values": [ID]}, {"Name": "tag:Name", "Values": ["*-controller"]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]}),
    ("ssm", "GetParameters", {"Names": ["/aws/service/debian/release/12/latest/amd64"]}),
    ("ec2", "DescribeInstances", {"Filters": [{"Name": "instance-id", "Values": ["i-1"]}]}),
    ("ec2", "TerminateInstances", {"InstanceIds": ["i-1"]}),
    ("ec2", "DescribeLaunchTemplates", {"Filters": [{"Name": "launch-template-name", "Values": ["demo-workers"]}]}),
    ("autoscaling", "DescribeAutoScalingGroups", {"AutoScalingGroupNames": ["demo-workers"]}),
    ("ec2", "DescribeVpcs", VPC),
    ("ec2", "DeleteVolume", {"VolumeId": "vol-1"}),
    ("elbv2", "DescribeLoadBalancers", {}),
    ("elbv2", "DescribeLoadBalancers", {"Marker": "more"}),
    ("elb", "DescribeLoadBalancers", {}),
    ("elb", "DescribeTags", {"LoadBalancerNames": ["classic"]}),
    ("elbv2", "DescribeTags", {"ResourceArns": [BALANCER]}),
    ("elb", "DeleteLoadBalancer", {"LoadBalancerName": "classic"}),
    ("elbv2", "DeleteLoadBalancer", {"LoadBalancerArn": BALANCER}),
    ("ec2", "DescribeSecurityGroups", VPC),
    ("ec2", "DeleteSecurityGroup", {"GroupId": "sg-1"}),
    ("ec2", "DescribeVpcs", {}),
    ("ec2", "DescribeAddresses", {}),
    ("ecr", "DescribeRepositories", {"repositoryNames": ["canoe/demo"]}),
    ("ecr", "ListTagsForResource", {"resourceArn": REPOSITORY}),
    ("ecr", "GetAuthorizationToken", {}),
    ("eks", "DescribeClusterVersions", {}),
    ("eks", "DescribeClusterVersions", {"nextToken": "more+"}),
    ("eks", "DescribeCluster", {"name": "demo"}),
    ("eks", "DescribeAddonVersions", {"addonName": "vpc-cni", "kubernetesVersion": "1.35"}),
    ("efs", "DescribeFileSystems", {}),
    ("efs", "DescribeFileSystems", {"Marker": "more+"}),
    ("efs", "DescribeMountTargets", {"FileSystemId": "fs-1"}),
    ("efs", "DescribeMountTargets", {"FileSystemId": "fs-1", "Marker": "more+"}),
    ("efs", "DeleteFileSystem", {"FileSystemId": "fs-1"}),
    ("logs", "DescribeLogGroups", {"logGroupNamePrefix": "/aws/eks/demo/"}),
    ("logs", "ListTagsForResource", {"resourceArn": "arn:aws:logs:us-west-2:1:log-group:x"}),
    ("logs", "DescribeLogGroups", {"logGroupNamePrefix": "/aws/eks/demo/", "nextToken": "more"}),
    ("logs", "DeleteLogGroup", {"logGroupName": "/aws/eks/demo/cluster"}),
    ("s3", "GetBucketTagging", {"Bucket": "canoe-1"}),
    ("s3", "CreateBucket", {"Bucket": "canoe-1", "CreateBucketConfiguration": {"LocationConstraint": "us-west-2"}}),
    ("s3", "PutPublicAccessBlock", {"Bucket": "canoe-1", "PublicAccessBlockConfiguration": BLOCK}),
    ("s3", "PutBucketTagging", {"Bucket": "canoe-1", "Tagging": {"TagSet": [{"Key": "cost centre", "Value": "<a & b>"}]}}),
    ("s3", "PutObject", {**OBJECT, "Body": b"{}"}),
    ("s3", "ListObjectsV2", {"Bucket": "canoe-1"}),
    ("s3", "ListObjectsV2", {"Bucket": "canoe-1", "ContinuationToken": "more+/="}),
    ("s3", "DeleteObject", OBJECT),
    ("s3", "DeleteBucket", {"Bucket": "canoe-1"}),
    ("kms", "Encrypt", {"KeyId": ARN, "Plaintext": b"plain", "EncryptionContext": {"canoe": "demo"}}),
    ("kms", "DescribeKey", {"KeyId": ARN}),
    ("kms", "ScheduleKeyDeletion", {"KeyId": ARN, "PendingWindowInDays": 7}),
    ("sts", "GetCallerIdentity", {}),
    ("iam", "GetRole", {"RoleName": "demo-us-west-2-workers"}),
    ("iam", "GetInstanceProfile", {"InstanceProfileName": "demo-us-west-2-workers"}),
    ("iam", "GetPolicy", POLICY),
    ("iam", "GetPolicyVersion", {**POLICY, "VersionId": "v1"}),
    ("iam", "ListPolicyVersions", POLICY),
    ("iam", "DeletePolicyVersion", {**POLICY, "VersionId": "v2"}),
    ("iam", "CreatePolicyVersion", {**POLICY, "PolicyDocument": '{"Statement": []}', "SetAsDefault": True}),
    ("iam", "CreatePolicy", {"PolicyName": "demo-us-west-2-boundary", "PolicyDocument": "{}"}),
    ("iam", "DeletePolicy", POLICY),
    ("route53", "GetHostedZone", {"Id": "Z1"}),
    ("iam", "SimulatePrincipalPolicy", {
        "PolicySourceArn": "arn:aws:iam::123456789012:user/me", "ActionNames": ["eks:CreateCluster", "ec2:CreateVpc"],
        "ResourceArns": ["*"], "ContextEntries": [
            {"ContextKeyName": "aws:RequestedRegion", "ContextKeyType": "string", "ContextKeyValues": ["us-west-2"]}]}),
    ("service-quotas", "GetServiceQuota", {"ServiceCode": "ec2", "QuotaCode": "L-1216C47A"}),
    ("resourcegroupstaggingapi", "GetResources", {
        "TagFilters": [{"Key": "canoe:cluster-id", "Values": ["6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11"]}]}),
]

# First answers that have a second page, or that lead to a further request; all others are empty.
ANSWERS = {
    ("cloudformation", "DescribeChangeSet"): "<R><DescribeChangeSetResult><NextToken>page two</NextToken></DescribeChangeSetResult></R>",
    ("cloudformation", "ListStackResources"): "<R><ListStackResourcesResult><NextToken>page two</NextToken></ListStackResourcesResult></R>",
    ("elbv2", "DescribeLoadBalancers"): f"<R><LoadBalancers><member><VpcId>vpc-1</VpcId><LoadBalancerArn>{BALANCER}"
                                        "</LoadBalancerArn></member></LoadBalancers><NextMarker>more</NextMarker></R>",
    ("elb", "DescribeLoadBalancers"): "<R><LoadBalancerDescriptions><member><VPCId>vpc-1</VPCId><LoadBalancerName>classic"
                                      "</LoadBalancerName></member></LoadBalancerDescriptions></R>",
    ("ecr", "DescribeRepositories"): json.dumps({"repositories": [{"repositoryArn": REPOSITORY}]}),
    ("eks", "DescribeClusterVersions"): '{"nextToken": "more+"}',
    ("efs", "DescribeFileSystems"): '{"NextMarker": "more+"}',
    ("efs", "DescribeMountTargets"): '{"NextMarker": "more+"}',
    ("logs", "DescribeLogGroups"): '{"logGroups": [{"logGroupName": "x", "arn": "arn:aws:logs:us-west-2:1:log-group:x:*"}],'
                                   ' "nextToken": "more"}',
    # Five versions are all that IAM keeps: the oldest that does not hold makes room.
    ("iam", "ListPolicyVersions"): "<R><Versions>" + "".join(
        f"<member><VersionId>v{n}</VersionId><IsDefaultVersion>{str(n == 11).lower()}</IsDefaultVersion></member>" for n in (11, 10, 9, 3, 2))
                                   + "</Versions></R>",
    ("s3", "ListObjectsV2"): "<R><NextContinuationToken>more+/=</NextContinuationToken></R>",
}


class Recorder(http.server.BaseHTTPRequestHandler):
    """Keeps requests, and answers as the table of what is expected says."""

    requests = []
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        number = len(self.requests)
        self.requests.append((self.command, self.path, dict(self.headers.items()), body))
        call = EXPECTED[number][:2] if number < len(EXPECTED) else None
        first = all(call != expected[:2] for expected in EXPECTED[:number])
        xml = b"x-amz-json" not in self.headers.get("content-type", "").encode() and call and call[0] not in ("eks", "efs")
        text = ANSWERS.get(call, "") if first else ""
        data = (text or ("<R/>" if xml else "{}")).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one

    def log_message(self, *_):
        pass


def models():
    loader = botocore.session.get_session().get_component("data_loader")
    cache = {}

    def model(service):
        if service not in cache:
            cache[service] = ServiceModel(loader.load_service_model(service, "service-2"), service)
        return cache[service]
    return loader, model


def form(body):
    return sorted(urllib.parse.parse_qsl(body, keep_blank_values=True))


def tree(node):
    """An XML element without namespaces, as something that can be compared."""
    return (node.tag.split("}")[-1], (node.text or "").strip(), sorted(tree(child) for child in node))


def split(path):
    path, _, query = path.partition("?")
    return urllib.parse.unquote(path), form(query)


def check_serialisation(model, operation, parameters, recorded):
    method, path, headers, body = recorded
    shape = model.operation_model(operation)
    protocol = model.resolved_protocol if hasattr(model, "resolved_protocol") else model.metadata["protocol"]
    wanted = create_serializer(protocol, include_validation=True).serialize_to_request(parameters, shape)
    assert method == wanted["method"], (operation, method, wanted["method"])
    url, query = wanted["url_path"], wanted["query_string"]
    if isinstance(query, dict):
        query = urllib.parse.urlencode(query, doseq=True)
    if "?" in url:
        url, _, more = url.partition("?")
        query = "&".join(part for part in (more, query) if part)
    url = urllib.parse.unquote(url.replace("/{Bucket}", "/" + parameters.get("Bucket", "")))
    ours, our_query = split(path)
    assert ours == url or (model.service_name == "s3" and ours.rstrip("/") == url.rstrip("/")), (operation, ours, url)
    assert our_query == form(query or ""), (operation, our_query, query)
    wanted_body = wanted["body"]
    if isinstance(wanted_body, dict):  # form: our numbers and switches are text
        expected = sorted((key, str(value)) for key, value in wanted_body.items())
        assert form(body.decode()) == expected, (operation, form(body.decode()), expected)
    elif protocol in ("json", "smithy-rpc-v2-cbor"):
        assert json.loads(body) == json.loads(wanted_body), (operation, body, wanted_body)
        assert headers["x-amz-target"] == wanted["headers"]["X-Amz-Target"], operation
        assert headers["content-type"] == wanted["headers"]["Content-Type"], operation
    elif wanted_body and protocol == "rest-xml" and operation != "PutObject":
        assert tree(ElementTree.fromstring(body)) == tree(ElementTree.fromstring(wanted_body)), (operation, body, wanted_body)
    else:
        assert body == (wanted_body or b""), (operation, body, wanted_body)


def check_signature(model, recorded, endpoint):
    method, path, headers, body = recorded
    lower = {key.lower(): value for key, value in headers.items()}
    scope, signed = lower["authorization"].split("Credential=")[1].split(", ")[:2]
    _, date, region, name, _ = scope.split("/")
    assert name == model.signing_name, (name, model.signing_name)
    assert lower["x-amz-security-token"] == TOKEN and lower["x-amz-date"].startswith(date)
    names = signed.removeprefix("SignedHeaders=").split(";")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names), names
    if name == "s3":
        assert lower["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    request = AWSRequest(method, endpoint + path, data=body)
    for header in names:
        request.headers[header] = lower[header]
    request.context["timestamp"] = lower["x-amz-date"]
    signer = (S3SigV4Auth if name == "s3" else SigV4Auth)(Credentials(KEY, SECRET, TOKEN), name, region)
    text = signer.canonical_request(request)
    wanted = signer.signature(signer.string_to_sign(request, text), request)
    assert lower["authorization"].endswith(f"Signature={wanted}"), (path, lower["authorization"], wanted, text)
    return region


def check_calls(program):
    _, model = models()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nowhere", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN, "AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true",
    }
    subprocess.run([program], env=environment, check=True, timeout=240)
    names = [(service, operation) for service, operation, _ in EXPECTED]
    assert len(Recorder.requests) == len(EXPECTED), [
        (wanted, found[:2], found[3][:60]) for wanted, found in itertools.zip_longest(names, Recorder.requests, fillvalue=("",) * 4)]
    for (service, operation, parameters), recorded in zip(EXPECTED, Recorder.requests):
        check_serialisation(model(service), operation, parameters, recorded)
        region = check_signature(model(service), recorded, endpoint)
        assert region == ("us-east-1" if service in ("iam", "route53") else "us-west-2"), (service, region)
    print(f"{len(EXPECTED)} requests of {len(set(names))} operations: as botocore makes and signs them")


SERVICES = {
    "cloudformation": ["cloudformation"], "ec2": ["ec2"], "ecr": ["ecr"], "eks": ["eks"], "elasticfilesystem": ["efs"],
    "autoscaling": ["autoscaling"],
    "elasticloadbalancing": ["elb", "elbv2"], "iam": ["iam"], "kms": ["kms"], "logs": ["logs"], "route53": ["route53"],
    "s3": ["s3"], "servicequotas": ["service-quotas"], "ssm": ["ssm"], "sts": ["sts"], "tagging": ["resourcegroupstaggingapi"],
}


def check_hosts(program):
    loader, _ = models()
    partitions = loader.load_data("partitions")
    regions = [region for partition in partitions["partitions"] if partition["id"] in ("aws", "aws-cn", "aws-us-gov")
               for region in partition["regions"] if "global" not in region]
    assert {"us-west-2", "cn-north-1", "us-gov-west-1"} <= set(regions), regions
    lines = subprocess.run([program, "hosts", *regions], capture_output=True, text=True, check=True, timeout=240).stdout
    providers, count = {}, 0
    for line in lines.splitlines():
        ours = json.loads(line)
        for service in SERVICES[ours["service"]]:
            if service not in providers:
                rules = loader.load_service_model(service, "endpoint-rule-set-1")
                providers[service] = (EndpointProvider(rules, partitions), rules["parameters"])
            provider, known = providers[service]
            if ours["fips"] and ours["region"].startswith("cn-"):
                assert "no FIPS endpoints" in ours["url"], ours
                continue
            asked = {"Region": ours["region"], "UseFIPS": ours["fips"], "UseDualStack": ours["dual"], "UseGlobalEndpoint": False}
            if service == "s3":
                asked.update(ForcePathStyle=True, Bucket="canoe-1")
            wanted = provider.resolve_endpoint(**{key: value for key, value in asked.items() if key in known})
            assert ours["url"] == wanted.url.removesuffix("/canoe-1"), (ours, wanted.url)
            schemes = (wanted.properties or {}).get("authSchemes") or [{}]
            signed = schemes[0].get("signingRegion", ours["region"])
            assert ours["signing_region"] == signed, (ours, signed)
            count += 1
    print(f"{count} hosts of {len(SERVICES)} services in {len(regions)} regions: as botocore's rules say")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every-call", required=True)
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.every_call)
    check_hosts(program)
    check_calls(program)


if __name__ == "__main__":
    main()
