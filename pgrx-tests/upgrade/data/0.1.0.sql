--
-- PostgreSQL database dump
--

\restrict 9xJ3jGlA6pwVK0bhYZ25hJU9C3C3Gylr8G9fH3doU0kRuqtwF40iaH7UrpQRbYe

-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: cron; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA cron;


--
-- Name: SCHEMA cron; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON SCHEMA cron IS 'pg_cron''s functions and views, for schedules of scylla';


--
-- Name: scylla; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA scylla;


--
-- Name: scylla; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS scylla WITH SCHEMA scylla;


--
-- Name: EXTENSION scylla; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON EXTENSION scylla IS 'a task scheduler: leases, priorities, retries and schedules, in shared memory';


--
-- Name: alter_job(bigint, text, text, text, text, boolean); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.alter_job(job_id bigint, schedule text DEFAULT NULL::text, command text DEFAULT NULL::text, database text DEFAULT NULL::text, username text DEFAULT NULL::text, active boolean DEFAULT NULL::boolean) RETURNS void
    LANGUAGE sql
    AS $_$select scylla._cron_alter($1, $2, $3, $4, $5, $6)$_$;
ALTER FUNCTION cron.alter_job(job_id bigint, schedule text, command text, database text, username text, active boolean) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION alter_job(job_id bigint, schedule text, command text, database text, username text, active boolean); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.alter_job(job_id bigint, schedule text, command text, database text, username text, active boolean) IS 'changes a job; null leaves a value as it is';


--
-- Name: schedule(text, text); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.schedule(schedule text, command text) RETURNS bigint
    LANGUAGE sql STRICT
    AS $_$select scylla._cron_schedule('', $1, $2)$_$;
ALTER FUNCTION cron.schedule(schedule text, command text) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION schedule(schedule text, command text); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.schedule(schedule text, command text) IS 'schedules a job';


--
-- Name: schedule(text, text, text); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.schedule(job_name text, schedule text, command text) RETURNS bigint
    LANGUAGE sql
    AS $_$select scylla._cron_schedule($1, $2, $3)$_$;
ALTER FUNCTION cron.schedule(job_name text, schedule text, command text) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION schedule(job_name text, schedule text, command text); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.schedule(job_name text, schedule text, command text) IS 'schedules a job with a name';


--
-- Name: schedule_in_database(text, text, text, text, text, boolean); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.schedule_in_database(job_name text, schedule text, command text, database text, username text DEFAULT NULL::text, active boolean DEFAULT true) RETURNS bigint
    LANGUAGE sql
    AS $_$select scylla._cron_schedule($1, $2, $3, $4, $5, $6)$_$;
ALTER FUNCTION cron.schedule_in_database(job_name text, schedule text, command text, database text, username text, active boolean) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION schedule_in_database(job_name text, schedule text, command text, database text, username text, active boolean); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.schedule_in_database(job_name text, schedule text, command text, database text, username text, active boolean) IS 'schedules a job in a database';


--
-- Name: unschedule(bigint); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.unschedule(job_id bigint) RETURNS boolean
    LANGUAGE sql STRICT
    AS $_$select scylla._cron_unschedule($1, null)$_$;
ALTER FUNCTION cron.unschedule(job_id bigint) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION unschedule(job_id bigint); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.unschedule(job_id bigint) IS 'removes a job';


--
-- Name: unschedule(name); Type: FUNCTION; Schema: cron; Owner: -
--

CREATE FUNCTION cron.unschedule(job_name name) RETURNS boolean
    LANGUAGE sql STRICT
    AS $_$select scylla._cron_unschedule(null, $1::pg_catalog.text)$_$;
ALTER FUNCTION cron.unschedule(job_name name) DEPENDS ON EXTENSION scylla;


--
-- Name: FUNCTION unschedule(job_name name); Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON FUNCTION cron.unschedule(job_name name) IS 'removes a job of the caller''s by its name';


--
-- Name: job; Type: VIEW; Schema: cron; Owner: -
--

CREATE VIEW cron.job WITH (security_barrier='true') AS
 SELECT s.id AS jobid,
    s.schedule,
    s.command,
    'localhost'::text AS nodename,
    (current_setting('port'::text))::integer AS nodeport,
    COALESCE(s.database, (current_database())::text) AS database,
    (pg_get_userbyid((s.owner)::oid))::text AS username,
    s.active,
    (s.job)::name AS jobname
   FROM scylla.schedule s
  WHERE ((s.command IS NOT NULL) AND (EXISTS ( SELECT
           FROM pg_roles r
          WHERE ((r.rolname = CURRENT_USER) AND ((r.oid = (s.owner)::oid) OR r.rolsuper OR r.rolbypassrls)))));


