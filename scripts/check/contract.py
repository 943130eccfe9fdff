#!/usr/bin/env -S python3 -B
"""contract: prints the tests that use public SQL only, one a line, such as regress/cancel.

A test needs the inside when it names a table of the schema scylla, a function that begins with "_", or a
catalog of PostgreSQL. Of the client tests those are left out, too, that have a server of their own.
"""
import glob
import os
import re

TESTS = {
    "regress": "pgrx-tests/regress/sql/*.sql",
    "isolation": "pgrx-tests/isolation/specs/*.spec",
    "client": "pgrx-tests/client/tests/*",
}
CATALOG = r"\bpg_(?:attribute|class|constraint|inherits|index|locks|proc|settings|stat_\w+)\b"
SERVER = r"\bServer::|\bserver\.|\.crash\(|\bkill\b|until_leases_are_written|extension scylla"


def read(patterns):
    texts = []
    for pattern in patterns:
        for file in sorted(glob.glob(pattern)):
            if os.path.isfile(file):
                with open(file, encoding="utf-8") as text:
                    texts.append(text.read())
    return "\n".join(texts)


def main():
    tables = re.findall(r"^create table scylla\.(\w+)", read(["sql/schema/*.sql"]), re.MULTILINE)
    # The functions task, queue and schedule are public.
    names = "|".join(tables)
    names = rf"scylla\._\w|scylla\.(?:{names})\b(?!\s*\()|helper\.pending"
    inside = re.compile(f"{names}|{CATALOG}|{SERVER}")
    for kind, pattern in TESTS.items():
        for path in sorted(glob.glob(pattern)):
            if not inside.search(read([path, path + "/*.rs"])):
                print(f"{kind}/{os.path.splitext(os.path.basename(path))[0]}")


main()
