with first as materialized (
    select m.msg_id from %1$s m order by m.msg_id limit $1 for update
), gone as (
    delete from %1$s m using first s where m.msg_id = s.msg_id
    returning m.msg_id, m.read_ct, m.enqueued_at, m.%2$s, m.message, %3$s
)
select g.* from gone g order by g.msg_id
