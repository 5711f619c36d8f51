"""The objects of the stand-in cluster, with versions, watches and the rules that an API server has for changes."""
import copy
import threading
import time
import uuid

import admission

# plural: (API path, kind, in a namespace)
RESOURCES = {
    "namespaces": ("api/v1", "Namespace", False),
    "nodes": ("api/v1", "Node", False),
    "persistentvolumes": ("api/v1", "PersistentVolume", False),
    "persistentvolumeclaims": ("api/v1", "PersistentVolumeClaim", True),
    "pods": ("api/v1", "Pod", True),
    "services": ("api/v1", "Service", True),
    "configmaps": ("api/v1", "ConfigMap", True),
    "secrets": ("api/v1", "Secret", True),
    "serviceaccounts": ("api/v1", "ServiceAccount", True),
    "events": ("api/v1", "Event", True),
    "jobs": ("apis/batch/v1", "Job", True),
    "roles": ("apis/rbac.authorization.k8s.io/v1", "Role", True),
    "rolebindings": ("apis/rbac.authorization.k8s.io/v1", "RoleBinding", True),
    "ingresses": ("apis/networking.k8s.io/v1", "Ingress", True),
    "networkpolicies": ("apis/networking.k8s.io/v1", "NetworkPolicy", True),
    "poddisruptionbudgets": ("apis/policy/v1", "PodDisruptionBudget", True),
}

class Refused(Exception):
    """An answer of the API server that is not success."""

    def __init__(self, code, reason, message, **more):
        super().__init__(message)
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code} | more
        self.code = code


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def matches(selector, labels):
    """Equality, inequality and existence: what kubectl's -l can say and canoe uses."""
    for term in filter(None, (selector or "").split(",")):
        if "!=" in term:
            key, value = term.split("!=")
            if labels.get(key) == value:
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=")
            if labels.get(key) != value:
                return False
        elif term.startswith("!") == (term.lstrip("!") in labels):
            return False
    return True