--
-- Name: VIEW job; Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON VIEW cron.job IS 'the caller''s jobs; all for a superuser';


--
-- Name: job_run_details; Type: VIEW; Schema: cron; Owner: -
--

CREATE VIEW cron.job_run_details WITH (security_barrier='true') AS
 SELECT t.schedule AS jobid,
    (((('x0'::text || substr(t.digits, 1, 12)) || substr(t.digits, 14, 3)))::bit(64))::bigint AS runid,
    NULL::integer AS job_pid,
    COALESCE(t.database, (current_database())::text) AS database,
    (pg_get_userbyid((t.role)::oid))::text AS username,
    t.command,
        CASE t.status
            WHEN 'completed'::text THEN 'succeeded'::text
            WHEN 'running'::text THEN 'running'::text
            WHEN 'ready'::text THEN 'starting'::text
            ELSE 'failed'::text
        END AS status,
        CASE
            WHEN (t.status = 'completed'::text) THEN
            CASE
                WHEN ((t.result ->> 'command_tag'::text) ~ '^SELECT '::text) THEN ((t.result ->> 'rows'::text) ||
                CASE (t.result ->> 'rows'::text)
                    WHEN '1'::text THEN ' row'::text
                    ELSE ' rows'::text
                END)
                ELSE (t.result ->> 'command_tag'::text)
            END
            WHEN (t.status = 'cancelled'::text) THEN 'job canceled'::text
            WHEN (t.status = 'aborted'::text) THEN (('ERROR:  '::text || ((t.errors -> 0) ->> 'description'::text)) || chr(10))
            ELSE NULL::text
        END AS return_message,
    COALESCE(t.owned_at, (((t.history -> 0) ->> 'time'::text))::timestamp with time zone) AS start_time,
        CASE
            WHEN (t.status <> ALL (ARRAY['ready'::text, 'running'::text])) THEN t.updated
            ELSE NULL::timestamp with time zone
        END AS end_time
   FROM ( SELECT replace((l.id)::text, '-'::text, ''::text) AS digits,
            l.schedule,
            l.role,
            l.database,
            l.command,
            l.updated,
            o.owned_at,
            l.errors,
            l.history,
            NULL::jsonb AS result,
                CASE
                    WHEN (o.owned_at IS NOT NULL) THEN 'running'::text
                    ELSE 'ready'::text
                END AS status
           FROM (scylla.task l
             LEFT JOIN scylla._leases() o(id, owner, owned_at, deadline, progress, recorded) ON ((o.id = l.id)))
        UNION ALL
         SELECT replace((f.id)::text, '-'::text, ''::text) AS replace,
            f.schedule,
            f.role,
            f.database,
            f.command,
            f.updated,
            f.owned_at,
            f.errors,
            f.history,
            f.result,
            f.status
           FROM scylla.finished f) t
  WHERE ((t.schedule IS NOT NULL) AND (t.command IS NOT NULL) AND (EXISTS ( SELECT
           FROM pg_roles r
          WHERE ((r.rolname = CURRENT_USER) AND ((r.oid = (t.role)::oid) OR r.rolsuper OR r.rolbypassrls)))));


--
-- Name: VIEW job_run_details; Type: COMMENT; Schema: cron; Owner: -
--

COMMENT ON VIEW cron.job_run_details IS 'the runs of the caller''s jobs; all for a superuser';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: fell_due; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.fell_due (
);


--
-- Name: held; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.held (
    id uuid,
    token uuid
);


--
-- Name: ran; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ran (
);


--
-- Name: finished_20261122; Type: TABLE; Schema: scylla; Owner: -
--

CREATE TABLE scylla.finished_20261122 (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    post_result boolean NOT NULL,
    created timestamp with time zone NOT NULL,
    updated timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    timeout interval,
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    tries integer NOT NULL,
    num_failures integer NOT NULL,
    progress double precision NOT NULL,
    owned_at timestamp with time zone,
    status text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    group_key text COLLATE pg_catalog."C",
    schedule bigint,
    role scylla.role,
    database text COLLATE pg_catalog."C",
    command text,
    after uuid[],
    resubmitted_from uuid,
    spec jsonb NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    history jsonb NOT NULL
);

ALTER TABLE ONLY scylla.finished_20261122 REPLICA IDENTITY FULL;


--
-- Name: TABLE finished_20261122; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON TABLE scylla.finished_20261122 IS 'tasks settled on 2026-11-22 (UTC)';


