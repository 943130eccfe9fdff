"""Rust source, split into code, comments and string literals."""
import re

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>\b[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|(?:\b[bc])?"(?:\\.|[^"\\])*")
    |(?P<character>(?:\bb)?'(?:\\(?:u\{[^}]*\}|.)[^'\n]*|[^\\'\n])')""",
    re.VERBOSE | re.DOTALL,
)


def only(text, *kinds):
    """The source with everything blanked that is not of these kinds; lines and columns stay."""
    kept, end = [], 0
    for token in TOKEN.finditer(text):
        for kind, part in (
            ("code", text[end : token.start()]),
            (token.lastgroup, token.group()),
        ):
            kept.append(part if kind in kinds else blank(part))
        end = token.end()
    kept.append(text[end:] if "code" in kinds else blank(text[end:]))
    return "".join(kept)


def blank(text):
    return re.sub(r"[^\n]", " ", text)