def merged(old, new):
    """What is applied wins; what is not mentioned stays. Lists are replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    both = dict(old)
    for key, value in new.items():
        both[key] = merged(old[key], value) if key in old else copy.deepcopy(value)
    return both


def leaves(value, path=""):
    """Paths and values of everything that is said; lists are said as a whole."""
    if not isinstance(value, dict):
        return {path: value}
    found = {}
    for key, part in value.items():
        found |= leaves(part, f"{path}.{key}")
    return found


# Owned as a whole: what the server has filled in counts when somebody else says the same with less.
ATOMIC = ("fieldRef", "resourceFieldRef")


def contains(old, new, atomic=()):
    """Whether everything that `new` says is so in `old`; for parts that are `atomic`, also nothing else."""
    if isinstance(new, dict):
        return isinstance(old, dict) and all(key in old and (old[key] == value if key in atomic else contains(old[key], value, atomic)) for key, value in new.items())
    if isinstance(new, list):
        return isinstance(old, list) and len(old) == len(new) and all(contains(one, other, atomic) for one, other in zip(old, new))
    return old == new


class Store:
    def __init__(self):
        self.objects, self.version, self.history = {}, 1, []
        # Who has applied which field of which object last.
        self.owners = {}
        self.changed = threading.Condition(threading.RLock())

    def get(self, plural, namespace, name):
        with self.changed:
            found = self.objects.get((plural, namespace, name))
            if found is None:
                group = RESOURCES[plural][0].split("/")[1]
                what = plural if group == "v1" else f"{plural}.{group}"
                raise Refused(404, "NotFound", f'{what} "{name}" not found', details={"name": name, "kind": plural})
            return copy.deepcopy(found)

    def find(self, plural, namespace, name):
        with self.changed:
            return copy.deepcopy(self.objects.get((plural, namespace, name)))

    def list(self, plural, namespace=None, labels="", fields=""):
        with self.changed:
            chosen = [
                copy.deepcopy(thing)
                for (kind, place, _), thing in sorted(self.objects.items(), key=lambda item: item[0])
                if kind == plural and namespace in (None, place) and self.is_chosen(thing, labels, fields)
            ]
            return chosen, self.version

    @staticmethod
    def is_chosen(thing, labels, fields):
        if not matches(labels, thing["metadata"].get("labels", {})):
            return False
        wanted = dict(term.split("=", 1) for term in (fields or "").split(",") if "=" in term)
        name = wanted.get("metadata.name")
        return name is None or thing["metadata"]["name"] == name

    def put(self, plural, thing, kind="MODIFIED"):
        """Stores a version of an object and tells those who watch."""
        with self.changed:
            self.version += 1
            metadata = thing["metadata"]
            metadata["resourceVersion"] = str(self.version)
            key = plural, metadata.get("namespace", ""), metadata["name"]
            if kind == "DELETED":
                self.objects.pop(key, None)
                self.owners.pop(key, None)
            else:
                self.objects[key] = copy.deepcopy(thing)
            self.history.append((self.version, kind, plural, copy.deepcopy(thing)))
            self.changed.notify_all()
            return copy.deepcopy(thing)

    def create(self, plural, thing):
        path, kind, _ = RESOURCES[plural]
        with self.changed:
            metadata = thing["metadata"]
            key = plural, metadata.get("namespace", ""), metadata["name"]
            if key in self.objects:
                raise Refused(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
            thing.setdefault("kind", kind)
            thing.setdefault("apiVersion", path.split("/", 1)[1])
            if kind == "Pod":
                thing.setdefault("status", {"phase": "Pending"})
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            admission.defaults(thing)
            return self.put(plural, thing, "ADDED")

    def update(self, plural, namespace, name, change):
        """Applies a function to an object that may be gone by now."""
        with self.changed:
            thing = self.objects.get((plural, namespace, name))
            if thing is None:
                return None
            thing = copy.deepcopy(thing)
            before = copy.deepcopy(thing)
            change(thing)
            return thing if thing == before else self.put(plural, thing)

    def apply(self, plural, namespace, name, thing, dry_run, manager, force):
        """Server-side apply: creates, or changes what may be changed and belongs to nobody else."""
        with self.changed:
            key = plural, namespace, name
            old, said = self.objects.get(key), leaves({part: value for part, value in thing.items() if part not in ("apiVersion", "kind")})
            said = {path: value for path, value in said.items() if path not in (".metadata.name", ".metadata.namespace")}
            if old is None:
                if dry_run:
                    return thing, True
                managed = {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {}}
                created = self.create(plural, thing | {"metadata": thing["metadata"] | {"managedFields": [managed]}})
                self.owners[key] = dict.fromkeys(said, manager)
                return created, True
            owners, present = self.owners.setdefault(key, {}), leaves(old)
            others = {path: owners[path] for path in said if owners.get(path, manager) != manager and not contains(present.get(path), said[path], ATOMIC)}
            if others and not force:
                by = sorted(set(others.values()))
                message = f"Apply failed with {len(others)} conflict{'s' * (len(others) > 1)}: conflict{'s' * (len(others) > 1)} with {', '.join(repr(who) for who in by)}: {', '.join(others)}"
                raise Refused(409, "Conflict", message.replace("'", '"'))
            for field in admission.IMMUTABLE.get(old["kind"], []):
                wanted = thing.get("spec", {}).get(field)
                if wanted is not None and not contains(old["spec"].get(field), wanted):
                    message = f'{old["kind"]} "{name}" is invalid: spec.{field}: Invalid value: field is immutable'
                    raise Refused(422, "Invalid", message)
            if old.get("immutable") and any(part in thing and thing[part] != old.get(part) for part in ("data", "binaryData")):
                message = f'{old["kind"]} "{name}" is invalid: data: Forbidden: field is immutable when `immutable` is set'
                raise Refused(422, "Invalid", message)
            if old["kind"] == "RoleBinding" and old["roleRef"] != thing["roleRef"]:
                raise Refused(422, "Invalid", f'RoleBinding "{name}" is invalid: roleRef: Invalid value: cannot change roleRef')
            new = merged(old, thing)
            if dry_run:
                return new, False
            owners.update(dict.fromkeys(said, manager))
            return (old, False) if new == old else (self.put(plural, new), False)

    def event(self, about, reason, message, kind_of_event="Warning"):
        kind, metadata = about["kind"], about["metadata"]
        namespace = metadata.get("namespace", "default")
        for thing in self.list("events", namespace)[0]:
            if thing["reason"] == reason and thing["message"] == message and thing["involvedObject"]["name"] == metadata["name"]:
                if thing["lastTimestamp"] != now():
                    again = {"count": thing["count"] + 1, "lastTimestamp": now()}
                    self.update("events", namespace, thing["metadata"]["name"], lambda fresh: fresh.update(again))
                return
        involved = {"kind": kind, "name": metadata["name"], "namespace": namespace, "uid": metadata.get("uid", "")}
        self.create("events", {
            "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:12]}", "namespace": namespace},
            "involvedObject": involved, "reason": reason, "message": message, "type": kind_of_event, "firstTimestamp": now(), "lastTimestamp": now(), "count": 1,
        })
