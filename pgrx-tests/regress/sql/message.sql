-- Messages: delayed under an id, until they fire.
create temp view message as
select spec, status, run_at > now() as ahead from scylla.tasks where queue = 'message' order by created;

-- B80: a future deadline waits, a past one fires at once. Plain literals are accepted.
select scylla.delay('a', now() + interval '1 hour', 'message', 'first');
select scylla.delay('b', now(), 'message', 'second', 'k', '{"h": "1"}');
select scylla.delay(id => 'c', deadline => '0044-03-15 BC', queue => 'message', value => null);
select * from message;

-- B82: the id of a waiting message is taken: the call returns false, whatever the deadline. B83:
-- once fired, the id is free.
select scylla.delay('a', now() + interval '2 hours', 'message', 'third');
select scylla.delay('a', now(), 'message', 'third');
select scylla.delay('b', now(), 'message', 'fourth');
select scylla.delay('b', now() + interval '1 hour', 'message', 'fifth');
select scylla.delay('b', now(), 'message', 'sixth');
-- An id is unique only within its queue.
select scylla.delay('a', now() + interval '1 hour', 'message.other', '');
select * from message;

-- A fired message is a task of the queue.
select spec, action, priority, key, tries from scylla.own_tasks('w', 'message', 9);

-- B84: key, value and headers are passed on unchanged, except Chronos's own headers.
select scylla.delay('d', now(), 'message.same', E'  {"a" : 1,\t"b":1.0}\r\n"\\u0000" \u00e4\U0001F600 ', E'\u00e4\n',
    '{"chronosMessageId": "d", "chronosDeadline": "2022-12-01T11:09:01.123", "chronosmessageid": 1,
      "Deep": {"chronosDeadline": [1.50, null, true]}, "": ""}');
select spec ->> 'value' = E'  {"a" : 1,\t"b":1.0}\r\n"\\u0000" \u00e4\U0001F600 ' as same, octet_length(spec ->> 'value') as bytes,
    spec ->> 'key' = E'\u00e4\n' as same_key, spec -> 'headers' as headers
from scylla.own_tasks('w', 'message.same');
select scylla.delay('e', now(), 'message.same', '', ''), scylla.delay('f', now(), 'message.same', repeat('x', 1000000));
select spec - 'value', octet_length(spec ->> 'value') from scylla.own_tasks('w', 'message.same', 2);

-- B85: a message without a valid id or deadline is dropped: false, no error, and no notice to the
-- client.
set client_min_messages = debug1;
select scylla.delay(null, now(), 'message', ''), scylla.delay('', now(), 'message', ''), scylla.delay(repeat('x', 129), now(), 'message', '');
reset client_min_messages;
select scylla.delay('g', null, 'message', ''), scylla.delay('g', 'infinity', 'message', ''), scylla.delay('g', '-infinity', 'message', '');
-- 128 characters are valid, of any number of bytes.
select scylla.delay(repeat(U&'\+01F600', 128), now() + interval '1 hour', 'message.long', ''),
    scylla.delay(repeat(U&'\+01F600', 129), now() + interval '1 hour', 'message.long', '');
select count(*) from scylla.task where message is null and queue = 'message' or queue = 'message.long';

-- Wrong arguments are errors.
\set VERBOSITY sqlstate
select scylla.delay('h', now(), null, '');
select scylla.delay('h', now(), '', '');
select scylla.delay('h', now(), repeat('q', 49), '');
select scylla.delay('h', now(), 'message', '', headers => null);
select scylla.delay('h', now(), 'message', '', headers => '[]');
select scylla.delay('h', now(), 'message', '', headers => '[{"a": "b"}]');
select scylla.delay('h', now(), 'message', '', headers => 'null');
select scylla.delay('h', now(), 'message', '', headers => '"a"');
select scylla.delay('h', now(), 'message', repeat('x', 1048577));
select scylla.delay('h', now(), 'message', repeat('x', 1048500), repeat('x', 200));
select scylla.delay('h', now(), 'message', '', headers => jsonb_build_object('h', repeat('x', 1048577)));
select scylla.delay_messages(null, '[]');
select scylla.delay_messages('', '[]');
select scylla.delay_messages('message', null);
select scylla.delay_messages('message', '{}');
select scylla.delay_messages('message', '1');
select scylla.cancel_message(null, 'a');
select scylla.cancel_message('message', null);
select scylla.cancel_message(repeat('q', 49), 'a');
\set VERBOSITY default

