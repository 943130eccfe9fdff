package scylla

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// statements of a worker. Where there is something to return and something to own, one does both.
type statements struct {
	owning    string
	both      string
	returning string
	queue     string // the one queue; empty: there are several
	ownHead   []any
	ownTail   []any
}

const (
	returnMany = "scylla.return_many(#::uuid[], #::uuid[], #::text[], " +
		"#::text::jsonb[], #::text::jsonb[], #::text::timestamptz[])"
	// what became of a task, and which worker owned it last, when
	statusSQL = "select t ->> 'status', last.h ->> 'worker', " +
		"date_part('epoch', (last.h ->> 'time')::timestamptz) " +
		"from scylla.task($1::text::uuid) as t left join lateral (" +
		"select h from jsonb_array_elements(t -> 'history') with ordinality as e (h, place) " +
		"where h ->> '_typ' = 'TaskAssignment' order by place desc limit 1) as last on true"
)

func makeStatements(c *WorkerConfig, actions []string) statements {
	s := statements{ownHead: []any{c.Name, c.Queues[0]}, queue: c.Queues[0]}
	name, list, column := "own_tasks", "", "null::text"
	if len(c.Queues) > 1 {
		name, list, column = "own_any", "::text[]", "o.queue"
		s.queue, s.ownHead[1] = "", textArray(c.Queues, false)
	}
	s.ownTail = []any{textArray(actions, false), nil}
	if c.Lease > 0 {
		s.ownTail[1] = interval(c.Lease)
	}
	own := "scylla." + name + "(#::text, #::text" + list + ", #::text::int, #::text::text[], #::text::interval)"
	row := "o.id, o.token, " + column + ", o.action, o.spec, o.priority, o.key, o.tries, o.num_failures, o.group_key, " +
		"date_part('epoch', o.created), o.max_tries, o.meta, " +
		"date_part('epoch', o.deadline), date_part('epoch', clock_timestamp())"
	s.owning = numbered("select null::text, " + row + " from " + own + " as o")
	// the statuses come once, not with each row
	s.both = numbered("select case when o.ordinality is null or o.ordinality = 1 then array_to_string(r, ',', '-') end, " +
		row + " from " + returnMany + " as r left join lateral " + own + " with ordinality as o on true")
	s.returning = numbered("select array_to_string(" + returnMany + ", ',', '-')")
	return s
}

// numbered replaces each # by $1, $2 and so on.
func numbered(sql string) string {
	var b strings.Builder
	for i, part := range strings.Split(sql, "#") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

func (s *statements) own(most int) []any {
	return s.returnAndOwn(nil, most)
}

func (s *statements) returnAndOwn(returned []any, most int) []any {
	args := append(make([]any, 0, 12), returned...)
	args = append(args, s.ownHead...)
	args = append(args, strconv.Itoa(most))
	return append(args, s.ownTail...)
}

// uuids are sent in binary where the statement is prepared.
type uuids = pgtype.FlatArray[pgtype.UUID]

// returned are the arguments of return_many.
func (w *Worker) returned(batch []*run) []any {
	ids, tokens, kinds := make(uuids, len(batch)), make(uuids, len(batch)), make([]string, len(batch))
	results, failures, runAts := make([]string, len(batch)), make([]string, len(batch)), make([]string, len(batch))
	for i, r := range batch {
		ids[i], tokens[i], kinds[i] = r.id, r.token, string(r.outcome.Kind)
		results[i], failures[i] = string(r.outcome.Result), string(r.outcome.Error)
		if !r.runAt.IsZero() {
			runAts[i] = moment(r.runAt)
		}
	}
	return []any{
		ids, tokens, kinds, arrayOrNull(results), arrayOrNull(failures), arrayOrNull(runAts),
	}
}

// arrayOrNull is NULL when no element is given.
func arrayOrNull(items []string) any {
	if strings.Join(items, "") == "" {
		return nil
	}
	return textArray(items, true)
}

// scanOwned reads a row of what owns: the statuses of what was returned, which the first row has, and a
// task. nil: there was none to own.
func (s *statements) scanOwned(row pgx.Rows, statuses *string, askedAt time.Time) (*run, error) {
	raw := row.RawValues()
	if raw[0] != nil {
		*statuses = string(raw[0])
	}
	if raw[1] == nil {
		return nil, nil
	}
	r := &run{}
	var queue, key, groupKey pgtype.Text
	var meta []byte
	var created float64
	var deadline pgtype.Float8
	err := row.Scan(nil, &r.id, &r.token, &queue, &r.task.Action, (*[]byte)(&r.task.Spec), &r.task.Priority, &key,
		&r.task.Tries, &r.task.NumFailures, &groupKey, &created, &r.task.MaxTries, &meta, &deadline, &r.ownedAt)
	if err != nil {
		return nil, err
	}
	if meta != nil {
		_ = json.Unmarshal(meta, &r.task.Meta) // it is an object: the server has checked
	}
	r.task.ID, r.task.Created = r.id.String(), seconds(created)
	r.task.Queue, r.task.Key, r.task.GroupKey = cmp.Or(s.queue, queue.String), key.String, groupKey.String
	r.extend(deadline, r.ownedAt, askedAt)
	return r, nil
}

func seconds(epoch float64) time.Time {
	return time.UnixMicro(int64(epoch * 1e6))
}