--
-- Name: finished_20261123; Type: TABLE; Schema: scylla; Owner: -
--

CREATE TABLE scylla.finished_20261123 (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    post_result boolean NOT NULL,
    created timestamp with time zone NOT NULL,
    updated timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    timeout interval,
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    tries integer NOT NULL,
    num_failures integer NOT NULL,
    progress double precision NOT NULL,
    owned_at timestamp with time zone,
    status text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    group_key text COLLATE pg_catalog."C",
    schedule bigint,
    role scylla.role,
    database text COLLATE pg_catalog."C",
    command text,
    after uuid[],
    resubmitted_from uuid,
    spec jsonb NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    history jsonb NOT NULL
);

ALTER TABLE ONLY scylla.finished_20261123 REPLICA IDENTITY FULL;


--
-- Name: TABLE finished_20261123; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON TABLE scylla.finished_20261123 IS 'tasks settled on 2026-11-23 (UTC)';


--
-- Name: finished_20261124; Type: TABLE; Schema: scylla; Owner: -
--

CREATE TABLE scylla.finished_20261124 (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    post_result boolean NOT NULL,
    created timestamp with time zone NOT NULL,
    updated timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    timeout interval,
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    tries integer NOT NULL,
    num_failures integer NOT NULL,
    progress double precision NOT NULL,
    owned_at timestamp with time zone,
    status text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    group_key text COLLATE pg_catalog."C",
    schedule bigint,
    role scylla.role,
    database text COLLATE pg_catalog."C",
    command text,
    after uuid[],
    resubmitted_from uuid,
    spec jsonb NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    history jsonb NOT NULL
);

ALTER TABLE ONLY scylla.finished_20261124 REPLICA IDENTITY FULL;


--
-- Name: TABLE finished_20261124; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON TABLE scylla.finished_20261124 IS 'tasks settled on 2026-11-24 (UTC)';


--
-- Name: finished_20261125; Type: TABLE; Schema: scylla; Owner: -
--

CREATE TABLE scylla.finished_20261125 (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    post_result boolean NOT NULL,
    created timestamp with time zone NOT NULL,
    updated timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    timeout interval,
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    tries integer NOT NULL,
    num_failures integer NOT NULL,
    progress double precision NOT NULL,
    owned_at timestamp with time zone,
    status text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    group_key text COLLATE pg_catalog."C",
    schedule bigint,
    role scylla.role,
    database text COLLATE pg_catalog."C",
    command text,
    after uuid[],
    resubmitted_from uuid,
    spec jsonb NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    history jsonb NOT NULL
);

ALTER TABLE ONLY scylla.finished_20261125 REPLICA IDENTITY FULL;


--
-- Name: TABLE finished_20261125; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON TABLE scylla.finished_20261125 IS 'tasks settled on 2026-11-25 (UTC)';


--
-- Name: finished_20261126; Type: TABLE; Schema: scylla; Owner: -
--

CREATE TABLE scylla.finished_20261126 (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    priority bigint NOT NULL,
    post_result boolean NOT NULL,
    created timestamp with time zone NOT NULL,
    updated timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    timeout interval,
    max_tries integer,
    retry_interval interval,
    retry_jitter interval,
    tries integer NOT NULL,
    num_failures integer NOT NULL,
    progress double precision NOT NULL,
    owned_at timestamp with time zone,
    status text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    group_key text COLLATE pg_catalog."C",
    schedule bigint,
    role scylla.role,
    database text COLLATE pg_catalog."C",
    command text,
    after uuid[],
    resubmitted_from uuid,
    spec jsonb NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    history jsonb NOT NULL
);

ALTER TABLE ONLY scylla.finished_20261126 REPLICA IDENTITY FULL;


--
-- Name: TABLE finished_20261126; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON TABLE scylla.finished_20261126 IS 'tasks settled on 2026-11-26 (UTC)';


--
-- Name: finished_20261122; Type: TABLE ATTACH; Schema: scylla; Owner: -
--

ALTER TABLE ONLY scylla.finished ATTACH PARTITION scylla.finished_20261122 FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');


--
-- Name: finished_20261123; Type: TABLE ATTACH; Schema: scylla; Owner: -
--

ALTER TABLE ONLY scylla.finished ATTACH PARTITION scylla.finished_20261123 FOR VALUES FROM ('2026-11-23 00:00:00+00') TO ('2026-11-24 00:00:00+00');


--
-- Name: finished_20261124; Type: TABLE ATTACH; Schema: scylla; Owner: -
--

