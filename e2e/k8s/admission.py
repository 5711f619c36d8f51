"""What an API server refuses although its schema allows it: the rules of validation and defaulting that a training job can meet.

Each rule is one of Kubernetes 1.34's own validation (names, limits, references inside an object, fields that exclude each other), in its
words where a user reads them.
"""
import base64
import re

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
QUALIFIED = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
KEY = r"[-._a-zA-Z0-9]+"
QUANTITY = r"[+-]?[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
MEBIBYTE = 1 << 20
# Names that become host names or are used as such are shorter than others.
NAMES = {"Service": (LABEL_1035, 63), "Namespace": (LABEL, 63)}
IMMUTABLE = {
    "Job": ["completions", "completionMode", "selector", "template", "podFailurePolicy", "backoffLimitPerIndex", "podReplacementPolicy"],
    "PersistentVolumeClaim": ["accessModes", "storageClassName", "volumeName", "volumeMode"],
    "PersistentVolume": ["nfs", "csi", "volumeMode"],
    "Service": ["clusterIP"],
    "Pod": ["containers", "initContainers", "volumes", "restartPolicy", "securityContext", "nodeSelector", "serviceAccountName"],
}


class Problems:
    """Everything that is wrong with one object, as the server lists it."""

    def __init__(self):
        self.found = []

    def check(self, is_right, field, text):
        if not is_right:
            self.found.append(f"{field}: {text}")


def amount(quantity):
    """Its value; 0 for what is none, which is found elsewhere."""
    if not re.fullmatch(QUANTITY, str(quantity)):
        return 0
    digits = re.match(r"[+-]?[0-9.]+", str(quantity))[0]
    return float(digits) * UNITS[str(quantity)[len(digits) :]]


def problems(thing):
    """What a server says about an object; nothing if it takes it."""
    found = Problems()
    metadata(thing, found)
    special = {"Job": job, "Pod": lambda it, to: pod(it["spec"], "spec", to), "ConfigMap": config_map, "Secret": secret, "Service": service}
    special |= {"PersistentVolume": volume, "PersistentVolumeClaim": claim, "NetworkPolicy": policy, "PodDisruptionBudget": budget}
    if thing["kind"] in special:
        special[thing["kind"]](thing, found)
    return found.found


