-- What the relay keeps in scylla's database. $source is the name of the outbox.
create schema if not exists scylla_relay;

create table if not exists scylla_relay.source (
    name text primary key,
    relay text not null,
    seen timestamptz not null,
    lag interval not null,
    waiting bigint not null,
    carried bigint not null,
    refused bigint not null
) with (fillfactor = 50);
comment on table scylla_relay.source is
    'each outbox: its relay, when that was last seen, how far it was behind, and what it did since its start';

create table if not exists scylla_relay.refused (
    source text not null,
    id uuid not null,
    task jsonb not null,
    error text not null,
    at timestamptz not null default clock_timestamp()
);
comment on table scylla_relay.refused is 'submissions that scylla refused, such as of a key that is taken';

-- Ids of carried tasks, by the remainder by 3 of the outbox's round: of the last two rounds, of which
-- the outbox still has rows, and of one before.
create table if not exists scylla_relay.carried_$source (
    generation smallint not null,
    id uuid not null,
    primary key (id, generation)
) partition by list (generation);
create table if not exists scylla_relay.carried_$source_0 partition of scylla_relay.carried_$source
for values in (0) with (autovacuum_enabled = off);
create table if not exists scylla_relay.carried_$source_1 partition of scylla_relay.carried_$source
for values in (1) with (autovacuum_enabled = off);
create table if not exists scylla_relay.carried_$source_2 partition of scylla_relay.carried_$source
for values in (2) with (autovacuum_enabled = off);