-- Many at once: valid messages are delayed, invalid ones reported.
select * from scylla.delay_messages('message.many', '[]');
set time zone 'UTC';
select * from scylla.delay_messages('message.many', '[
    {"id": "a", "deadline": "2100-01-01", "value": "1"}, {"id": "b", "deadline": "2022-12-01T11:09:01.123", "value": "2", "key": "k", "headers": {"chronosDeadline": 1, "h": 2}},
    {"id": "a", "deadline": "2100-01-01", "value": "3"}, {"id": "a", "deadline": "2000-01-01", "value": "4"}, {"id": "b", "deadline": "2000-01-01"},
    {"id": "", "deadline": "2100-01-01"}, {"id": null, "deadline": "2100-01-01"}, {"id": 7, "deadline": "2100-01-01"}, {"deadline": "2100-01-01"},
    {"id": "c"}, {"id": "c", "deadline": null}, {"id": "c", "deadline": "infinity"}, {"id": "c", "deadline": "NaN"}, {"id": "c", "deadline": ""},
    {"id": "c", "deadline": 1e9}, {"id": "c", "deadline": "99999999-01-01"}, {"id": "c", "deadline": "2100-01-01", "value": 1},
    {"id": "c", "deadline": "2100-01-01", "value": {}}, {"id": "c", "deadline": "2100-01-01", "key": []}, {"id": "c", "deadline": "2100-01-01", "headers": []},
    {"id": "c", "deadline": "2100-01-01", "headers": null}, {"id": "c", "deadline": "2100-01-01", "queue": "q"}, 7, null, [],
    {"id": "c", "deadline": "0044-03-15 BC", "value": null, "key": null}]');
reset time zone;
select id = repeat('x', 200) as as_given, outcome from scylla.delay_messages('message.many', jsonb_build_array(
    jsonb_build_object('id', repeat('x', 200), 'deadline', now()), jsonb_build_object('id', 'long', 'deadline', now(), 'value', repeat('x', 1048577))));
select spec, status from scylla.tasks where queue = 'message.many' order by created;
select * from scylla.delay_messages('message.many', '[{"id": "a", "deadline": "2000-01-01", "value": "5"}, {"id": "b", "deadline": "2100-01-01", "value": "6"}]');

-- Cancelled while it waits, not after; then its id is free.
select scylla.cancel_message('message.many', 'a'), scylla.cancel_message('message.many', 'a'), scylla.cancel_message('message.many', 'c'),
    scylla.cancel_message('message', 'absent'), scylla.cancel_message('message', ''), scylla.cancel_message('message', repeat('x', 200));
select status, spec from scylla.tasks where queue = 'message.many' and spec ->> 'id' = 'a';
select scylla.delay('a', now() + interval '1 hour', 'message.many', '');
-- The id is also free when its task is cancelled, or brought forward.
select scylla.cancel(id) from scylla.tasks where queue = 'message.many' and spec ->> 'id' = 'a' and status = 'waiting';
select scylla.delay('a', now() + interval '1 hour', 'message.many', '');
select id as task from scylla.tasks where queue = 'message.many' and spec ->> 'id' = 'a' and status = 'waiting' \gset
select scylla.delay(:'task', now() + interval '2 hours');
select scylla.delay('a', now() + interval '1 hour', 'message.many', '');
select scylla.delay(:'task', now());
select scylla.delay('a', now() + interval '1 hour', 'message.many', '');

-- A rollback undoes them.
begin;
select scylla.delay('z', now() + interval '1 hour', 'message', ''), scylla.delay('y', now(), 'message', '');
rollback;
select count(*) from scylla.own_tasks('w', 'message', 9);
begin;
select scylla.cancel_message('message', 'a');
rollback;
select scylla.cancel_message('message', 'a');
