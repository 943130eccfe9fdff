-- :size rows, into a table without an index. The client sends their specs; it makes them once.
\if :begun
\else
select array_agg(jsonb_build_object('n', n)) as specs from generate_series(1, :size) n \gset
\set begun 1
\endif
insert into reference.heap (queue, spec) select :queue, spec from unnest(:specs::jsonb[]) spec;
