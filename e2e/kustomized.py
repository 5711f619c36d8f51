"""Checks the output of `kubectl kustomize` for deploy/kustomize: our objects, and the ConfigMap and the Secret that the Job mounts."""
import sys

import yaml

made = {(thing["kind"], thing["metadata"]["name"]): thing for thing in yaml.safe_load_all(open(sys.argv[1]))}
for thing in yaml.safe_load_all(open(sys.argv[2])):
    found = made.pop((thing["kind"], thing["metadata"]["name"]))
    if thing["kind"] == "Job":
        container = thing["spec"]["template"]["spec"]["containers"][0]
        container["image"] = "registry.example/canoe:0.1.0"
        for volume in thing["spec"]["template"]["spec"]["volumes"]:
            for kind, field in (("configMap", "name"), ("secret", "secretName")):
                if kind in volume and ({"configMap": "ConfigMap", "secret": "Secret"}[kind], volume[kind][field]) not in made:
                    sys.exit(f"the Job mounts {kind} {volume[kind][field]}, which kustomize does not make")
    if found != thing:
        sys.exit(f"kustomize changes {thing['kind']}")
print(f"kubectl kustomize makes the same job, and {', '.join(kind for kind, _ in made)}")