ALTER TABLE ONLY scylla.finished ATTACH PARTITION scylla.finished_20261124 FOR VALUES FROM ('2026-11-24 00:00:00+00') TO ('2026-11-25 00:00:00+00');


--
-- Name: finished_20261125; Type: TABLE ATTACH; Schema: scylla; Owner: -
--

ALTER TABLE ONLY scylla.finished ATTACH PARTITION scylla.finished_20261125 FOR VALUES FROM ('2026-11-25 00:00:00+00') TO ('2026-11-26 00:00:00+00');


--
-- Name: finished_20261126; Type: TABLE ATTACH; Schema: scylla; Owner: -
--

ALTER TABLE ONLY scylla.finished ATTACH PARTITION scylla.finished_20261126 FOR VALUES FROM ('2026-11-26 00:00:00+00') TO ('2026-11-27 00:00:00+00');


--
-- Data for Name: fell_due; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.fell_due  FROM stdin;
\.


--
-- Data for Name: held; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.held (id, token) FROM stdin;
01a20628-8392-76dd-a340-381b5a865c99	d8f914e4-e769-49c9-bbd5-4f9f4333c56b
01a20628-8392-728c-a5cc-be170e7759d4	70bd8dc4-47ff-42a2-87e9-8fa7e05acbf0
01a20628-83c1-76b5-97a5-4ddb0d941d81	e46e3576-e7de-4380-89e0-994419e7ca09
\.


--
-- Data for Name: ran; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.ran  FROM stdin;
\.


--
-- Data for Name: countdown; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.countdown (task, created, settled, failed, cause) FROM stdin;
\.


--
-- Data for Name: dependency; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.dependency (after, task) FROM stdin;
01a20628-83c1-76b5-97a5-4ddb0d941d81	01a20628-83c2-7b4f-a526-e0e60bf17d5f
01a20628-83c1-77fc-bd11-71fd771c9a49	01a20628-83c2-7b4f-a526-e0e60bf17d5f
01a20628-83c2-7b4f-a526-e0e60bf17d5f	01a20628-83c3-70fc-8b70-85979ea89479
\.


