#!/usr/bin/env python3
"""Judges every rendered template by tools that are not ours: cfn-lint, checkov, cloud-init schema.

    lint_templates.py --matrix DIR         judges what `cargo run -p canoe-provision --example render_matrix DIR` has rendered

Needs cfn-lint (pip). checkov (pip) and cloud-init (Debian) are used when they are found, and required
with --strict. Ends with 1 if anything is found that is not in the tables below.
"""

import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import cfnlint

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = pathlib.Path(cfnlint.__file__).parent / "data/schemas"

# cfn-lint warnings that we accept, with the reason. Errors are never accepted.
ACCEPTED_WARNINGS = {
    "W3010": "zones are named on purpose: cluster.yaml says which, and the render is deterministic",
}

# checkov findings that we accept: in cases of this name, for this reason.
ACCEPTED_FINDINGS = {
    "CKV_AWS_51": ("eks", "jobs name images by digest, so a tag may move"),
    "CKV_AWS_91": ("self-managed", "a network load balancer that passes TCP through writes access logs for TLS listeners only"),
    "CKV_AWS_158": ("own-key", "the policy of a key that you bring may not let in CloudWatch; logs then have CloudWatch's own key"),
}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def distinct(matrix, directory):
    """Cases share many stacks; each distinct template is judged once, under the name of the first case that has it."""
    seen = set()
    for path in sorted(matrix.glob("*/*.json")):
        text = path.read_bytes()
        if path.stem in ("base", "storage", "cluster") and text not in seen:
            seen.add(text)
            copy = directory / path.relative_to(matrix)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
    return directory


def lint(matrix):
    templates = sorted(str(path) for path in matrix.glob("*/*.json"))
    result = run(["cfn-lint", "--format", "json", "-t", *templates])
    findings = json.loads(result.stdout or "[]")
    bad = [f for f in findings if f["Rule"]["Id"] not in ACCEPTED_WARNINGS]
    for finding in bad:
        print(f"{finding['Filename']}: {finding['Rule']['Id']}: {finding['Message']}")
    assert len(templates) > 50, f"only {len(templates)} distinct templates"
    print(f"cfn-lint: {len(templates)} distinct templates, {len(bad)} findings")
    return len(bad)


def security(matrix, checkov):
    """One run over all cases: starting checkov costs more than judging a template."""
    options = ["--framework", "cloudformation", "--skip-download", "--quiet", "--compact", "-o", "json"]
    result = run([checkov, "-d", str(matrix), *options])
    reports = json.loads(result.stdout)
    bad = passed = 0
    for report in reports if isinstance(reports, list) else [reports]:
        passed += report["summary"]["passed"]
        for finding in report["results"]["failed_checks"]:
            case = finding["file_path"].strip("/").split("/")[0]
            where, _ = ACCEPTED_FINDINGS.get(finding["check_id"], (None, None))
            if where is None or where not in case:
                bad += 1
                print(f"{case}: {finding['check_id']}: {finding['resource']}: {finding['check_name']}")
    assert passed > 0, "checkov has judged nothing"
    print(f"checkov: {passed} checks passed, {bad} findings that are not justified")
    return bad


def scripts(matrix):
    """Scripts of machines, by the shell that runs them."""
    bad = 0
    files = sorted(matrix.glob("*/*.sh"))
    for path in files:
        result = run(["bash", "-n", str(path)])
        if result.returncode != 0:
            bad += 1
            print(f"{path}: {result.stderr}")
    assert len(files) > 40, f"only {len(files)} scripts"
    print(f"bash: {len(files)} scripts, {bad} refused")
    return bad


# Properties of the controller that change in a cluster's life: they must not make CloudFormation replace it.
CHANGING = ["BlockDeviceMappings", "IamInstanceProfile", "InstanceType", "MetadataOptions", "SecurityGroupIds", "Tags", "UserData", "Volumes"]


def replacements():
    """The test double's list of properties whose change replaces a resource, against CloudFormation's registry."""
    index = json.loads((SCHEMAS / "providers/us-west-2.json").read_text())
    source = (ROOT / "crates/provision/src/double/account.rs").read_text()
    table = re.search(r"const CREATE_ONLY.*?= \[(.*?)\n\];", source, re.S).group(1)
    found = re.findall(r'"(AWS::[\w:]+)",\s*&\[(.*?)\]', table, re.S)
    assert len(found) == 6, table
    bad = 0
    for kind, names in found:
        known = {path.split("/")[2] for path in json.loads((SCHEMAS / f"resources/{index[kind]}.json").read_text())["createOnlyProperties"]}
        wrong = set(re.findall(r'"(\w+)"', names)) - known
        wrong |= known & set(CHANGING) if kind == "AWS::EC2::Instance" else set()
        bad += len(wrong)
        for name in sorted(wrong):
            print(f"{kind}: the registry does not agree about {name}")
    print(f"registry: {len(found)} types, what replaces them and what does not")
    return bad


def user_data(matrix, command):
    bad = 0
    files = sorted(matrix.glob("*/user-data-*"))
    for path in files:
        result = run([*command, "schema", "--config-file", str(path)])
        if result.returncode != 0:
            bad += 1
            print(f"{path}: {result.stdout}{result.stderr}")
    print(f"cloud-init schema: {len(files)} files, {bad} refused")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrix", type=pathlib.Path, required=True, help="directory of rendered cases")
    parser.add_argument("--checkov", default=shutil.which("checkov"), help="path of checkov")
    parser.add_argument("--cloud-init", default=shutil.which("cloud-init"), help="command of cloud-init")
    parser.add_argument("--strict", action="store_true", help="fail when a tool is missing")
    arguments = parser.parse_args()
    matrix = arguments.matrix
    cases = len(list(matrix.iterdir()))
    assert cases > 50, f"the matrix has only {cases} cases"
    templates = distinct(matrix, pathlib.Path(tempfile.mkdtemp(prefix="canoe-distinct-")))
    bad = lint(templates) + scripts(matrix) + replacements()
    for name, tool, judge in [
        ("checkov", arguments.checkov, lambda: security(templates, arguments.checkov)),
        ("cloud-init", arguments.cloud_init, lambda: user_data(matrix, shlex.split(arguments.cloud_init))),
    ]:
        if tool:
            bad += judge()
        else:
            print(f"{name} is not installed")
            bad += int(arguments.strict)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
