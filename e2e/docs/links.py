#!/usr/bin/env python3
"""Checks that every relative link of every Markdown file leads to a file, and its #anchor to a heading of that file.

Also: every page of the book is in docs/SUMMARY.md, and nothing else is.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r'\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)="([^"]+)"')


def plain_lines(text):
    """The lines outside fenced blocks, without inline code that has no link around it."""
    inside = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('```'):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(path):
    """The anchors of a file's headings, as GitHub and mdBook generate them."""
    found, counts = set(), {}
    for _, line in plain_lines(path.read_text(encoding='utf-8')):
        heading = re.match(r'#{1,6}\s+(.*)', line)
        if heading:
            words = re.sub(r'[^\w\- ]', '', heading.group(1).lower()).strip().replace(' ', '-')
            seen = counts.get(words, 0)
            counts[words] = seen + 1
            found.add('%s-%d' % (words, seen) if seen else words)
    return found


def faults(path):
    """What is wrong with the links of one file."""
    for number, line in plain_lines(path.read_text(encoding='utf-8')):
        code_free = re.sub(r'`[^`]*`', lambda code: re.sub(r'[\[\]()]', ' ', code.group()), line)
        for groups in LINK.findall(code_free):
            link = next(each for each in groups if each)
            if re.match(r'[a-z]+:', link):
                continue
            name, _, anchor = link.partition('#')
            target = (path.parent / name).resolve() if name else path
            place = '%s:%d' % (path.relative_to(ROOT), number)
            if not target.exists():
                yield '%s: %s does not exist' % (place, link)
            elif anchor and target.suffix == '.md' and anchor not in anchors(target):
                yield '%s: %s has no heading #%s' % (place, name or path.name, anchor)


def outside_the_book():
    """Pages that docs/SUMMARY.md does not list."""
    summary = ROOT / 'docs/SUMMARY.md'
    listed = {(summary.parent / each).resolve()
              for each in re.findall(r'\]\(([^)#]+)\)', summary.read_text(encoding='utf-8'))}
    for page in sorted((ROOT / 'docs').rglob('*.md')):
        if page != summary and page.resolve() not in listed:
            yield 'docs/SUMMARY.md does not list %s' % page.relative_to(ROOT)


def main():
    names = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard', '*.md'], cwd=ROOT, text=True,
                           check=True, stdout=subprocess.PIPE).stdout.split()
    files = sorted(ROOT / each for each in set(names) if (ROOT / each).exists())
    found = [fault for path in files for fault in faults(path)] + list(outside_the_book())
    if found:
        sys.exit('\n'.join(found))
    print('all links of %d files resolve' % len(files))


if __name__ == '__main__':
    main()