--
-- Data for Name: finished_20261122; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_20261122 (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
\.


--
-- Data for Name: finished_20261123; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_20261123 (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
01a20628-8393-7022-ae47-44b3cc60b30f	up_completed		0	t	2026-11-23 02:07:28.147026+00	2026-11-23 02:07:28.188124+00	\N	\N	\N	\N	\N	1	0	1	2026-11-23 02:07:28.186533+00	completed	\N	w	\N	\N	\N	\N	\N	\N	\N	{}	{"sent": true}	[]	[]
01a20628-8393-797b-8660-537ebc961091	up_aborted		0	f	2026-11-23 02:07:28.147043+00	2026-11-23 02:07:28.189046+00	\N	\N	\N	\N	\N	1	0	0	2026-11-23 02:07:28.189022+00	aborted	\N	w	\N	\N	\N	\N	\N	\N	\N	{}	\N	[{"args": {}, "code": "broken", "description": ""}]	[]
01a20628-83c1-73ee-a003-658b6caf9cdb	up_cancelled		0	f	2026-11-23 02:07:28.193159+00	2026-11-23 02:07:28.193378+00	\N	\N	\N	\N	\N	0	0	0	\N	cancelled	\N	\N	\N	\N	\N	\N	\N	\N	\N	{}	\N	[]	[]
01a20628-83c1-7c1f-ac24-3ffbd94fb197	up_cancelled		0	f	2026-11-23 02:07:28.193419+00	2026-11-23 02:07:28.193451+00	\N	\N	\N	\N	\N	0	0	0	\N	cancelled	\N	\N	\N	\N	\N	\N	\N	\N	\N	{}	\N	[]	[]
01a20628-83c6-72a2-b17d-badd1b092a2e	sql		0	t	2026-11-23 02:07:28.198173+00	2026-11-23 02:07:28.203802+00	\N	\N	1	\N	\N	1	0	1	2026-11-23 02:07:28.199081+00	completed	\N	scylla sql worker	\N	\N	postgres	\N	create table public.ran ()	\N	\N	{}	{"rows": 0, "command_tag": "CREATE TABLE"}	[]	[]
01a20628-83cc-79dc-9c91-9709dbb0ecf6	sql		0	f	2026-11-23 02:07:28.204491+00	2026-11-23 02:07:30.21018+00	2026-11-23 02:07:30.204406+00	\N	1	\N	\N	1	0	1	2026-11-23 02:07:30.205633+00	completed	\N	scylla sql worker	\N	\N	postgres	\N	create table public.fell_due () -- up_soon	\N	\N	{}	{"rows": 0, "command_tag": "CREATE TABLE"}	[]	[]
\.


--
-- Data for Name: finished_20261124; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_20261124 (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
\.


--
-- Data for Name: finished_20261125; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_20261125 (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
\.


--
-- Data for Name: finished_20261126; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_20261126 (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
\.


--
-- Data for Name: finished_default; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.finished_default (id, queue, action, priority, post_result, created, updated, run_at, timeout, max_tries, retry_interval, retry_jitter, tries, num_failures, progress, owned_at, status, key, owner, group_key, schedule, role, database, command, after, resubmitted_from, spec, result, errors, history) FROM stdin;
\.


--
-- Data for Name: incarnation; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.incarnation (id, database, open, used, critical_only) FROM stdin;
efc59d6a-8c54-4584-a335-cb24313ce42a	16385	t	t	f
\.


--
-- Data for Name: missed; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.missed (schedule, until, next_run) FROM stdin;
\.


--
-- Data for Name: privilege; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.privilege (queue, role, privileges) FROM stdin;
up_ready	upgrade_reader	{submit,work,look}
\.


--
-- Data for Name: queue; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.queue (queue, version, paused, timeout, retention, max_running, max_per_second, aging, keep_finished, critical, max_tries, retry_interval, retry_jitter, max_ready, max_running_per_group) FROM stdin;
up_limited	1	f	00:01:00	\N	1	\N	\N	\N	\N	\N	\N	\N	\N	\N
up_paused	1	t	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
\.


--
-- Data for Name: queue_total; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.queue_total (queue, since, events, ready_to_owned, owned_to_settled) FROM stdin;
\.


--
-- Data for Name: run_count; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.run_count (schedule, completed, aborted) FROM stdin;
\.


--
-- Data for Name: schedule; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.schedule (id, name, owner, active, schedule, queue, spec, action, priority, time_zone, misfire, overlap, max_tries, retry_interval, retry_jitter, timeout, starts_at, ends_at, database, command, job, next_run, last_run, last_task, fired, completed, aborted, skipped) FROM stdin;
1	up-nightly	postgres	t	0 3 * * *	up_nightly	{}		0	Europe/Berlin	once	allow	\N	\N	\N	\N	\N	\N	\N	\N	\N	2026-11-24 02:00:00+00	\N	\N	0	0	0	0
3	up-command	postgres	t	0 3 * * *	sql	{}		0	UTC	once	skip	3	\N	\N	01:00:00	\N	\N	\N	vacuum	\N	2026-11-23 03:00:00+00	\N	\N	0	0	0	0
4	cron:4	postgres	t	0 4 * * *	sql	{}		0	UTC	skip	skip	1	\N	\N	\N	\N	\N	\N	select 2	up-job	2026-11-23 04:00:00+00	\N	\N	0	0	0	0
2	up-often	postgres	t	every 1 second	up_often	{}		0	UTC	once	allow	\N	\N	\N	\N	2026-11-23 02:07:30.197298+00	\N	\N	\N	\N	2026-11-23 02:07:32.197298+00	2026-11-23 02:07:31.197298+00	01a20628-8f7d-7ce6-bab6-e74cbda29c15	2	0	0	0
\.


--
-- Data for Name: task; Type: TABLE DATA; Schema: scylla; Owner: -
--

COPY scylla.task (id, queue, action, priority, ready, post_result, held, created, updated, run_at, timeout, max_tries, tries, num_failures, key, message, group_key, sender, due, schedule, role, database, command, retry_interval, retry_jitter, run_on_failure, followed, pending, after, resubmitted_from, spec, errors, history) FROM stdin;
01a20628-838f-79e4-b412-b33eca90b7c7	up_ready		1	t	f	f	2026-11-23 02:07:28.143854+00	2026-11-23 02:07:28.143854+00	\N	\N	\N	0	0	k1	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"n": 1}	[]	[]
01a20628-8390-7c93-8c11-6897505519f5	up_ready		2	t	f	f	2026-11-23 02:07:28.144806+00	2026-11-23 02:07:28.144806+00	\N	\N	\N	0	0	k2	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"n": 2}	[]	[]
01a20628-8390-73b4-bb09-3049262b2db0	up_ready		3	t	f	f	2026-11-23 02:07:28.144871+00	2026-11-23 02:07:28.144871+00	\N	\N	\N	0	0	k3	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"n": 3}	[]	[]
01a20628-8390-78c2-8207-0d38845bc65e	up_ready		4	t	f	f	2026-11-23 02:07:28.144919+00	2026-11-23 02:07:28.144919+00	\N	\N	\N	0	0	k4	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"n": 4}	[]	[]
01a20628-8390-7a2a-9cf4-3447cb0b11c5	up_ready		5	t	f	f	2026-11-23 02:07:28.144957+00	2026-11-23 02:07:28.144957+00	\N	\N	\N	0	0	k5	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"n": 5}	[]	[]
01a20628-8391-7b21-a8fb-a406e5671048	up_paused		0	t	f	f	2026-11-23 02:07:28.145222+00	2026-11-23 02:07:28.145222+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8391-7927-8394-744ad46d3b2b	up_waiting		0	f	f	f	2026-11-23 02:07:28.145705+00	2026-11-23 02:07:28.145705+00	2100-01-01 00:00:00+00	\N	\N	0	0	\N	\N	\N	\N	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8392-7f79-90cc-869492f1547f	up_message		0	f	f	f	2026-11-23 02:07:28.146161+00	2026-11-23 02:07:28.146161+00	2100-01-01 00:00:00+00	\N	\N	0	0	\N	m1	\N	postgres	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{"id": "m1", "key": "message key", "value": "value", "headers": {"h": 1}}	[]	[]
01a20628-8392-76dd-a340-381b5a865c99	up_running		0	t	f	f	2026-11-23 02:07:28.146821+00	2026-11-23 02:07:28.146821+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8392-728c-a5cc-be170e7759d4	up_running		0	t	f	f	2026-11-23 02:07:28.146841+00	2026-11-23 02:07:28.146841+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8393-7143-9616-119584eea196	up_retried		0	f	f	t	2026-11-23 02:07:28.14705+00	2026-11-23 02:07:28.190267+00	2026-11-24 02:07:28.192546+00	\N	\N	1	0	\N	\N	\N	\N	2026-11-24 02:07:28.192546+00	\N	\N	\N	\N	1 day	\N	f	f	0	\N	\N	{}	[{"args": {}, "code": "later", "description": ""}]	[{"_typ": "TaskAssignment", "time": "2026-11-23T02:07:28.190246+00:00", "worker": "w"}, {"_typ": "TaskRetry", "time": "2026-11-23T02:07:28.190267+00:00", "worker": "w", "progress": 0}]
01a20628-83c1-76b5-97a5-4ddb0d941d81	up_graph	first	0	t	f	f	2026-11-23 02:07:28.193723+00	2026-11-23 02:07:28.193723+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	t	0	\N	\N	{}	[]	[]
01a20628-83c1-77fc-bd11-71fd771c9a49	up_graph	second	0	t	f	f	2026-11-23 02:07:28.193931+00	2026-11-23 02:07:28.193931+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	t	0	\N	\N	{}	[]	[]
01a20628-83c2-7b4f-a526-e0e60bf17d5f	up_graph	join	0	f	f	f	2026-11-23 02:07:28.194094+00	2026-11-23 02:07:28.194094+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	t	2	{01a20628-83c1-76b5-97a5-4ddb0d941d81,01a20628-83c1-77fc-bd11-71fd771c9a49}	\N	{}	[]	[]
01a20628-83c3-70fc-8b70-85979ea89479	up_graph	last	0	f	f	f	2026-11-23 02:07:28.195237+00	2026-11-23 02:07:28.195237+00	\N	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	t	f	1	{01a20628-83c2-7b4f-a526-e0e60bf17d5f}	\N	{}	[]	[]
01a20628-83c5-73ba-a305-4702b8fdfcc0	up_group		0	t	f	f	2026-11-23 02:07:28.197774+00	2026-11-23 02:07:28.197774+00	\N	\N	\N	0	0	\N	\N	tenant 1	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-83c5-7f65-85a4-e08eca8f5671	up_group		0	t	f	f	2026-11-23 02:07:28.197956+00	2026-11-23 02:07:28.197956+00	\N	\N	\N	0	0	\N	\N	tenant 2	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-83cc-7959-8863-d73ab10b3270	sql		0	f	f	f	2026-11-23 02:07:28.204768+00	2026-11-23 02:07:28.204768+00	2100-01-01 00:00:00+00	\N	1	0	0	later	\N	\N	\N	2100-01-01 00:00:00+00	\N	postgres	\N	select 1	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8391-7aa9-9a2c-4329b9e6d576	up_soon		0	t	f	f	2026-11-23 02:07:28.145996+00	2026-11-23 02:07:30.147842+00	2026-11-23 02:07:30.145931+00	\N	\N	0	0	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8b95-7999-853f-1e256348510d	up_often		0	t	f	f	2026-11-23 02:07:30.197902+00	2026-11-23 02:07:30.197902+00	\N	\N	\N	0	0	up-often@2026-11-23T02:07:30.197298Z	\N	\N	\N	\N	2	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
01a20628-8f7d-7ce6-bab6-e74cbda29c15	up_often		0	t	f	f	2026-11-23 02:07:31.197904+00	2026-11-23 02:07:31.197904+00	\N	\N	\N	0	0	up-often@2026-11-23T02:07:31.197298Z	\N	\N	\N	\N	2	\N	\N	\N	\N	\N	f	f	0	\N	\N	{}	[]	[]
\.


