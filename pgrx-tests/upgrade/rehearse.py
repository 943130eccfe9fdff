#!/usr/bin/env -S python3 -B
"""rehearse: reads an install script, and writes that of the version of rehearsal.sql.

A new database has the column, the index, the table and the grown function where this version's own
statements would have them, not as the upgrade makes them.
"""
import sys

EDITS = [
    # before this line, these
    ("    constraint task_pkey primary key (id)", '    rehearsed text collate "C",\n', ""),
    (
        "revoke all on all tables in schema scylla from public;\n",
        """comment on column scylla.task.rehearsed is 'a column of the rehearsal';
create index task_rehearsed on scylla.task (rehearsed) where rehearsed is not null;
comment on index scylla.task_rehearsed is 'an index of the rehearsal';
create table scylla.rehearsal (id bigint primary key);
comment on table scylla.rehearsal is 'a table of the rehearsal';
comment on column scylla.rehearsal.id is 'its key';
comment on constraint rehearsal_pkey on scylla.rehearsal is 'finds a row by its id';
select pg_catalog.pg_extension_config_dump('scylla.rehearsal', '');
""",
        "",
    ),
    # behind this, that
    (
        "create function scylla.task_id(queue text, key text",
        "",
        ", rehearsed boolean default false",
    ),
]

script = sys.stdin.read()
for anchor, before, behind in EDITS:
    if script.count(anchor) != 1:
        sys.exit(f"rehearse: the install script has {script.count(anchor)} times: {anchor}")
    script = script.replace(anchor, before + anchor + behind)
sys.stdout.write(script)
