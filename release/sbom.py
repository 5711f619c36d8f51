#!/usr/bin/env python3
"""Prints the bill of materials of the program as CycloneDX 1.5: every crate that it is linked from, with version, licence and
checksum. Reads Cargo.lock and `cargo metadata`; tests and build tools of the crates are left out.
"""
import argparse
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def checksums():
    """Checksums of Cargo.lock by (name, version)."""
    text = (ROOT / 'Cargo.lock').read_text(encoding='utf-8')
    found = re.findall(r'name = "(.+?)"\nversion = "(.+?)"\nsource = .*?\nchecksum = "(.+?)"', text)
    return {(name, version): checksum for name, version, checksum in found}


def linked(metadata, root):
    """Ids of the packages that a package is linked from, itself included."""
    nodes = {node['id']: node for node in metadata['resolve']['nodes']}
    seen, todo = set(), [root]
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        for dependency in nodes[each]['deps']:
            if any(kind['kind'] is None for kind in dependency['dep_kinds']):
                todo.append(dependency['pkg'])
    return seen


def component(package, checksum):
    """A package as a component."""
    found = {'type': 'library', 'name': package['name'], 'version': package['version'],
             'purl': 'pkg:cargo/%s@%s' % (package['name'], package['version'])}
    if package.get('license'):
        found['licenses'] = [{'expression': package['license'].replace('/', ' OR ')}]
    if checksum:
        found['hashes'] = [{'alg': 'SHA-256', 'content': checksum}]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--version', required=True, help='version of the release')
    options = parser.parse_args()
    command = ['cargo', 'metadata', '--format-version', '1', '--locked', '--filter-platform', 'x86_64-unknown-linux-gnu']
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package['id']: package for package in metadata['packages']}
    root = next(each for each, package in packages.items() if package['name'] == 'canoe-cli')
    known = checksums()
    parts = [packages[each] for each in linked(metadata, root)]
    parts.sort(key=lambda package: (package['name'], package['version']))
    print(json.dumps({
        'bomFormat': 'CycloneDX', 'specVersion': '1.5', 'version': 1,
        'metadata': {'component': {'type': 'application', 'name': 'canoe', 'version': options.version,
                                   'licenses': [{'expression': 'Apache-2.0'}]}},
        'components': [component(package, known.get((package['name'], package['version']))) for package in parts
                       if not package['name'].startswith('canoe-')],
    }, indent=1))


if __name__ == '__main__':
    main()
