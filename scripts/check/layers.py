#!/usr/bin/env -S python3 -B
"""layers: imports go down the floors and never in a circle, neither between files nor between what lies
side by side in a folder; a folder holds at most twelve files.
What differs between versions of PostgreSQL is in one folder.

An import is a path, in a `use` or in code, that names something of another file of the same crate.
Something that a file only re-exports counts as imported from the file that defines it.
"""
import glob
import os
import re
import sys

from rust_source import only

# Low to high. A file imports from its own folder and from lower floors, never from its own floor.
FLOORS = {
    "src": ["memory", "pg", "error guc", "shmem", "extension", "xact", "storage", "ops", "api scheduler", "lib"],
    "crates/board/src": ["time", "backoff outcome", "layout", "containers", "board", "lib"],
}
MOST_FILES = 12
SMALL_FOLDERS = ["src", "crates"]
VERSIONS = "src/pg/compat/"
OF_A_VERSION = re.compile(r'feature\s*=\s*"pg\d')

MANIFESTS = ["Cargo.toml", "*/Cargo.toml", "*/*/Cargo.toml"]
ROOTS = ["src/lib.rs", "src/main.rs", "tests/*.rs", "tests/*/main.rs", "examples/*.rs"]
WORD = re.compile(r"\w+|::|\S")
ITEMS = set("fn struct enum union trait type const static macro_rules".split())


class Module:
    """What one module declares, and the paths that its code names."""

    def __init__(self, file, parent):
        self.file, self.parent = file, parent
        self.children, self.items = {}, set()
        self.imports, self.globs = {}, []  # name: path; path
        self.paths = []  # (path, line)


class Crate:
    """All modules below one root file."""

    def __init__(self, root):
        self.modules = []
        self.root = self.read(root, None, os.path.dirname(root))

    def read(self, file, parent, folder):
        with open(file, encoding="utf-8") as source:
            lines = only(source.read(), "code").splitlines()
        words = [(word, n) for n, line in enumerate(lines, 1) for word in WORD.findall(line)]
        module = Module(file, parent)
        self.parse(module, words[::-1], folder)
        return module

    def parse(self, module, words, folder):
        """Reads a module up to its closing brace. The words are a stack, the next one on top."""
        self.modules.append(module)
        depth = 0
        while words:
            word, line = words.pop()
            following = words[-1][0] if words else ""
            depth += (word == "{") - (word == "}")
            if depth < 0:
                return
            if word == "mod" and following.isidentifier():
                self.parse_child(module, words, folder)
            elif word == "use" and following != "<":  # not `impl Trait + use<>`
                self.parse_use(module, words, [], line)
            elif word in ITEMS:
                module.items.add(words[-2][0] if following == "!" else following)
            elif word.isidentifier() and following == "::":
                path = [word]
                while len(words) > 1 and words[-1][0] == "::" and words[-2][0].isidentifier():
                    words.pop()
                    path.append(words.pop()[0])
                module.paths.append((path, line))

    def parse_child(self, module, words, folder):
        name = words.pop()[0]
        inside = os.path.join(folder, name)
        if words.pop()[0] == "{":
            child = Module(module.file, module)
            self.parse(child, words, inside)
        else:
            beside = inside + ".rs"
            file = beside if os.path.exists(beside) else os.path.join(inside, "mod.rs")
            child = self.read(file, module, inside)
        module.children[name] = child

    def parse_use(self, module, words, prefix, line):
        """Reads one tree of a `use`, up to what ends it."""
        path = list(prefix)
        while words[-1][0] not in (";", ",", "}", "as"):
            word, line = words.pop()
            if word == "{":
                while words[-1][0] != "}":
                    self.parse_use(module, words, path, line)
                    if words[-1][0] == ",":
                        words.pop()
                words.pop()
                return
            if word == "*":
                module.globs.append(path)
                module.paths.append((path + ["*"], line))
                return
            if word != "::":
                path.append(word)
        if len(path) > 1 and path[-1] == "self":
            path.pop()
        name = path[-1]
        if words[-1][0] == "as":
            words.pop()
            name = words.pop()[0]
        module.imports[name] = path
        module.paths.append((path, line))

    def resolve(self, module, path, asked=()):
        """The module that a path names, or the file with the item; None: not of this crate."""
        question = (module, tuple(path))
        if question in asked:
            return None
        asked += (question,)
        found = {"crate": self.root, "self": module, "super": module.parent}.get(path[0])
        found = found or self.member(module, path[0], asked)
        for name in path[1:]:
            if not isinstance(found, Module):
                break
            if name == "super":
                found = found.parent
            elif name != "*":
                found = self.member(found, name, asked) or found.file
        return found

    def member(self, module, name, asked):
        if name in module.children:
            return module.children[name]
        if name in module.items:
            return module.file
        if name in module.imports:
            return self.resolve(module, module.imports[name], asked)
        for path in module.globs:
            target = self.resolve(module, path, asked)
            found = isinstance(target, Module) and self.member(target, name, asked)
            if found:
                return found
        return None

    def edges(self):
        """(file, file that it imports): the first line that does."""
        found = {}
        for module in self.modules:
            for path, line in module.paths:
                target = self.resolve(module, path)
                if path[-1] == "*" and isinstance(target, Module):
                    target = target.file
                if isinstance(target, str) and target != module.file:
                    found.setdefault((module.file, target), line)
        return found