--
-- Name: created_until; Type: SEQUENCE SET; Schema: scylla; Owner: -
--

SELECT pg_catalog.setval('scylla.created_until', 848714852197904, true);


--
-- Name: schedule_id_seq; Type: SEQUENCE SET; Schema: scylla; Owner: -
--

SELECT pg_catalog.setval('scylla.schedule_id_seq', 4, true);


--
-- Name: worker_number; Type: SEQUENCE SET; Schema: scylla; Owner: -
--

SELECT pg_catalog.setval('scylla.worker_number', 1, true);


--
-- Name: finished_20261122_failed; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261122_failed ON scylla.finished_20261122 USING btree (queue, status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261122_failed; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261122_failed IS 'finds a queue''s aborted and cancelled tasks by time';


--
-- Name: finished_20261122_id; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261122_id ON scylla.finished_20261122 USING btree (id);


--
-- Name: INDEX finished_20261122_id; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261122_id IS 'finds a settled task by its id';


--
-- Name: finished_20261122_key; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261122_key ON scylla.finished_20261122 USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: INDEX finished_20261122_key; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261122_key IS 'finds settled tasks by their key';


--
-- Name: finished_20261122_queue; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261122_queue ON scylla.finished_20261122 USING btree (queue, updated);


--
-- Name: INDEX finished_20261122_queue; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261122_queue IS 'finds settled tasks by queue and time';


--
-- Name: finished_20261122_status; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261122_status ON scylla.finished_20261122 USING btree (status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261122_status; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261122_status IS 'finds aborted and cancelled tasks by time';


--
-- Name: finished_20261123_failed; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261123_failed ON scylla.finished_20261123 USING btree (queue, status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261123_failed; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261123_failed IS 'finds a queue''s aborted and cancelled tasks by time';


--
-- Name: finished_20261123_id; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261123_id ON scylla.finished_20261123 USING btree (id);


--
-- Name: INDEX finished_20261123_id; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261123_id IS 'finds a settled task by its id';


--
-- Name: finished_20261123_key; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261123_key ON scylla.finished_20261123 USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: INDEX finished_20261123_key; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261123_key IS 'finds settled tasks by their key';


--
-- Name: finished_20261123_queue; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261123_queue ON scylla.finished_20261123 USING btree (queue, updated);


--
-- Name: INDEX finished_20261123_queue; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261123_queue IS 'finds settled tasks by queue and time';


--
-- Name: finished_20261123_status; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261123_status ON scylla.finished_20261123 USING btree (status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261123_status; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261123_status IS 'finds aborted and cancelled tasks by time';


--
-- Name: finished_20261124_failed; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261124_failed ON scylla.finished_20261124 USING btree (queue, status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261124_failed; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261124_failed IS 'finds a queue''s aborted and cancelled tasks by time';


--
-- Name: finished_20261124_id; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261124_id ON scylla.finished_20261124 USING btree (id);


--
-- Name: INDEX finished_20261124_id; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261124_id IS 'finds a settled task by its id';


--
-- Name: finished_20261124_key; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261124_key ON scylla.finished_20261124 USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: INDEX finished_20261124_key; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261124_key IS 'finds settled tasks by their key';


--
-- Name: finished_20261124_queue; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261124_queue ON scylla.finished_20261124 USING btree (queue, updated);


--
-- Name: INDEX finished_20261124_queue; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261124_queue IS 'finds settled tasks by queue and time';


--
-- Name: finished_20261124_status; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261124_status ON scylla.finished_20261124 USING btree (status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261124_status; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261124_status IS 'finds aborted and cancelled tasks by time';


--
-- Name: finished_20261125_failed; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261125_failed ON scylla.finished_20261125 USING btree (queue, status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261125_failed; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261125_failed IS 'finds a queue''s aborted and cancelled tasks by time';


--
-- Name: finished_20261125_id; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261125_id ON scylla.finished_20261125 USING btree (id);


--
-- Name: INDEX finished_20261125_id; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261125_id IS 'finds a settled task by its id';


--
-- Name: finished_20261125_key; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261125_key ON scylla.finished_20261125 USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: INDEX finished_20261125_key; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261125_key IS 'finds settled tasks by their key';


--
-- Name: finished_20261125_queue; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261125_queue ON scylla.finished_20261125 USING btree (queue, updated);


--
-- Name: INDEX finished_20261125_queue; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261125_queue IS 'finds settled tasks by queue and time';


--
-- Name: finished_20261125_status; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261125_status ON scylla.finished_20261125 USING btree (status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261125_status; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261125_status IS 'finds aborted and cancelled tasks by time';


--
-- Name: finished_20261126_failed; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261126_failed ON scylla.finished_20261126 USING btree (queue, status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261126_failed; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261126_failed IS 'finds a queue''s aborted and cancelled tasks by time';


--
-- Name: finished_20261126_id; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261126_id ON scylla.finished_20261126 USING btree (id);


--
-- Name: INDEX finished_20261126_id; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261126_id IS 'finds a settled task by its id';


--
-- Name: finished_20261126_key; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261126_key ON scylla.finished_20261126 USING btree (key) WHERE (key IS NOT NULL);


--
-- Name: INDEX finished_20261126_key; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261126_key IS 'finds settled tasks by their key';


--
-- Name: finished_20261126_queue; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261126_queue ON scylla.finished_20261126 USING btree (queue, updated);


--
-- Name: INDEX finished_20261126_queue; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261126_queue IS 'finds settled tasks by queue and time';


--
-- Name: finished_20261126_status; Type: INDEX; Schema: scylla; Owner: -
--

CREATE INDEX finished_20261126_status ON scylla.finished_20261126 USING btree (status, updated) WHERE (status <> 'completed'::text);


--
-- Name: INDEX finished_20261126_status; Type: COMMENT; Schema: scylla; Owner: -
--

COMMENT ON INDEX scylla.finished_20261126_status IS 'finds aborted and cancelled tasks by time';


--
-- Name: FUNCTION alter_job(job_id bigint, schedule text, command text, database text, username text, active boolean); Type: ACL; Schema: cron; Owner: -
--

REVOKE ALL ON FUNCTION cron.alter_job(job_id bigint, schedule text, command text, database text, username text, active boolean) FROM PUBLIC;


--
-- Name: FUNCTION schedule_in_database(job_name text, schedule text, command text, database text, username text, active boolean); Type: ACL; Schema: cron; Owner: -
--

REVOKE ALL ON FUNCTION cron.schedule_in_database(job_name text, schedule text, command text, database text, username text, active boolean) FROM PUBLIC;


--
-- Name: FUNCTION task_id(queue text, key text); Type: ACL; Schema: scylla; Owner: -
--

REVOKE ALL ON FUNCTION scylla.task_id(queue text, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION scylla.task_id(queue text, key text) TO upgrade_reader WITH GRANT OPTION;


--
-- Name: TABLE job; Type: ACL; Schema: cron; Owner: -
--

GRANT SELECT ON TABLE cron.job TO PUBLIC;


--
-- Name: TABLE finished; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished TO upgrade_reader;


--
-- Name: COLUMN task.id; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT(id) ON TABLE scylla.task TO upgrade_reader;


--
-- Name: COLUMN task.queue; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT(queue) ON TABLE scylla.task TO upgrade_reader;


--
-- Name: TABLE job_run_details; Type: ACL; Schema: cron; Owner: -
--

GRANT SELECT ON TABLE cron.job_run_details TO PUBLIC;


--
-- Name: TABLE finished_20261122; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished_20261122 TO upgrade_reader;


--
-- Name: TABLE finished_20261123; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished_20261123 TO upgrade_reader;


--
-- Name: TABLE finished_20261124; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished_20261124 TO upgrade_reader;


--
-- Name: TABLE finished_20261125; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished_20261125 TO upgrade_reader;


--
-- Name: TABLE finished_20261126; Type: ACL; Schema: scylla; Owner: -
--

GRANT SELECT ON TABLE scylla.finished_20261126 TO upgrade_reader;


--
-- PostgreSQL database dump complete
--

\unrestrict 9xJ3jGlA6pwVK0bhYZ25hJU9C3C3Gylr8G9fH3doU0kRuqtwF40iaH7UrpQRbYe

