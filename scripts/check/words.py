#!/usr/bin/env -S python3 -B
"""words: finds words that this project does not use, in documentation, comments, SQL and messages.

In Rust only comments and string literals are read. Not read: changelog, expected output, this file,
and the section "History of names" of docs/internals/building.md, which has to name them.
"""
import re
import subprocess
import sys

from rust_source import only

BANNED = """
    lest; anew; bears; borne; stands; is none; to be had; at the most; comes to be; all the same;
    by itself; takes up; lets go; looks around; in vain; whatever became of;
    house; desk; door; doors; clerk; glance; whoever; somebody; nobody
"""
PHRASES = [phrase.split() for phrase in BANNED.replace("\n", " ").split(";")]
PATTERN = re.compile(
    r"\b(?:%s)\b" % "|".join(r"\s+".join(words) for words in PHRASES), re.IGNORECASE
)
# What begins a line of a comment: a phrase may go on behind it.
LEADER = re.compile(r"^[ \t]*(?://[/!]?|--|#+|\*)", re.MULTILINE)
SKIPPED = re.compile(r"^(CHANGELOG\.md|LICENSE|Cargo\.lock|scripts/check/words\.py)$|/expected/")
HISTORY = re.compile(r"^(#+) History of names$.*?(?=^#{1,2} |\Z)", re.MULTILINE | re.DOTALL)


def prose(path, text):
    if path.endswith(".rs"):
        text = only(text, "comment", "string")
    if path == "docs/internals/building.md":
        text = HISTORY.sub(lambda section: re.sub(r"[^\n]", " ", section.group()), text)
    return LEADER.sub(lambda leader: " " * len(leader.group()), text)


def main():
    files = subprocess.run(
        "git -c safe.directory=* ls-files -z --cached --others --exclude-standard".split(),
        check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    found = 0
    for path in sorted(filter(None, files)):
        if SKIPPED.search(path):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
            continue  # deleted and not yet committed, or no text
        for match in PATTERN.finditer(prose(path, text)):
            if match.group() == "is None":  # Python's
                continue
            found += 1
            line = text.count("\n", 0, match.start()) + 1
            print(f"{path}:{line}: {' '.join(match.group().split())}")
    if found:
        sys.exit(f"words: {found} found that this project does not use")


main()
