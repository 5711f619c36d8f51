"""Scenarios of commands.py: which objects an API server takes, refuses, and keeps for others."""
import copy
import re
import subprocess
import time

import yaml

from bench import NAME, expect


def client_dry_run(bench):
    """Every kind of job that can be rendered is accepted by `kubectl apply --dry-run=client`, object by object."""
    bench.demo(2)
    nfs, claim = {"nfs": {"server": "10.0.0.5", "path": "/export"}}, {"claim": {"name": "canoe-files"}}
    kinds = {
        "indexed": {}, "podlist": {"discovery": "podlist"}, "nfs": {"volume": nfs}, "claim": {"volume": claim},
        "efs": {"volume": {"efs": {"fileSystem": "fs-1"}}}, "storage class": {"volume": {"storageClass": {"name": "shared", "size": "1Gi"}}},
        "without tls and policy": {"tls": False, "networkPolicy": False}, "metrics": {"metrics": {"from": ["monitoring"]}},
        "everything": {"discovery": "podlist", "volume": nfs, "data": {"url": "https://example.com/x.tgz"}, "namespace": "team", "createNamespace": True, "spot": True,
                       "tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"pool": "a"}, "deadlineSeconds": 600, "configFrom": "configMap"},
        "tutorial": {},
    }
    for kind, settings in kinds.items():
        bench.job_file(config="trainer_config.emb.py", **settings)
        flags = ["--v1"] if kind == "tutorial" else []
        made = subprocess.run([bench.binary, "job", "render", bench.job, *flags], capture_output=True, text=True)
        expect(made.returncode == 0, made.stderr)
        objects = [f"{thing['kind'].lower()} {thing['metadata']['name']}" for thing in yaml.safe_load_all(made.stdout) if thing]
        for way in (["--dry-run=client"], ["--dry-run=server", "--server-side"]):
            if way[0].endswith("server") and settings.get("createNamespace"):
                # A namespace that is not there cannot take objects, not even for a try; submit says so too.
                bench.store.create("namespaces", {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}})
            applied = bench.kubectl("apply", *way, "-f", "-", text=made.stdout)
            expect(applied.returncode == 0 and "Warning" not in applied.stderr, f"{kind}, {way}: {applied.stdout}{applied.stderr}")
            told = re.findall(r"^(\w+)[.\w]*/(\S+) (?:created|serverside-applied) \((?:server )?dry run\)$", applied.stdout, re.M)
            expect([f"{a} {b}" for a, b in told] == objects, f"{kind}: {applied.stdout}\n{objects}")
        print(f"    {kind}: {len(objects)} objects")
    bench.job_file(config="trainer_config.emb.py")
    faulty = bench.canoe("render", bench.job).replace("completionMode", "completionMod")
    applied = bench.kubectl("apply", "--dry-run=server", "--server-side", "-f", "-", text=faulty)
    expect(applied.returncode != 0 and "completionMod" in applied.stderr, f"a misspelt field was not found: {applied.stderr}")


def refuses(bench):
    """What a real server refuses, this one refuses: otherwise its consent means nothing."""
    bench.store.create("namespaces", {"metadata": {"name": "team", "labels": {}}})
    bench.job_file(namespace="team", discovery="podlist", volume={"nfs": {"server": "10.0.0.5"}}, metrics={"from": ["*"]})
    documents = list(yaml.safe_load_all(bench.canoe("render", bench.job)))
    rules = lambda it: it["spec"]["podFailurePolicy"]["rules"]
    node = lambda it: it["spec"]["template"]["spec"]["containers"][0]
    spec = lambda it: it["spec"]["template"]["spec"]
    faults = [
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(values=[78, 64]), "must be ordered"),
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(values=[0, 64]), "must not be 0"),
        ("Job", lambda it: rules(it)[1]["onExitCodes"].update(containerName="trainer"), "containerName"),
        ("Job", lambda it: (rules(it)[0].update(action="FailIndex"), it["spec"].pop("backoffLimitPerIndex")), "Unsupported value"),
        ("Job", lambda it: spec(it).update(restartPolicy="OnFailure"), 'only "Never" is supported'),
        ("Job", lambda it: it["spec"].update(podReplacementPolicy="TerminatingOrFailed"), "podReplacementPolicy"),
        ("Job", lambda it: it["spec"].pop("completions"), "when completion mode is Indexed"),
        ("Job", lambda it: it["spec"].update(selector={"matchLabels": {"a": "b"}}), "auto-generated"),
        ("Job", lambda it: it["metadata"].update(name="x" * 62), "63 characters"),
        ("Job", lambda it: it["spec"]["template"]["metadata"]["labels"].update({"batch.kubernetes.io/job-name": "other"}), "job-name"),
        ("Job", lambda it: node(it)["ports"][0].update(name="parameter-server-0"), "15 characters"),
        ("Job", lambda it: node(it)["ports"][1].update(name=node(it)["ports"][0]["name"]), "Duplicate value"),
        ("Job", lambda it: node(it)["volumeMounts"][0].update(name="nothing"), "Not found"),
        ("Job", lambda it: node(it)["resources"]["requests"].update(memory="64Gi"), "less than or equal to memory limit"),
        ("Job", lambda it: node(it)["resources"]["limits"].update(memory="4GB"), "quantities must match"),
        ("Job", lambda it: node(it).update(image=" canoe:test"), "whitespace"),
        ("Job", lambda it: spec(it).update(tolerations=[{"operator": "Exists", "key": "a", "value": "b"}]), "value must be empty"),
        ("Job", lambda it: spec(it).update(subdomain="a.b"), "subdomain"),
        ("Job", lambda it: spec(it)["securityContext"].update(fsGroupe=1), "fsGroupe"),
        ("ConfigMap", lambda it: it["data"].update({"lib/a.py": "x"}), "a valid config key"),
        ("ConfigMap", lambda it: it["data"].update({"a.py": "x" * (1 << 20)}), "at most 1048576 bytes"),
        ("Service", lambda it: it["metadata"].update(name="1st"), "metadata.name"),
        ("Service", lambda it: it["spec"]["ports"][0].pop("name"), "Required value"),
        ("PersistentVolume", lambda it: it["spec"].update(csi={"driver": "a", "volumeHandle": "b"}), "more than 1 volume type"),
        ("PersistentVolume", lambda it: it["spec"]["nfs"].update(path="export"), "absolute path"),
        ("PersistentVolumeClaim", lambda it: it["spec"].update(accessModes=[]), "access mode"),
        ("NetworkPolicy", lambda it: it["spec"]["ingress"][0]["ports"][0].update(port=70000), "between 1 and 65535"),
        ("PodDisruptionBudget", lambda it: it["spec"].update(maxUnavailable=1), "cannot be both set"),
        ("Role", lambda it: it["rules"][0].update(verb=["list"]), "verb"),
    ]
    for kind, spoil, words in faults:
        thing = copy.deepcopy(next(thing for thing in documents if thing["kind"] == kind and not thing["metadata"]["name"].endswith("-data")))
        spoil(thing)
        applied = bench.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=yaml.safe_dump(thing))
        expect(applied.returncode != 0 and words in applied.stderr, f"{kind}: {words!r} is not in {applied.stderr!r}")
    print(f"    {len(faults)} faults, each refused")


