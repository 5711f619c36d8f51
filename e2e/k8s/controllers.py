"""What happens to objects by itself: claims are bound, Jobs get pods, pods get machines, images, processes and ends.

The behaviour is that of real controllers where a training job can see it: Indexed pods and their host names, growing back-off
(shortened), the failure policy, pods that cannot be made (quota, pod security, missing account), unschedulable pods.
"""
import copy
import os
import random
import signal
import string
import threading
import time

from store import Refused, now

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
# What jobs without an image run in.
STOCK = "docker.io/library/python:3.13-slim-trixie"
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def amount(quantity):
    digits = str(quantity).rstrip(string.ascii_letters)
    return float(digits) * UNITS[str(quantity)[len(digits) :]]


def condition(thing, kind):
    return next((c for c in thing.get("status", {}).get("conditions", []) if c["type"] == kind and c["status"] == "True"), None)


def security_problems(spec):
    """What the restricted standard says about a pod; a part of it, in the words of the admission plugin."""
    problems, pod = [], spec.get("securityContext", {})
    for container in spec.get("initContainers", []) + spec["containers"]:
        own = container.get("securityContext", {})
        quoted = f'(container "{container["name"]}" must set securityContext'
        if own.get("allowPrivilegeEscalation") is not False:
            problems.append(f"allowPrivilegeEscalation != false {quoted}.allowPrivilegeEscalation=false)")
        if "ALL" not in own.get("capabilities", {}).get("drop", []):
            problems.append(f'unrestricted capabilities {quoted}.capabilities.drop=["ALL"])')
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            problems.append("runAsNonRoot != true (pod or container must set securityContext.runAsNonRoot=true)")
        if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            problems.append("seccompProfile (pod or container must set securityContext.seccompProfile.type)")
    return problems


