-- One row, into a table without an index.
insert into reference.heap (queue, spec) values (:queue, '{"n": 1}');
