-- Inserts messages that pgmq has archived.
-- Parameters: $1 queue; arrays of one length: $2 ids, $3 how often each was read, $4 when it was sent, $5 when it was
--   archived, $6 messages, $7 headers.
-- Changes scylla.finished.
insert into scylla.finished
    (id, queue, action, priority, post_result, created, updated, max_tries, tries, num_failures,
    progress, status, spec, errors, history, meta)
select s.id, $1, 'pgmq', 0, false, s.created, s.updated, 0, s.tries, 0, 1, 'completed', s.spec, '[]', '[]', s.meta
from unnest($2, $3, $4, $5, $6, $7) as s (id, tries, created, updated, spec, meta)
