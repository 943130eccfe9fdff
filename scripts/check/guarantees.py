#!/usr/bin/env -S python3 -B
"""guarantees: docs/reference/guarantees.md and the tests agree on what is guaranteed and where it is shown.

A test names a guarantee by its number, such as B17 or I4, in a comment or in an assertion's
message. An entry of the page begins with "- **B17**" and names the test files in backquotes.
"""
import glob
import re
import sys

from rust_source import only

PAGE = "docs/reference/guarantees.md"
TESTS = {  # how the page calls a test file: where it is; what belongs to a name in subfolders, too
    "board": ["crates/board/tests/{}.rs", "crates/board/tests/{}/*.rs", "crates/board/src/{}.rs"],
    "recurrence": ["crates/recurrence/tests/runs/{}.rs"],
    "faults": [
        "pgrx-tests/client/src/bin/faults/scenarios/{}.rs",
        "pgrx-tests/client/src/bin/faults/scenarios/{}/*.rs",
    ],
    "client": ["pgrx-tests/client/tests/{}.rs", "pgrx-tests/client/tests/{}/*.rs"],
    "isolation": ["pgrx-tests/isolation/specs/{}.spec"],
    "regress": ["pgrx-tests/regress/sql/{}.sql"],
}
MARK = re.compile(r"\b[BI][1-9]\d*\b")
ENTRY = re.compile(r"^- \*\*([BI]\d+)\*\*(.*?)(?=^- |^#|\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`((?:%s)/\w+)`" % "|".join(TESTS))


def prose(file):
    """Comments and messages of a test file, or of the tests at the end of a source file."""
    with open(file, encoding="utf-8") as source:
        text = source.read()
    if file.endswith(".rs"):
        if "/src/" in file and "/bin/" not in file:
            text = text.partition("#[cfg(test)]")[2]
        return only(text, "comment", "string")
    return "\n".join(re.findall(r"^(?:--|#).*", text, re.MULTILINE))


def shown():
    """(number, test file's name on the page), of all marks."""
    found = set()
    for kind, patterns in TESTS.items():
        for pattern in patterns:
            name = re.compile(re.escape(pattern).replace(r"\{\}", r"(\w+)").replace(r"\*", r"\w+"))
            for file in glob.glob(pattern.format("*")):
                test = f"{kind}/{name.fullmatch(file)[1]}"
                found |= {(mark, test) for mark in MARK.findall(prose(file))}
    return found


def main():
    with open(PAGE, encoding="utf-8") as page:
        entries = ENTRY.findall(page.read())
    numbers = [number for number, _ in entries]
    named = {(number, test) for number, text in entries for test in TEST.findall(text)}
    marks = shown()
    faults = [f"{PAGE}: {number} is listed twice" for number in numbers if numbers.count(number) > 1]
    for number in sorted(set(numbers) - {mark for mark, _ in marks}):
        faults.append(f"{PAGE}: no test has the mark {number}")
    for number, test in sorted(marks - named):
        faults.append(f"{PAGE}: {number} does not name {test}, which has this mark")
    for number, test in sorted(named - marks):
        faults.append(f"{PAGE}: {number} names {test}, which does not have this mark")
    print("\n".join(faults) or f"guarantees: {len(numbers)}, each with its tests")
    sys.exit(1 if faults else 0)


main()
