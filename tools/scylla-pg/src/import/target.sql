-- Which jobs were imported. A task may be gone before an import goes on.
create schema if not exists scylla_import;
create table if not exists scylla_import.imported (id uuid primary key);
comment on table scylla_import.imported is
    'ids of tasks that scylla-pg import has made; drop the schema when nothing is left to import';
