-- fetch and complete of its client, for one job; fails if the job was not active.
WITH next AS (
  SELECT j.id
  FROM pgboss.job_common j
  WHERE j.name = 'bench'
    AND j.state < 'active'
    AND NOT j.blocked
    AND j.start_after <= pgboss.job_now()
  ORDER BY j.priority desc, j.created_on
  LIMIT 1
  FOR UPDATE OF j SKIP LOCKED
)
UPDATE pgboss.job_common j SET
  state = 'active',
  started_on = pgboss.job_now(),
  heartbeat_on = pgboss.job_now(),
  retry_count = CASE WHEN started_on IS NOT NULL THEN retry_count + 1 ELSE retry_count END
FROM next
WHERE name = 'bench' AND j.id = next.id
RETURNING j.id \gset
WITH results AS (
  UPDATE pgboss.job_common
  SET completed_on = pgboss.job_now(),
    state = 'completed',
    output = null::jsonb,
    blocked = blocked,
    pending_dependencies = pending_dependencies
  WHERE name = 'bench'
    AND id = ANY(array[:id]::uuid[])
    AND state = 'active'
  RETURNING id
)
SELECT 1 / (count(*) = 1)::int, COALESCE(array_agg(id), '{}'::uuid[]) AS ids FROM results;
