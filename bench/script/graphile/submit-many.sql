-- addJobs of its client.
\if :begun
\else
select json_agg(json_build_object('identifier', 'bench', 'payload', json_build_object('n', n))) as jobs from generate_series(1, :size) n \gset
\set begun 1
\endif
select count(*) from graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, :jobs::json)), false);