def circles(edges):
    """For each file that is in a circle and in none given before, the shortest one through it."""
    imports, given = {}, set()
    for importer, imported in sorted(edges):
        imports.setdefault(importer, []).append(imported)
    for start in sorted(imports):
        way = None if start in given else circle_through(start, imports)
        if way:
            given.update(way)
            yield way


def circle_through(start, imports):
    ways, reached = [[start]], set()
    for way in ways:  # breadth first: it grows meanwhile
        for file in imports.get(way[-1], []):
            if file == start:
                return way + [start]
            if file not in reached:
                reached.add(file)
                ways.append(way + [file])
    return None


def siblings(edges):
    """The edges between what lies side by side in a folder: files, and folders with all that is in them."""
    found = {}
    for (importer, imported), line in sorted(edges.items()):
        folder = os.path.commonpath([importer, imported])
        pair = [os.path.join(folder, os.path.relpath(file, folder).split(os.sep)[0]) for file in (importer, imported)]
        # A folder's mod.rs lists what is in it.
        if not any(file == os.path.join(folder, "mod.rs") for file in pair):
            found.setdefault(tuple(pair), f"{importer}:{line} imports {imported}")
    return found


def floor(file, folder):
    """The height of a file's floor, and the file's or folder's name there."""
    name = os.path.relpath(file, folder).split(os.sep)[0].removesuffix(".rs")
    heights = [height for height, names in enumerate(FLOORS[folder]) if name in names.split()]
    return (heights or [None])[0], name


def faults(root):
    crate = Crate(root)
    edges = crate.edges()
    for way in circles(edges):
        steps = [f"{a}:{edges[a, b]} imports {b}" for a, b in zip(way, way[1:])]
        yield "circle: " + ", ".join(steps)
    between = siblings(edges)
    for way in circles(between):
        steps = [between[a, b] for a, b in zip(way, way[1:])]
        if any(os.path.isdir(unit) for unit in way):  # those of files are told above
            yield "circle of folders: " + ", ".join(steps)
    folder = os.path.dirname(root)
    if folder not in FLOORS:
        return
    for file in sorted({module.file for module in crate.modules}):
        if floor(file, folder)[0] is None:
            yield f"no floor: {file}"
    for (a, b), line in sorted(edges.items()):
        (above, upper), (below, lower) = floor(a, folder), floor(b, folder)
        if None not in (above, below) and upper != lower and above <= below:
            yield f"up: {a}:{line} imports {b}"


def main():
    found = []
    for manifest in [file for pattern in MANIFESTS for file in sorted(glob.glob(pattern))]:
        for pattern in ROOTS:
            for root in sorted(glob.glob(os.path.join(os.path.dirname(manifest), pattern))):
                found += faults(root)
    for top in SMALL_FOLDERS:
        for folder, _, files in os.walk(top):
            if len(files) > MOST_FILES:
                found.append(f"full: {folder} has {len(files)} files, more than {MOST_FILES}")
    for file in sorted(glob.glob("src/**/*.rs", recursive=True)):
        if not file.startswith(VERSIONS):
            with open(file, encoding="utf-8") as source:
                for n, line in enumerate(source, 1):
                    if OF_A_VERSION.search(line):
                        found.append(f"version: {file}:{n} belongs into {VERSIONS}")
    print("\n".join(found) or "layers: no circle, no way up, no full folder")
    sys.exit(1 if found else 0)


main()
