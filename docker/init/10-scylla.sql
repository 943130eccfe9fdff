-- Run once, in the database that the first start makes.
create extension scylla;