class Controllers:
    """One thread that looks at everything, ten times a second."""

    def __init__(self, store, kubelet=None, back_off=0.3):
        self.store, self.kubelet, self.back_off = store, kubelet, back_off
        # Images that can be pulled, and whether canoe is in them.
        self.images = {"canoe:test": True, STOCK: False}
        self.pull_error = 'failed to pull and unpack image: not found'
        # What each makes; kind's own makes folders of one machine.
        self.storage_classes = {"shared": "ReadWriteMany", "standard": "ReadWriteOnce"}
        self.machines = [{"cpu": 8, "memory": 2**36, "ephemeral-storage": 2**40, "labels": {"kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]}}] * 3
        self.quota_pods, self.account_after = None, 0.5
        # Pods on machines that do not answer: nothing happens to them.
        self.lost = set()
        self.running, self.retry_at, self.losses, self.spaces = {}, {}, {}, {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def close(self):
        self.ended.set()
        self.thread.join()
        for pod in list(self.running.values()):
            pod.signal(signal.SIGKILL)
            pod.thread.join(10)
            pod.remove()

    def work(self):
        while not self.ended.wait(0.1):
            if self.kubelet:
                self.kubelet.policies.keep(self.store.list("networkpolicies")[0])
            for space in self.store.list("namespaces")[0]:
                self.account(space)
            for claim in self.store.list("persistentvolumeclaims")[0]:
                self.bind(claim)
            for job in self.store.list("jobs")[0]:
                self.job(job)
            for pod in self.store.list("pods")[0]:
                self.pod(pod)

    def account(self, space):
        """Every namespace gets its account, but not in the same moment."""
        name = space["metadata"]["name"]
        self.spaces.setdefault(name, time.monotonic())
        if time.monotonic() > self.spaces[name] + self.account_after and not self.store.find("serviceaccounts", name, "default"):
            self.store.create("serviceaccounts", {"metadata": {"name": "default", "namespace": name}})

    # Claims

    def bind(self, claim):
        if claim.get("status", {}).get("phase") == "Bound":
            return
        spec, metadata = claim["spec"], claim["metadata"]
        phase, volume = "Pending", spec.get("volumeName")
        if volume:
            found = self.store.find("persistentvolumes", "", volume)
            if found and self.fits(found, claim):
                phase = "Bound"
                self.store.update("persistentvolumes", "", volume, lambda it: it["spec"].setdefault("claimRef", {}).update(
                    {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}))
            elif found:
                self.store.event(claim, "FailedBinding", f'volume "{volume}" already bound to a different claim.')
        elif self.storage_classes.get(spec.get("storageClassName")) in spec.get("accessModes", []):
            phase = "Bound"
        elif spec.get("storageClassName") in self.storage_classes:
            text = f'failed to provision volume with StorageClass "{spec["storageClassName"]}": NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes'
            self.store.event(claim, "ProvisioningFailed", text)
            waiting = "Waiting for a volume to be created either by the external provisioner 'rancher.io/local-path' or manually by the system administrator."
            self.store.event(claim, "ExternalProvisioning", waiting, "Normal")
        elif spec.get("storageClassName"):
            self.store.event(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{spec["storageClassName"]}" not found')
        else:
            self.store.event(claim, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        self.status("persistentvolumeclaims", claim, {"phase": phase})

    def fits(self, volume, claim):
        """Whether a volume is kept for this claim, or for nobody, and has what the claim wants."""
        spec, wish, metadata = volume["spec"], claim["spec"], claim["metadata"]
        reference = spec.get("claimRef", {})
        kept = reference.get("name") in (None, metadata["name"]) and reference.get("namespace") in (None, metadata["namespace"]) and reference.get("uid") in (None, metadata["uid"])
        modes = set(wish.get("accessModes", [])) <= set(spec.get("accessModes", wish.get("accessModes", [])))
        return kept and modes and spec.get("storageClassName", "") == wish.get("storageClassName", "")

    def status(self, plural, thing, status):
        metadata = thing["metadata"]

        def change(fresh):
            fresh.setdefault("status", {}).update(status)

        return self.store.update(plural, metadata.get("namespace", ""), metadata["name"], change)

    # Jobs

    def pods_of(self, job):
        pods, _ = self.store.list("pods", job["metadata"]["namespace"], f"{JOB_NAME}={job['metadata']['name']}")
        return [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]]

    def job(self, job):
        pods = self.pods_of(job)
        metadata, spec, status = job["metadata"], job["spec"], job.get("status", {})
        if metadata.get("deletionTimestamp"):
            for pod in pods:
                self.delete_pod(pod)
            if not pods:
                self.store.put("jobs", job, "DELETED")
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            return
        if spec.get("suspend"):
            for pod in pods:
                if pod.get("status", {}).get("phase") not in ("Failed", "Succeeded"):
                    self.delete_pod(pod)
        done, counted = set(status.get("done", [])), set(status.get("counted", []))
        failed, reason = status.get("failed", 0), None
        for pod in pods:
            uid, phase = pod["metadata"]["uid"], pod.get("status", {}).get("phase")
            if phase not in ("Failed", "Succeeded") or uid in counted:
                continue
            counted.add(uid)
            if phase == "Succeeded":
                done.add(pod["metadata"].get("labels", {}).get(INDEX, uid))
                continue
            action, why = self.judge(job, pod)
            failed += action != "Ignore"
            reason = why if action == "FailJob" else reason
            # Every pod that has ended doubles the pause, also one that uses no retry: for all nodes, or for its own.
            key = self.paused(job, pod["metadata"].get("labels", {}).get(INDEX))
            self.losses[key] = self.losses.get(key, 0) + 1
            self.retry_at[key] = time.monotonic() + self.back_off * 2 ** min(self.losses[key] - 1, 6)
        active = [pod for pod in pods if pod.get("status", {}).get("phase") in (None, "Pending", "Running")]
        ready = [pod for pod in active if condition(pod, "Ready")]
        new = {"active": len(active), "ready": len(ready), "succeeded": len(done), "failed": failed, "done": sorted(done), "counted": sorted(counted)}
        if failed > spec.get("backoffLimit", 6):
            reason = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if reason:
            new |= {"active": 0, "ready": 0, "conditions": [
                {"type": kind, "status": "True", "reason": reason[0], "message": reason[1], "lastTransitionTime": now()} for kind in ("FailureTarget", "Failed")
            ]}
            for pod in active:
                self.delete_pod(pod)
        elif len(done) >= spec["completions"]:
            new["conditions"] = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "", "lastTransitionTime": now()}]
        self.status("jobs", job, new)
        if "conditions" not in new and not spec.get("suspend") and time.monotonic() >= self.retry_at.get(metadata["uid"], 0):
            self.make_pods(job, active, done)

    def paused(self, job, index):
        """What waits together after a pod has ended."""
        return (job["metadata"]["uid"], index) if "backoffLimitPerIndex" in job["spec"] else job["metadata"]["uid"]

    def expire(self, namespace, name):
        """What the TTL controller does when `ttlSecondsAfterFinished` is over: the Job goes, and its pods with it."""
        job = self.store.get("jobs", namespace, name)
        assert "ttlSecondsAfterFinished" in job["spec"] and (condition(job, "Complete") or condition(job, "Failed")), job
        self.store.update("jobs", namespace, name, lambda it: it["metadata"].update(deletionTimestamp=now()))

    def judge(self, job, pod):
        """What the failure policy says about a pod that has failed."""
        states = [s.get("state", {}).get("terminated", {}) | {"name": s["name"]} for s in pod["status"].get("containerStatuses", [])]
        for rule in job["spec"].get("podFailurePolicy", {}).get("rules", []):
            for wanted in rule.get("onPodConditions", []):
                if condition(pod, wanted["type"]):
                    return rule["action"], None
            codes = rule.get("onExitCodes")
            for state in states if codes else []:
                if codes.get("containerName") in (None, state["name"]) and state.get("exitCode") in codes["values"]:
                    text = f"Container {state['name']} for pod {pod['metadata']['namespace']}/{pod['metadata']['name']} failed with exit code {state['exitCode']} matching FailJob rule at index 1"
                    return rule["action"], ("PodFailurePolicy", text)
        return "Count", None

    def make_pods(self, job, active, done):
        spec, metadata = job["spec"], job["metadata"]
        indexed = spec.get("completionMode") == "Indexed"
        taken = {pod["metadata"].get("labels", {}).get(INDEX) for pod in active}
        if indexed:
            wanted = [str(i) for i in range(spec["completions"]) if str(i) not in taken and str(i) not in done]
        else:
            wanted = [None] * (min(spec["parallelism"], spec["completions"] - len(done)) - len(active))
        for index in wanted:
            if time.monotonic() < self.retry_at.get(self.paused(job, index), 0):
                continue
            pod = copy.deepcopy(spec["template"])
            name = metadata["name"] + (f"-{index}" if indexed else "")
            labels = pod.setdefault("metadata", {}).setdefault("labels", {})
            labels |= {JOB_NAME: metadata["name"], "job-name": metadata["name"], "controller-uid": metadata["uid"], "batch.kubernetes.io/controller-uid": metadata["uid"]}
            pod["metadata"] |= {
                "name": f"{name}-{''.join(random.choices(string.ascii_lowercase, k=5))}",
                "namespace": metadata["namespace"],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}],
            }
            if indexed:
                labels[INDEX] = index
                pod["metadata"]["annotations"] = {INDEX: index}
                pod["spec"]["hostname"] = name
                for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
                    container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": index})
            try:
                self.admit(pod)
                self.store.create("pods", {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending"}} | pod)
            except Refused as refused:
                self.store.event(job, "FailedCreate", f"Error creating: {refused}")
                self.retry_at[metadata["uid"]] = time.monotonic() + 1
                return

    def admit(self, pod):
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        space = self.store.find("namespaces", "", namespace) or {"metadata": {}}
        if space["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce") == "restricted":
            problems = security_problems(pod["spec"])
            if problems:
                raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": {", ".join(problems)}')
        account = pod["spec"].get("serviceAccountName", "default")
        if not self.store.find("serviceaccounts", namespace, account):
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: error looking up service account {namespace}/{account}: serviceaccount "{account}" not found')
        count = len(self.store.list("pods", namespace)[0])
        if self.quota_pods is not None and count >= self.quota_pods:
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: team-quota, requested: pods=1, used: pods={count}, limited: pods={self.quota_pods}')

    # Pods

    def pod(self, pod):
        metadata = pod["metadata"]
        key = metadata["uid"]
        process = self.running.get(key)
        if metadata["name"] in self.lost:
            return
        if metadata.get("deletionTimestamp"):
            self.end_pod(pod, process)
        elif process is None and pod["status"]["phase"] == "Pending":
            self.place(pod)
        elif process is not None:
            self.show(pod, process)

    def place(self, pod):
        problem = self.unschedulable(pod)
        if problem:
            state = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": problem}
            self.status("pods", pod, {"conditions": [state]})
            return
        image = pod["spec"]["containers"][0]["image"]
        container = {"name": pod["spec"]["containers"][0]["name"], "image": image, "ready": False, "restartCount": 0}
        if image not in self.images:
            container["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": {self.pull_error}'}}
            self.status("pods", pod, {"conditions": [], "containerStatuses": [container]})
            return
        if self.kubelet is None:
            return
        for volume in pod["spec"].get("volumes", []):
            for kind, field, plural in (("configMap", "name", "configmaps"), ("secret", "secretName", "secrets")):
                if kind in volume:
                    thing = self.store.find(plural, pod["metadata"]["namespace"], volume[kind][field])
                    if thing is None:
                        self.store.event(pod, "FailedMount", f'MountVolume.SetUp failed for volume "{volume["name"]}" : {kind.lower()} "{volume[kind][field]}" not found')
                        return
                    self.kubelet.keep(thing)
        for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            for source in container.get("envFrom", []):
                self.kubelet.keep(self.store.get("secrets", pod["metadata"]["namespace"], source["secretRef"]["name"]))
        process = self.kubelet.pod(pod, self.images[image])
        process.thread = threading.Thread(target=process.run, daemon=True)
        process.thread.start()
        self.running[pod["metadata"]["uid"]] = process

    def unschedulable(self, pod):
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        for volume in spec.get("volumes", []):
            name = volume.get("persistentVolumeClaim", {}).get("claimName")
            claim = self.store.find("persistentvolumeclaims", namespace, name) if name else None
            if name and claim is None:
                return f'0/{len(self.machines)} nodes are available: persistentvolumeclaim "{name}" not found.'
            if claim and claim.get("status", {}).get("phase") != "Bound":
                return f"0/{len(self.machines)} nodes are available: pod has unbound immediate PersistentVolumeClaims."
        requests = spec["containers"][0].get("resources", {}).get("requests", {})
        selector, reasons = spec.get("nodeSelector", {}), []
        for machine in self.machines:
            if any(machine["labels"].get(key) != value for key, value in selector.items()):
                reasons.append("node(s) didn't match Pod's node affinity/selector")
                continue
            lacking = [f"Insufficient {kind}" for kind, wanted in requests.items() if amount(wanted) > machine.get(kind, 0)]
            if not lacking:
                return None
            reasons += lacking
        counts = ", ".join(f"{reasons.count(reason)} {reason}" for reason in dict.fromkeys(reasons))
        return f"0/{len(self.machines)} nodes are available: {counts}."

    def show(self, pod, process):
        container = {"name": pod["spec"]["containers"][0]["name"], "image": pod["spec"]["containers"][0]["image"], "ready": process.ready, "restartCount": 0}
        status = {"podIP": process.address, "containerStatuses": [container]}
        is_alive = process.code is None or process.thread.is_alive()
        if is_alive and pod.get("status", {}).get("phase") == "Pending" and not (process.is_main and process.first_process()):
            return
        if is_alive:
            status |= {"phase": "Running", "conditions": [{"type": "Ready", "status": str(process.ready)}]}
            container["state"] = {"running": {"startedAt": now()}}
        else:
            code = process.code if process.code >= 0 else 128 - process.code
            tail = "\n".join(process.log().splitlines()[-20:])[-2000:]
            reason = "Completed" if code == 0 else "OOMKilled" if code == 137 and process.killed_for_memory else "Error"
            container["state"] = {"terminated": {"exitCode": code, "reason": reason, "message": tail if code else "", "finishedAt": now()}}
            status |= {"phase": "Succeeded" if code == 0 else "Failed", "conditions": [{"type": "Ready", "status": "False"}]}
            if process.is_evicted:
                status["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})
        if pod.get("status", {}).get("phase") not in ("Failed", "Succeeded"):
            old = pod.get("status", {}).get("containerStatuses", [{}])[0].get("state", {})
            if "running" in old and "running" in container["state"]:
                container["state"] = old
            self.status("pods", pod, status)

    def delete_pod(self, pod):
        def change(fresh):
            fresh["metadata"].setdefault("deletionTimestamp", now())

        self.store.update("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], change)

    def end_pod(self, pod, process):
        """SIGTERM, the time that the pod is given, SIGKILL; then its state, for the Job that counts; then nothing."""
        if process is not None and (process.code is None or process.thread.is_alive()):
            begun = getattr(process, "asked", None)
            if begun is None:
                process.asked = time.monotonic()
                process.signal(signal.SIGTERM)
            elif time.monotonic() > begun + pod["spec"].get("terminationGracePeriodSeconds", 30):
                process.signal(signal.SIGKILL)
            return
        if process is not None:
            self.show(pod, process)
        owner = pod["metadata"].get("ownerReferences", [{}])[0]
        job = self.store.find("jobs", pod["metadata"]["namespace"], owner.get("name"))
        open_ = job and not condition(job, "Complete") and not condition(job, "Failed") and not job["metadata"].get("deletionTimestamp")
        if open_ and process is not None and pod["metadata"]["uid"] not in job.get("status", {}).get("counted", []):
            return
        self.store.put("pods", pod, "DELETED")
