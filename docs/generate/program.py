"""What the program says about itself: help of every command, flags, schemas."""
import json
import os
import re
import subprocess

FLAG = re.compile(r'  --(\w+)(?:=(\S*))? +(.*)')


class Program:
    """The binary that is documented."""

    def __init__(self, path):
        self.path = path

    def said(self, *arguments):
        """Standard output of a command that must succeed."""
        environment = dict(os.environ, COLUMNS='100', NO_COLOR='1')
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, env=environment, timeout=60)
        if done.returncode != 0:
            raise SystemExit('canoe %s ended with %d: %s' % (' '.join(arguments), done.returncode, done.stderr))
        return done.stdout

    def commands(self, *path):
        """(words, help text) of every command, parents first. v1's commands have their own page."""
        text = self.said(*path, '--help')
        if path:
            yield path, text
        inside = text.partition('\nCommands:\n')[2].partition('\n\n')[0]
        for name in re.findall(r'^  (\S+)', inside, re.M):
            if name != 'help' and (path or name not in ('train', 'pserver', 'node')):
                yield from self.commands(*path, name)

    def flags(self, command):
        """The flags of a v1 command that work, and those that are only accepted: (name, default, meaning)."""
        working, _, ignored = self.said(command, '--help').partition('\nAccepted from v1')
        return FLAG.findall(working), FLAG.findall(ignored)

    def schema(self, *command):
        return json.loads(self.said(*command))


def kind(schema, definitions):
    """The type of a property, in words."""
    schema = resolved(schema, definitions)
    if 'enum' in schema:
        return ', '.join('`%s`' % each for each in schema['enum'])
    if 'oneOf' in schema:
        names = [each['const'] if 'const' in each else next(iter(each['properties'])) for each in schema['oneOf']]
        return ', '.join('`%s`' % each for each in names)
    types = schema.get('type', 'object')
    name = next(each for each in ([types] if isinstance(types, str) else types) if each != 'null')
    if name == 'array':
        return 'list of %s' % kind(schema['items'], definitions)
    return {'object': 'mapping', 'string': 'text', 'boolean': 'true or false'}.get(name, name)


def resolved(schema, definitions):
    """The schema behind a reference or an optional value."""
    for each in schema.get('anyOf', []):
        if each.get('type') != 'null':
            return resolved(each, definitions)
    if '$ref' in schema:
        return definitions[schema['$ref'].rpartition('/')[2]]
    return schema


def rows(schema, definitions, prefix='', required=()):
    """(key, type, default, meaning) of each property, with those of inner objects after it."""
    for key, each in sorted(schema.get('properties', {}).items()):
        inner = resolved(each, definitions)
        default = each.get('default', inner.get('default'))
        if key in schema.get('required', required):
            shown = 'required'
        else:
            shown = '' if default is None or default in ({}, []) or isinstance(default, dict) \
                else '`%s`' % json.dumps(default).strip('"')
        yield prefix + key, kind(each, definitions), shown, each.get('description', inner.get('description', ''))
        if inner.get('type') == 'array' or 'array' in inner.get('type', []):
            inner = resolved(inner['items'], definitions)
            yield from rows(inner, definitions, prefix + key + '[].')
            continue
        for choice in inner.get('oneOf', []):
            if 'const' in choice:
                yield '%s%s: %s' % (prefix, key, choice['const']), '', '', choice.get('description', '')
            else:
                yield from rows(choice, definitions, prefix + key + '.')
        yield from rows(inner, definitions, prefix + key + '.')
