-- Submits :size jobs. The client sends their specs; it makes them once.
\if :begun
\else
select array_agg(jsonb_build_object('n', n)) as specs from generate_series(1, :size) n \gset
\set begun 1
\endif
insert into plain.job (queue, spec) select :queue, spec from unnest(:specs::jsonb[]) spec;
