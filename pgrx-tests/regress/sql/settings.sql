-- The settings: unit, range, who may set them and their descriptions.
\x
select name, setting, unit, vartype, context, min_val, max_val, boot_val, category, short_desc, extra_desc
from pg_settings where name like 'scylla.%' order by name;
\x

-- Descriptions in PostgreSQL's style.
select name from pg_settings
where name like 'scylla.%' and (short_desc !~ '^(Sets|Allows) .*\.$'
        or vartype not in ('bool', 'string') and extra_desc !~ 'Valid range is .* to .*\.$');

-- The ranges, with units. PostgreSQL's wording differs between versions.
\set VERBOSITY sqlstate
set scylla.lease_timeout = '2min';
show scylla.lease_timeout;
set scylla.lease_timeout = 0;
set scylla.lease_timeout = '-1 s';
set scylla.lease_timeout = '25 d';
set scylla.lease_timeout = 'soon';
reset scylla.lease_timeout;
show scylla.lease_timeout;
set scylla.max_spec_size = '2MB';
show scylla.max_spec_size;
set scylla.max_spec_size = 1;
set scylla.max_spec_size = '1GB';
\set VERBOSITY default

-- Some can be set for the server only.
set scylla.board_size = 1000;
set scylla.sweep_interval = '1s';
set scylla.persist_leases_after = '1s';
set scylla.retention = '1 d';
create role regress_setter;
set role regress_setter;
set scylla.lease_timeout = '1 s';
set scylla.max_spec_size = '2MB';
reset role;
drop role regress_setter;

-- The prefix allows no other name.
set scylla.no_such_setting = 1;
