// Package scyllatest helps to test tasks of scylla: it runs what is ready in this process, and finds what
// was submitted.
package scyllatest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"scylla.example/scylla"
)

// RunConfig configures [RunReady].
type RunConfig struct {
	Queues     []string
	Handlers   scylla.Handlers
	Middleware []scylla.HandleMiddleware
	// Max is after how many tasks to stop; 1,000 by default.
	Max int
}

// Ran is a task that RunReady has run.
type Ran struct {
	ID      string
	Queue   string
	Action  string
	Spec    json.RawMessage
	Outcome scylla.Outcome
}

const ownSQL = "select o.id::text, o.token::text, o.queue, o.action, o.spec::text, o.priority, " +
	"coalesce(o.key, ''), coalesce(o.group_key, ''), o.tries, o.max_tries, o.num_failures, " +
	"o.created, coalesce(o.meta, '{}')::text " +
	"from scylla.own_any($1::text, $2::text[], 1, $3::text[], '1 hour') as o"

const returnSQL = "select scylla.return_task($1::text::uuid, $2::text::uuid, $3::text, $4::text::jsonb, " +
	"$5::text::jsonb, clock_timestamp() + $6::text::interval)"

// RunReady runs what is ready, one task after the other, until nothing is: what the handlers submit, too.
// The tasks must be committed. A retry or a later time is not waited for.
func RunReady(ctx context.Context, db scylla.PgxDB, config RunConfig) ([]Ran, error) {
	if config.Max == 0 {
		config.Max = 1_000
	}
	actions := make([]string, 0, len(config.Handlers))
	for action := range config.Handlers {
		actions = append(actions, action)
	}
	worker := "scyllatest-" + rand.Text()
	var ran []Ran
	for len(ran) < config.Max {
		task := &scylla.TaskInfo{}
		var token, spec, meta string
		found, err := queryOne(ctx, db, ownSQL, []any{worker, config.Queues, actions},
			&task.ID, &token, &task.Queue, &task.Action, &spec, &task.Priority, &task.Key, &task.GroupKey,
			&task.Tries, &task.MaxTries, &task.NumFailures, &task.Created, &meta)
		if err != nil || !found {
			return ran, err
		}
		task.Spec = json.RawMessage(spec)
		if err := json.Unmarshal([]byte(meta), &task.Meta); err != nil {
			return ran, fmt.Errorf("scyllatest: meta of task %s: %w", task.ID, err)
		}
		outcome := config.Handlers[task.Action].Run(ctx, task, config.Middleware...)
		var status string
		_, err = queryOne(ctx, db, returnSQL, []any{
			task.ID, token, string(outcome.Kind), orNull(outcome.Result), orNull(outcome.Error), delay(outcome),
		}, &status)
		if err != nil {
			return ran, err
		}
		ran = append(ran, Ran{task.ID, task.Queue, task.Action, task.Spec, outcome})
		if outcome.Kind == scylla.OutcomeYield && outcome.Delay == 0 {
			break // it would come again at once
		}
	}
	return ran, nil
}

func queryOne(ctx context.Context, db scylla.PgxDB, sql string, args []any, dest ...any) (bool, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return false, err
	}
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(dest...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func orNull(text json.RawMessage) any {
	if text == nil {
		return nil
	}
	return string(text)
}

func delay(outcome scylla.Outcome) any {
	if outcome.Kind != scylla.OutcomeYield || outcome.Delay <= 0 {
		return nil
	}
	return strconv.FormatFloat(outcome.Delay.Seconds(), 'f', 6, 64) + " seconds"
}

// Expected is what a task must have. The zero value of a field: anything.
type Expected struct {
	Queue    string
	Action   string
	Key      string
	GroupKey string
	// Spec is contained in the task's spec, as the operator @> of jsonb says.
	Spec any
}

// Found is a task that was submitted.
type Found struct {
	ID       string
	Queue    string
	Action   string
	Key      string
	GroupKey string
	Spec     json.RawMessage
	Status   scylla.Status
	Created  time.Time
}

const submittedSQL = "select id::text, queue, action, coalesce(key, ''), coalesce(group_key, ''), spec::text, status, created " +
	"from scylla.tasks where ($1::text = '' or queue = $1::text) and ($2::text = '' or action = $2::text) " +
	"and ($3::text = '' or key = $3::text) and ($4::text = '' or group_key = $4::text) " +
	"and ($5::text is null or spec @> $5::text::jsonb) order by created, id"

// Submitted finds the tasks that fit, oldest first. In a transaction it finds what that has submitted,
// committed or not.
func Submitted(ctx context.Context, db scylla.PgxDB, expected Expected) ([]Found, error) {
	var spec any
	if expected.Spec != nil {
		text, err := json.Marshal(expected.Spec)
		if err != nil {
			return nil, fmt.Errorf("scyllatest: %w", err)
		}
		spec = string(text)
	}
	rows, err := db.Query(ctx, submittedSQL, expected.Queue, expected.Action, expected.Key, expected.GroupKey, spec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (found Found, err error) {
		var spec string
		err = row.Scan(&found.ID, &found.Queue, &found.Action, &found.Key, &found.GroupKey, &spec, &found.Status, &found.Created)
		found.Spec = json.RawMessage(spec)
		return found, err
	})
}

// RequireSubmitted fails the test unless a task that fits was submitted, and returns the first one.
func RequireSubmitted(ctx context.Context, t testing.TB, db scylla.PgxDB, expected Expected) Found {
	t.Helper()
	found, err := Submitted(ctx, db, expected)
	if err != nil {
		t.Fatalf("scyllatest: %v", err)
	}
	if len(found) > 0 {
		return found[0]
	}
	others, err := Submitted(ctx, db, Expected{Queue: expected.Queue})
	if err != nil {
		t.Fatalf("scyllatest: %v", err)
	}
	var list strings.Builder
	for _, other := range others[:min(5, len(others))] {
		fmt.Fprintf(&list, "\n  queue %q, action %q, key %q, spec %s", other.Queue, other.Action, other.Key, other.Spec)
	}
	t.Fatalf("scyllatest: no task was submitted with %+v; there are %d in the queue%s", expected, len(others), list.String())
	return Found{}
}
