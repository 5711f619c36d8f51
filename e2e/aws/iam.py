"""IAM's rules for one request: is it allowed by these statements?

Deny wins, then Allow, else it is refused. A condition key that the request does not have makes a positive operator
false and a negated one true; `IfExists` makes both true. Only the operators that our policies use are known; any other
is an error, so that none is skipped by accident.
"""

import dataclasses
import functools
import re


@dataclasses.dataclass(frozen=True)
class Request:
    """One authorisation: an action on one resource, and the condition keys that hold."""

    action: str
    resource: str
    keys: tuple  # pairs of key and value (text or tuple of texts)
    why: str  # whose need it is, for messages

    def value(self, key):
        for name, value in self.keys:
            if name.lower() == key.lower():
                return value
        return None


@functools.lru_cache(maxsize=None)
def pattern(text, ignore_case):
    parts = re.split(r"([*?])", text)
    body = "".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts)
    return re.compile(body, re.I | re.S if ignore_case else re.S)


def like(text, wanted, ignore_case=False):
    return pattern(wanted, ignore_case).fullmatch(text) is not None


def as_list(value):
    return value if isinstance(value, list) else [value]


OPERATORS = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringLike": like,
    "ArnEquals": like,
    "ArnLike": like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
}


def holds(operator, key, wanted, request):
    value = request.value(key)
    wanted = [str(text) for text in as_list(wanted)]
    if operator == "Null":
        return (value is None) == (wanted == ["true"])
    quantifier, _, rest = operator.rpartition(":")
    name, if_exists = rest.removesuffix("IfExists"), rest.endswith("IfExists")
    negated = "Not" in name
    test = OPERATORS[name.replace("Not", "", 1)]
    if value is None:
        return if_exists or negated or quantifier == "ForAllValues"
    values = value if isinstance(value, tuple) else (value,)
    assert quantifier or len(values) == 1, f"{operator} on {key}, which has several values"
    matches = [any(test(one, text) for text in wanted) != negated for one in values]
    return any(matches) if quantifier == "ForAnyValue" else all(matches)


def applies(statement, request):
    """The action and resource patterns of the statement that match, or None."""
    action = next((a for a in as_list(statement["Action"]) if like(request.action, a, ignore_case=True)), None)
    resource = next((r for r in as_list(statement["Resource"]) if like(request.resource, r)), None)
    if action is None or resource is None:
        return None
    for operator, keys in statement.get("Condition", {}).items():
        for key, wanted in keys.items():
            if not holds(operator, key, wanted, request):
                return None
    return action, resource


def allowed(statements, request, used=None):
    """Whether the request is allowed. `used` collects which parts of which statements were needed for it."""
    answer = False
    for number, statement in enumerate(statements):
        match = applies(statement, request)
        if match and statement["Effect"] == "Deny":
            return False
        if match:
            answer = True
            if used is not None:
                used.update({(number, "Action", match[0]), (number, "Resource", match[1])})
    return answer
