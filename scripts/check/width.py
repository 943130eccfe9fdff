#!/usr/bin/env -S python3 -B
"""width: no comment of Rust is wider than rustfmt.toml says; rustfmt sees to the code.

width --mend   moves the words that are too far right into the next line
"""
import re
import subprocess
import sys

COMMENT = re.compile(r"( *//[/!]?)( *)(.*)$")
APART = re.compile(r"[-*#|>] ?|\d+\. |```|$")  # what begins with this does not go on with the line before


def split(line):
    """Leader, indentation and text of a line that is a comment."""
    found = COMMENT.match(line)
    return found.groups() if found else (None, "", "")


def cut(text, room):
    """The text up to the last space at which it fits; the rest."""
    at = text.rfind(" ", 0, room + 1)
    # not in the middle of a list's mark
    return (text[:at], text[at + 1 :]) if at > 3 else (text, "")


def mend(lines, at, most):
    """Moves what is too much of a line to the next one, and on."""
    leader, indent, text = split(lines[at])
    kept, rest = cut(text, most - len(leader) - len(indent))
    if not rest or text.startswith("|"):
        return
    lines[at] = leader + indent + kept
    below, below_indent, below_text = split(lines[at + 1]) if at + 1 < len(lines) else (None, "", "")
    if below == leader and not APART.match(below_text) and (below_indent == indent or APART.match(text)):
        lines[at + 1] = f"{leader}{below_indent}{rest} {below_text}"
    else:
        lines.insert(at + 1, leader + indent + ("  " if re.match(r"[-*] ", text) else "") + rest)
    if len(lines[at + 1]) > most:
        mend(lines, at + 1, most)


def main():
    with open("rustfmt.toml", encoding="utf-8") as file:
        most = int(re.search(r"^max_width = (\d+)", file.read(), re.MULTILINE)[1])
    files = subprocess.run(
        "git -c safe.directory=* ls-files -z --cached --others --exclude-standard *.rs".split(),
        check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    wide = 0
    for path in filter(None, files):
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except FileNotFoundError:
            continue  # deleted and not yet committed
        before, at, fenced = list(lines), 0, False
        while at < len(lines):
            leader, indent, text = split(lines[at])
            fenced = leader is not None and fenced != text.startswith("```")
            room = most - len(leader or "") - len(indent)
            if leader and not fenced and len(lines[at]) > most and text[0] != "|" and cut(text, room)[1]:
                if sys.argv[1:] == ["--mend"]:
                    mend(lines, at, most)
                else:
                    print(f"{path}:{at + 1}: {len(lines[at])} characters")
                    wide += 1
            at += 1
        if lines != before:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
    if wide:
        sys.exit(f"width: {wide} comments wider than {most}: scripts/check/width.py --mend")


main()
