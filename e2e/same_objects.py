"""Compares the objects that kubectl printed (JSON on standard input) with a YAML file, read by PyYAML (YAML 1.1)."""
import json
import sys

import yaml


def stream(text):
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text.rstrip()):
        value, end = decoder.raw_decode(text, position)
        yield from value["items"] if value.get("kind") == "List" else [value]
        position = end + len(text[end:]) - len(text[end:].lstrip())


printed = list(stream(sys.stdin.read()))
written = [document for document in yaml.safe_load_all(open(sys.argv[1])) if document]
if printed != written:
    sys.exit(f"{sys.argv[1]}: kubectl and PyYAML read different objects")
