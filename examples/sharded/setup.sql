-- Makes a database a shard of the shop. Run it as a superuser, once on each server:
--     psql -1 -v ON_ERROR_STOP=1 -v shard=N -d shop -f setup.sql
-- N is the shard's place in SHARDS, from 1 on. It is the last byte of the ids of the shard's tasks.
alter database :"DBNAME" set scylla.shard = :shard;
create extension scylla;

create table orders (
    -- shard 3 has 3, 259, 515, …: no number is on two shards, also after a customer has moved
    id bigint generated always as identity (start with :shard increment by 256) primary key,
    customer text not null,
    cents integer not null check (cents > 0)
);
create table receipts (
    "order" bigint primary key references orders,
    shard integer not null default current_setting('scylla.shard')::integer,
    text text not null
);

create role shop login;
grant select, insert on orders, receipts to shop;
select scylla.grant('receipts', 'shop', '{submit,work,look}');
