#!/usr/bin/env -S python3 -B
"""links: what a page names is there: the file and the heading of each link, and each path in backquotes.

Every page below docs/ is in docs/SUMMARY.md, once. In other files, comments too, each path below docs/
that is named exists. Addresses of other sites are not visited.

links --files      prints the pages of docs/SUMMARY.md, and the files that they link to
links --site DIR   the same for a built site: each link leads to a file of it and to an id in that file,
                   and no page loads anything from another site
"""
import glob
import html.parser
import os
import re
import subprocess
import sys
import urllib.parse

SUMMARY = "docs/SUMMARY.md"
FOLDERS = "bench clients crates docker docs examples packaging pgrx-tests scripts sql src tools".split()
FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)", re.MULTILINE)
PATH = re.compile(r"(?<![\w/.$<-])((?:%s)/[\w./*{},-]*[\w/*}])" % "|".join(FOLDERS))
NAMED = re.compile(r"(?:(?<=\.\./)|(?<![\w/-]))docs/[\w./-]*\w")
# What a page names that a build, a run or a reader makes, and released versions of a page that are history.
MADE = re.compile(r"^(src/bin/|bench/results/|clients/typescript/(dist|node_modules))|/NAME\b|NOUN|A_vs_B|VERSION|LANGUAGE|OLD--NEW")
HISTORY = re.compile(r"(^|/)CHANGELOG\.md$")  # may name files that are gone, but links lead somewhere


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def anchors(text):
    """The ids that mdBook and the forges give to the headings of a page."""
    found = set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        unique, number = slug, 0
        while unique in found:
            unique, number = f"{slug}-{number + 1}", number + 1
        found.add(unique)
    return found


def expand(path):
    """`a/{b,c}` means a/b and a/c."""
    inner = re.search(r"\{([^{}]*)\}", path)
    if not inner:
        return [path]
    return [one for part in inner[1].split(",") for one in expand(path[: inner.start()] + part + path[inner.end() :])]


def exists(path):
    return all(glob.glob(one) for one in expand(path)) or MADE.search(path)


def check_page(page, text, faults):
    def fault(at, what):
        faults.append(f"{page}:{text.count(chr(10), 0, at) + 1}: {what}")

    folder = os.path.dirname(page)
    prose = FENCE.sub(blank, text)
    for link in LINK.finditer(CODE.sub(blank, prose)):
        if re.match(r"[a-z]+:", link[1]):
            continue
        path, _, anchor = link[1].partition("#")
        target = os.path.normpath(os.path.join(folder, path)) if path else page
        if not os.path.exists(target):
            fault(link.start(), f"{path} does not exist")
        elif anchor and (not target.endswith(".md") or anchor not in anchors(read(target))):
            fault(link.start(), f"{target} has no heading #{anchor}")
    if HISTORY.search(page):
        return
    named = [(at, inner) for code in CODE.finditer(prose) for at, inner in paths(code)]
    named += [(at, inner) for block in FENCE.finditer(text) for at, inner in paths(block)]
    for at, path in named:
        # clients name files of their own folder, too
        if not exists(path) and not exists(os.path.join(folder, path)):
            fault(at, f"{path} does not exist")


def paths(match):
    return [(match.start() + path.start(), path[1].rstrip(".")) for path in PATH.finditer(match.group())]


def check_summary(pages, faults):
    listed = [os.path.normpath(os.path.join("docs", link)) for link in LINK.findall(read(SUMMARY))]
    for page in sorted(set(listed)):
        if listed.count(page) > 1:
            faults.append(f"{SUMMARY}: {page} is listed twice")
    for page in sorted(set(page for page in pages if page.startswith("docs/")) - {SUMMARY} - set(listed)):
        faults.append(f"{SUMMARY}: {page} is missing")


def site_files():
    pages = [os.path.normpath(os.path.join("docs", link)) for link in LINK.findall(read(SUMMARY))]
    found = set(pages)
    for page in pages:
        for link in LINK.findall(CODE.sub(blank, FENCE.sub(blank, read(page)))):
            path = os.path.normpath(os.path.join(os.path.dirname(page), link.partition("#")[0]))
            if not re.match(r"[a-z]+:", link) and os.path.isfile(path):
                found.add(path)
    return sorted(found)


def check_sources():
    files = subprocess.run(
        "git -c safe.directory=* ls-files -z --cached --others --exclude-standard".split(),
        check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    files = [path for path in sorted(filter(None, files)) if os.path.isfile(path)]
    faults, pages = [], [path for path in files if path.endswith(".md")]
    for path in files:
        try:
            text = read(path)
        except UnicodeDecodeError:
            continue
        if path in pages:
            check_page(path, text, faults)
            continue
        for named in NAMED.finditer(text):
            if not exists(named.group()):
                line = text.count("\n", 0, named.start()) + 1
                faults.append(f"{path}:{line}: {named.group()} does not exist")
    check_summary(pages, faults)
    return faults, f"{len(pages)} pages, each link and path is there"


class Site(html.parser.HTMLParser):
    """The ids of a page, its links, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {value for name, value in attrs.items() if name in ("id", "name") and value}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        elif tag in ("script", "img", "iframe", "source") and attrs.get("src"):
            self.loads.append(attrs["src"])
        elif tag == "link" and attrs.get("href"):
            self.loads.append(attrs["href"])


def check_site(folder):
    pages = {
        os.path.relpath(path, folder): Site(read(path))
        for path in glob.glob(os.path.join(folder, "**", "*.html"), recursive=True)
    }
    faults = []
    for page, site in sorted(pages.items()):
        if page == "404.html":
            continue  # its links are absolute
        for link in site.links + site.loads:
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                if link in site.loads:
                    faults.append(f"{page}: loads {link}")
                continue
            path = urllib.parse.unquote(address.path)
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(folder, target)):
                faults.append(f"{page}: {link} does not exist")
            elif address.fragment and target in pages and address.fragment not in pages[target].ids:
                faults.append(f"{page}: {link}: {target} has no such id")
    return faults, f"{len(pages)} pages of the site, each link is there, and nothing is loaded from elsewhere"


def main():
    if sys.argv[1:2] == ["--files"]:
        print("\n".join(site_files()))
        return
    if sys.argv[1:2] == ["--site"]:
        faults, fine = check_site(sys.argv[2])
    else:
        faults, fine = check_sources()
    print("\n".join(faults) or f"links: {fine}")
    sys.exit(1 if faults else 0)


main()
