#!/usr/bin/env -S python3 -B
"""declarations: the reference has each function as sql/schema declares it, and lists it in its index.

An entry has the function's name in its heading, and begins with a block that has the signature.
"""
import glob
import re
import sys

PAGES = ["docs/reference/*.md"]
DECLARED = re.compile(
    r"^create (function|procedure) scylla\.([a-z]\w*)\((.*?)\)\s*(?:returns (.*?)\s*)?\nlanguage",
    re.MULTILINE | re.DOTALL,
)
ENTRY = re.compile(
    r"^### ([^\n]+)\n+```text\n(?:call )?scylla\.(\w+)\((.*?)```", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[([\w() ]+)\]\([\w./]*#([\w-]+)\)")


def texts(patterns):
    for pattern in patterns:
        for file in sorted(glob.glob(pattern)):
            with open(file, encoding="utf-8") as page:
                yield file, page.read()


def plain(text):
    """The same for a declaration and for an entry: without what a reader does not need."""
    text = text.replace("pg_catalog.", "").replace("interval '", "'")
    text = re.sub(r"\boperator\((.)\)", r"\1", text).replace(" default ", " = ")
    text = re.sub(r"^setof \((.*)\)$", r"table (\1)", " ".join(text.split()))
    return text.replace("( ", "(").replace(" )", ")").strip()


def declarations():
    """name: its signatures, each as arguments and result."""
    found = {}
    for _, text in texts(["sql/schema/*.sql"]):
        for _, name, arguments, result in DECLARED.findall(text):
            found.setdefault(name, set()).add((plain(arguments), plain(result)))
    return found


def entries(pages):
    """(place, heading, name, signature), of each function in the reference."""
    for file, text in pages:
        for entry in ENTRY.finditer(text):
            heading, name, rest = entry.groups()
            arguments, _, result = rest.rpartition("→") if "→" in rest else (rest, "", "")
            arguments = plain(arguments).removesuffix(")")
            place = f"{file}:{text.count(chr(10), 0, entry.start()) + 1}"
            yield place, heading, name, (arguments, plain(result))


def spelled_out(result, declared):
    """The columns of a result that has those of another function."""
    other = re.match(r"table \(as (\w+)(.*)\)", result)
    if not other or other[1] not in declared:
        return result
    [(_, columns)] = declared[other[1]]
    return columns.removesuffix(")") + other[2] + ")"


def main():
    declared, faults, described = declarations(), [], set()
    pages = list(texts(PAGES))
    linked = {anchor for _, text in pages for _, anchor in LINK.findall(text.partition("\n## ")[0])}
    for place, heading, name, (arguments, result) in entries(pages):
        signature = (arguments, spelled_out(result, declared))
        described.add((name, signature))
        if signature not in declared.get(name, ()):
            faults.append(f"{place}: {name}({arguments}) → {result} is not what sql/schema declares")
        anchor = re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower()
        if anchor not in linked:
            faults.append(f"{place}: no index has a link to #{anchor}")
    for name, signatures in sorted(declared.items()):
        for signature in sorted(signatures):
            if (name, signature) not in described:
                faults.append(f"{name}({signature[0]}): the reference has no entry of it")
    print("\n".join(faults) or f"declarations: {len(described)}, each with its entry")
    sys.exit(1 if faults else 0)


main()