def metadata(thing, found):
    name = thing["metadata"].get("name", "")
    form, longest = NAMES.get(thing["kind"], (SUBDOMAIN, 253))
    found.check(re.fullmatch(form, name) and len(name) <= longest, "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of …')
    labels(thing["metadata"], "metadata", found)


def labels(meta, field, found):
    for key, value in meta.get("labels", {}).items():
        found.check(re.fullmatch(QUALIFIED, key), f"{field}.labels", f'Invalid value: "{key}": name part must consist of alphanumeric characters')
        found.check(re.fullmatch(VALUE, str(value)), f"{field}.labels", f'Invalid value: "{value}": a valid label must be an empty string or consist of …')
    size = sum(len(key) + len(str(value)) for key, value in meta.get("annotations", {}).items())
    found.check(size <= 262144, f"{field}.annotations", "Too long: may not be more than 262144 bytes")


def job(thing, found):
    spec, name = thing["spec"], thing["metadata"]["name"]
    found.check(len(name) <= 63, "metadata.name", "must be no more than 63 characters")
    if spec.get("completionMode") == "Indexed":
        found.check(spec.get("completions") is not None, "spec.completions", "Required value: when completion mode is Indexed")
        longest = f"{name}-{spec.get('completions', 1) - 1}"
        found.check(len(longest) <= 63, "metadata.name", f'Invalid value: "{longest}": will not able to create pod with invalid DNS label: must be no more than 63 characters')
        found.check(re.fullmatch(LABEL, longest), "metadata.name", f'Invalid value: "{longest}": will not able to create pod with invalid DNS label')
        found.check(spec.get("parallelism", 1) <= 100000, "spec.parallelism", "Invalid value: must be less than or equal to 100000")
    for field in ("backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "parallelism", "completions"):
        found.check(0 <= spec.get(field, 0) < 2**31, f"spec.{field}", "Invalid value: must be greater than or equal to 0")
    template = spec["template"]
    labels(template.get("metadata", {}), "spec.template.metadata", found)
    for key in ("batch.kubernetes.io/job-name", "job-name"):
        value = template.get("metadata", {}).get("labels", {}).get(key, name)
        found.check(value == name, f"spec.template.metadata.labels[{key}]", f'Invalid value: "{value}": must be \'{name}\'')
    restart = template["spec"].get("restartPolicy")
    found.check(restart in ("Never", "OnFailure"), "spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"')
    if "podFailurePolicy" in spec:
        failure_policy(spec, found)
    found.check("manualSelector" in spec or "selector" not in spec, "spec.selector", "Invalid value: `selector` will be auto-generated")
    pod(template["spec"], "spec.template.spec", found)


def failure_policy(spec, found):
    field, template = "spec.podFailurePolicy", spec["template"]["spec"]
    found.check(template.get("restartPolicy") == "Never", field, 'Invalid value: only "Never" is supported for restartPolicy when podFailurePolicy is specified')
    found.check(spec.get("podReplacementPolicy", "Failed") == "Failed", "spec.podReplacementPolicy", 'Unsupported value: supported values: "Failed"')
    rules = spec["podFailurePolicy"].get("rules", [])
    found.check(len(rules) <= 20, f"{field}.rules", "Too many: must have at most 20 items")
    containers = {container["name"] for container in template.get("initContainers", []) + template["containers"]}
    for number, rule in enumerate(rules):
        place = f"{field}.rules[{number}]"
        found.check(("onExitCodes" in rule) != ("onPodConditions" in rule), place, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required")
        found.check(rule["action"] in ("FailJob", "Ignore", "Count") or (rule["action"] == "FailIndex" and "backoffLimitPerIndex" in spec), f"{place}.action", f'Unsupported value: "{rule["action"]}"')
        codes = rule.get("onExitCodes")
        if codes:
            values = codes["values"]
            found.check(1 <= len(values) <= 255, f"{place}.onExitCodes.values", "Invalid value: at least one value is required")
            found.check(values == sorted(set(values)), f"{place}.onExitCodes.values", "Invalid value: must be ordered and without duplicates")
            found.check(codes["operator"] != "In" or 0 not in values, f"{place}.onExitCodes.values", "Invalid value: 0: must not be 0 for the In operator")
            found.check(codes.get("containerName") in containers | {None}, f"{place}.onExitCodes.containerName", "Invalid value: must be one of the container or initContainer names in the pod template")
        for condition in rule.get("onPodConditions", []):
            found.check(condition.get("status") in ("True", "False", "Unknown"), f"{place}.onPodConditions.status", "Unsupported value")


def pod(spec, field, found):
    volumes = [volume["name"] for volume in spec.get("volumes", [])]
    found.check(len(volumes) == len(set(volumes)), f"{field}.volumes", "Duplicate value")
    for volume_ in spec.get("volumes", []):
        found.check(re.fullmatch(LABEL, volume_["name"]) and len(volume_["name"]) <= 63, f"{field}.volumes.name", f'Invalid value: "{volume_["name"]}"')
        found.check(len(volume_) == 2, f"{field}.volumes[{volume_['name']}]", "Forbidden: may not specify more than 1 volume type")
        for kind in ("configMap", "secret"):
            items(volume_.get(kind, {}), f"{field}.volumes[{volume_['name']}].{kind}", found)
        limit = volume_.get("emptyDir", {}).get("sizeLimit")
        found.check(limit is None or re.fullmatch(QUANTITY, str(limit)), f"{field}.volumes.emptyDir.sizeLimit", f'Invalid value: "{limit}"')
    names = [container["name"] for container in spec.get("initContainers", []) + spec["containers"]]
    found.check(len(names) == len(set(names)), f"{field}.containers.name", "Duplicate value")
    for part in ("initContainers", "containers"):
        for number, container_ in enumerate(spec.get(part, [])):
            container(container_, f"{field}.{part}[{number}]", set(volumes), part == "initContainers", found)
    for toleration in spec.get("tolerations", []):
        operator = toleration.get("operator", "Equal")
        found.check(toleration.get("key") or operator == "Exists", f"{field}.tolerations.operator", "Invalid value: operator must be Exists when `key` is empty")
        found.check(operator != "Exists" or not toleration.get("value"), f"{field}.tolerations.operator", "Invalid value: value must be empty when `operator` is 'Exists'")
        found.check("tolerationSeconds" not in toleration or toleration.get("effect") == "NoExecute", f"{field}.tolerations.effect", "Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set")
    spreads = [(spread["topologyKey"], spread["whenUnsatisfiable"]) for spread in spec.get("topologySpreadConstraints", [])]
    found.check(len(spreads) == len(set(spreads)), f"{field}.topologySpreadConstraints", "Duplicate value")
    found.check(spec.get("activeDeadlineSeconds", 1) >= 1, f"{field}.activeDeadlineSeconds", "Invalid value: must be between 1 and 2147483647")
    for name in ("hostname", "subdomain"):
        found.check(name not in spec or (re.fullmatch(LABEL, spec[name]) and len(spec[name]) <= 63), f"{field}.{name}", f'Invalid value: "{spec.get(name)}": must be a DNS label')
    security = spec.get("securityContext", {})
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        found.check(0 <= security.get(name, 0) < 2**31, f"{field}.securityContext.{name}", "Invalid value: must be between 0 and 2147483647, inclusive")


def items(source, field, found):
    for item in source.get("items", []):
        path = item["path"]
        found.check(not path.startswith("/") and ".." not in path.split("/"), f"{field}.items.path", f'Invalid value: "{path}": must not contain \'..\'')
    found.check(0 <= source.get("defaultMode", 0o644) <= 0o777, f"{field}.defaultMode", "Invalid value: must be a number between 0 and 0777 (octal)")


def container(it, field, volumes, is_init, found):
    found.check(re.fullmatch(LABEL, it["name"]) and len(it["name"]) <= 63, f"{field}.name", f'Invalid value: "{it["name"]}"')
    image = it.get("image", "")
    found.check(image and image == image.strip(), f"{field}.image", "Required value" if not image else "Invalid value: must not have leading or trailing whitespace")
    paths = [mount["mountPath"] for mount in it.get("volumeMounts", [])]
    found.check(len(paths) == len(set(paths)), f"{field}.volumeMounts.mountPath", "Invalid value: must be unique")
    for mount in it.get("volumeMounts", []):
        found.check(mount["name"] in volumes, f"{field}.volumeMounts", f'Not found: "{mount["name"]}"')
    ports = it.get("ports", [])
    named = [port["name"] for port in ports if "name" in port]
    found.check(len(named) == len(set(named)), f"{field}.ports.name", "Duplicate value")
    for port in ports:
        name = port.get("name", "x")
        right = re.fullmatch(LABEL, name) and len(name) <= 15 and re.search("[a-z]", name) and "--" not in name
        found.check(right, f"{field}.ports.name", f'Invalid value: "{name}": must be no more than 15 characters')
        found.check(0 < port["containerPort"] < 65536, f"{field}.ports.containerPort", "Invalid value: must be between 1 and 65535, inclusive")
    variables = [variable["name"] for variable in it.get("env", [])]
    found.check(len(variables) == len(set(variables)), f"{field}.env", "Duplicate value")
    for name in variables:
        found.check(re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", name), f"{field}.env.name", f'Invalid value: "{name}"')
    resources = it.get("resources", {})
    for part in ("limits", "requests"):
        for kind, quantity in resources.get(part, {}).items():
            found.check(re.fullmatch(QUANTITY, str(quantity)), f"{field}.resources.{part}[{kind}]", f"quantities must match the regular expression: {quantity}")
            limit = resources.get("limits", {}).get(kind, quantity)
            found.check(amount(resources.get("requests", {}).get(kind, 0)) <= amount(limit), f"{field}.resources.requests", f"Invalid value: must be less than or equal to {kind} limit")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        found.check(not is_init or probe not in it, f"{field}.{probe}", "Forbidden: may not be set for init containers")
        wanted = it.get(probe, {}).get("httpGet", {}).get("port")
        # A server takes a name that no port has; the kubelet then never gets an answer.
        found.check(not isinstance(wanted, str) or wanted in named, f"{field}.{probe}.httpGet.port", f"no port is called {wanted}")


def content(thing, found):
    data, binary = thing.get("data", {}), thing.get("binaryData", {})
    for key in [*data, *binary]:
        right = re.fullmatch(KEY, key) and len(key) <= 253 and key not in (".", "..") and not key.startswith("..")
        found.check(right, f"data[{key}]", f'Invalid value: "{key}": a valid config key must consist of alphanumeric characters, \'-\', \'_\' or \'.\'')
    found.check(not set(data) & set(binary), "data", "Invalid value: duplicate of key present in data")
    return data, binary


def config_map(thing, found):
    data, binary = content(thing, found)
    size = sum(len(text.encode()) for text in data.values()) + sum(len(base64.b64decode(text)) for text in binary.values())
    found.check(size <= MEBIBYTE, "", "Too long: must have at most 1048576 bytes")


def secret(thing, found):
    data, _ = content(thing, found)
    found.check(sum(len(base64.b64decode(text, validate=True)) for text in data.values()) <= MEBIBYTE, "data", "Too long: must have at most 1048576 bytes")


def service(thing, found):
    ports = thing["spec"].get("ports", [])
    names = [port.get("name", "") for port in ports]
    found.check(len(ports) < 2 or all(names), "spec.ports.name", "Required value")
    found.check(len(set(names)) == len(names), "spec.ports.name", "Duplicate value")
    places = [(port["port"], port.get("protocol", "TCP")) for port in ports]
    found.check(len(set(places)) == len(places), "spec.ports", "Duplicate value")
    for name in names:
        found.check(not name or (re.fullmatch(LABEL, name) and len(name) <= 63), "spec.ports.name", f'Invalid value: "{name}"')


def volume(thing, found):
    spec = thing["spec"]
    sources = [kind for kind in ("nfs", "csi", "hostPath", "local", "iscsi") if kind in spec]
    found.check(len(sources) == 1, "spec", "Required value: must specify a volume type" if not sources else "Forbidden: may not specify more than 1 volume type")
    found.check(spec.get("accessModes"), "spec.accessModes", "Required value")
    found.check(amount(spec.get("capacity", {}).get("storage", 0)) > 0, "spec.capacity", "Invalid value: must be greater than zero")
    path = spec.get("nfs", {}).get("path", "/")
    found.check(path.startswith("/"), "spec.nfs.path", f'Invalid value: "{path}": must be an absolute path')


def claim(thing, found):
    spec = thing["spec"]
    found.check(spec.get("accessModes"), "spec.accessModes", "Required value: at least 1 access mode is required")
    found.check(amount(spec.get("resources", {}).get("requests", {}).get("storage", 0)) > 0, "spec.resources[storage]", "Required value")


def policy(thing, found):
    for direction in ("ingress", "egress"):
        for rule in thing["spec"].get(direction, []):
            for port in rule.get("ports", []):
                found.check(0 < port["port"] < 65536, f"spec.{direction}.ports.port", "Invalid value: must be between 1 and 65535, inclusive")
                found.check(port.get("protocol", "TCP") in ("TCP", "UDP", "SCTP"), f"spec.{direction}.ports.protocol", "Unsupported value")
            for peer in rule.get("from", []) + rule.get("to", []):
                found.check(peer, f"spec.{direction}", "Required value: must specify a peer")


def budget(thing, found):
    spec = thing["spec"]
    found.check(not ("minAvailable" in spec and "maxUnavailable" in spec), "spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")
    # For pods of a Job, which has no scale, only a number that must be available is understood.
    found.check("maxUnavailable" not in spec and not isinstance(spec.get("minAvailable"), str), "spec", "jobs.batch does not implement the scale subresource")


def defaults(thing):
    """What the server itself writes into a new object."""
    if thing["kind"] == "Job":
        name, uid = thing["metadata"]["name"], thing["metadata"]["uid"]
        owner = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, "batch.kubernetes.io/job-name": name, "job-name": name}
        thing["spec"].setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        thing["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {}).update(owner)
        for container in thing["spec"]["template"]["spec"]["containers"] + thing["spec"]["template"]["spec"].get("initContainers", []):
            for variable in container.get("env", []):
                if "fieldRef" in variable.get("valueFrom", {}):
                    variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    if thing["kind"] in ("PersistentVolume", "PersistentVolumeClaim"):
        thing["spec"].setdefault("volumeMode", "Filesystem")
    if thing["kind"] == "Namespace":
        thing["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = thing["metadata"]["name"]