def not_ours(bench):
    """Objects that somebody else has applied under the job's names are not overwritten."""
    bench.claim()
    bench.job_file()
    made = bench.canoe("render", bench.job)
    applied = bench.kubectl("apply", "--server-side", "-f", "-", text=made)
    expect(applied.returncode == 0, applied.stderr)
    gone = bench.kubectl("delete", "job", NAME)
    expect(gone.returncode == 0, gone.stderr)
    token = bench.store.get("secrets", "default", NAME)["data"]["token"]
    said = bench.canoe("submit", bench.job, code=1)
    for text in ("made or changed by somebody else", '"kubectl"', ".data.token", "choose another name"):
        expect(text in said, said)
    expect("force-conflicts" not in said, said)
    expect(bench.store.get("secrets", "default", NAME)["data"]["token"] == token, "the token was overwritten")
    bench.canoe("delete", NAME, "--yes")
    bench.canoe("submit", bench.job)


def foreign(bench):
    """A Job of that name which somebody else has made is left alone, and nothing is made beside it."""
    bench.claim()
    bench.job_file(name="mine")
    pod = {"containers": [{"name": "work", "image": "busybox"}], "restartPolicy": "Never",
           "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "canoe-files"}}], "securityContext": {"runAsUser": 1000}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mine", "namespace": "default", "labels": {"team": "b"}},
           "spec": {"completions": 1, "parallelism": 1, "template": {"spec": pod}}}
    applied = bench.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump(job))
    expect(applied.returncode == 0, applied.stderr)
    # What controllers make by themselves, at any moment.
    others = ("events", "pods", "serviceaccounts")
    there = lambda: sorted(f"{kind} {name}" for kind, _, name in bench.store.objects if kind not in others)
    before, spec = there(), bench.store.get("jobs", "default", "mine")["spec"]
    for words in (["pause", "mine"], ["resume", "mine"], ["submit", bench.job], ["submit", bench.job, "--replace"], ["rm-data", "mine", "--yes"], ["get", "mine"]):
        said = bench.canoe(*words, code=1)
        if words[0] != "rm-data":
            expect("Job mine in namespace default belongs to somebody else" in said, f"{words}: {said}")
    bench.canoe("delete", "mine", "--yes")
    expect(there() == before and bench.store.get("jobs", "default", "mine")["spec"] == spec, f"{before} became {there()}")


def again_on_the_volume(bench):
    """Deleted and submitted again: the volume and its claim have stayed, and are bound."""
    bench.job_file(volume={"nfs": {"server": "10.0.0.5"}})
    bench.canoe("submit", bench.job)
    end = time.monotonic() + 10
    while bench.store.get("persistentvolumes", "", f"default.{NAME}-volume")["spec"]["claimRef"].get("uid") is None:
        expect(time.monotonic() < end, "the claim is not bound")
        time.sleep(0.1)
    bench.canoe("delete", NAME, "--yes")
    said = bench.canoe("submit", bench.job)
    expect(f"persistentvolume/default.{NAME}-volume serverside-applied" in said, said)
    expect(bench.store.get("persistentvolumes", "", f"default.{NAME}-volume")["spec"]["claimRef"].get("uid"), "the binding is lost")
