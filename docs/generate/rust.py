"""Facts that stand in Rust sources: layer types that are computed, tables in the head of a file, records, exit codes."""
import re


def registered(source):
    """The layer types that can be trained, from the table in `crates/nn/src/layers/mod.rs`."""
    table = source.partition('REGISTRY: &[')[2].partition('\n];')[0]
    return set(re.findall(r'\(\s*"([^"]+)"', table))


def head_table(source):
    """The first Markdown table of a file's head."""
    lines = [line[4:] for line in source.split('\n') if line.startswith('//! |')]
    if not lines:
        raise SystemExit('the head of a file has no table any more; see docs/reference.py')
    return '\n'.join(lines)


def head_formula(source):
    """The first formula block of a file's head."""
    found = re.search(r'//! ```text\n(.*?)//! ```', source, re.S)
    return re.sub(r'^//! ?', '', found.group(1), flags=re.M).rstrip()


def block(source, opening):
    """The text between the braces after `opening`."""
    start = source.index(opening) + len(opening)
    depth, end = 1, start
    while depth:
        depth += {'{': 1, '}': -1}.get(source[end], 0)
        end += 1
    return source[start:end - 1]


def fields(body):
    """(name, type, comment) of each field of a struct or variant."""
    found, comment = [], []
    for line in body.split('\n'):
        line = line.strip()
        field = re.fullmatch(r'(?:pub )?(\w+): (.+),', line)
        if line.startswith('///'):
            comment.append(line[3:].strip())
        elif field:
            found.append((field.group(1), field.group(2), ' '.join(comment)))
            comment = []
        elif not line.startswith('#['):
            comment = []
    return found


def variants(body):
    """(name, comment, fields or name of a struct) of each variant of an enum."""
    found, comment, at = [], [], 0
    lines = body.split('\n')
    while at < len(lines):
        line = lines[at].strip()
        start = re.match(r'(\w+)(?: \{|\((?:Box<)?(\w+)>?\))?', line)
        if line.startswith('///'):
            comment.append(line[3:].strip())
        elif start and not line.startswith('#'):
            inner = start.group(2)
            if line.endswith('{'):
                end = next(i for i in range(at, len(lines)) if lines[i].strip() == '},')
                inner = fields('\n'.join(lines[at + 1:end]))
                at = end
            found.append((start.group(1), ' '.join(comment), inner))
            comment = []
        at += 1
    return found


def snake(name):
    return re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()


def json_type(name):
    """The JSON form of a field's type."""
    inner = re.fullmatch(r'(Option|Vec)<(.*)>', name)
    if inner:
        return ('%s, may be missing' if inner.group(1) == 'Option' else 'list of %s') % json_type(inner.group(2))
    known = {'String': 'text', 'f64': 'number', 'bool': 'true or false', 'u32': 'integer', 'u64': 'integer', 'u16': 'integer',
             'EvaluatorValues': 'object: name to number', 'TableSize': 'object', 'ParameterStatistics': 'object'}
    return known.get(name, 'text')


def exit_codes(source):
    """(code, meaning) of `crates/cli/src/exit.rs`."""
    meanings = {name: text for name, text, _ in variants(block(source, 'pub enum Exit {'))}
    pairs = re.findall(r'Exit::(\w+)(?:\(code\))? => (\w+)', source)
    return [(code, meanings[name]) for name, code in pairs if code.isdigit()]
