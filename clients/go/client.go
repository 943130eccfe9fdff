package scylla

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Client submits tasks, waits for their results, cancels them, and asks about them. It is safe for
// concurrent use when the connection below it is, as a pool is.
type Client struct {
	query  querier
	submit SubmitFunc
	config ClientConfig
}

// ClientConfig configures a [Client].
type ClientConfig struct {
	// Middleware goes around each submission but those of SubmitTasks, the first one outermost.
	Middleware []SubmitMiddleware
}

// NewClient makes a client of a pool or connection of pgx. The config may be nil.
func NewClient(db PgxDB, config *ClientConfig) *Client {
	return newClient(pgxQuerier(db), config)
}

// NewSQLClient makes a client of a database of database/sql. The config may be nil.
func NewSQLClient(db SQLDB, config *ClientConfig) *Client {
	return newClient(sqlQuerier(db), config)
}

func newClient(query querier, config *ClientConfig) *Client {
	c := &Client{query: query}
	if config != nil {
		c.config = *config
	}
	c.submit = c.insert
	for _, around := range slices.Backward(c.config.Middleware) {
		c.submit = around(c.submit)
	}
	return c
}

// With is the same client in a transaction of pgx: what it submits is there when that commits, and was
// never there when it rolls back.
func (c *Client) With(tx PgxDB) *Client {
	return newClient(pgxQuerier(tx), &c.config)
}

// WithSQL is the same client in a transaction of database/sql.
func (c *Client) WithSQL(tx SQLDB) *Client {
	return newClient(sqlQuerier(tx), &c.config)
}

// Submit submits a task and returns its id. The spec is what encoding/json encodes; nil: {}. The options
// may be nil.
//
// The id is empty only with [ConflictIgnore], for a role that may not look at the existing task.
func (c *Client) Submit(ctx context.Context, queue string, spec any, options *SubmitOptions) (string, error) {
	submission := &Submission{Queue: queue, Specs: []any{spec}}
	if options != nil {
		submission.SubmitOptions = *options
	}
	ids, err := c.submit(ctx, submission)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// SubmitMany submits a task for each spec and returns their ids in order: all or none, unless a Batch is
// given; then that holds for each batch. The options may be nil.
func (c *Client) SubmitMany(ctx context.Context, queue string, specs []any, options *SubmitManyOptions) ([]string, error) {
	submission := &Submission{Queue: queue, Specs: specs, Many: true}
	if options != nil {
		submission.SubmitOptions = options.shared()
		submission.many = *options
	}
	return c.submit(ctx, submission)
}

// SubmitTask is an element of [Client.SubmitTasks].
type SubmitTask struct {
	Queue string
	Spec  any
	SubmitOptions
}

// SubmitTasksOptions are the options of [Client.SubmitTasks].
type SubmitTasksOptions struct {
	// AllowPartial submits the tasks that can be submitted; the others tell their outcome.
	AllowPartial bool
}

// SubmitOutcome is how an element of [Client.SubmitTasks] ended.
type SubmitOutcome string

// How an element ended: it was submitted, its id or key was taken, or an argument was invalid.
const (
	SubmitInserted  SubmitOutcome = "inserted"
	SubmitDuplicate SubmitOutcome = "duplicate"
	SubmitInvalid   SubmitOutcome = "invalid"
)

// Submitted is what became of an element of [Client.SubmitTasks].
type Submitted struct {
	// ID is the task's. Of a duplicate that was ignored it is the existing task's. Else it is the element's,
	// or empty when that has none.
	ID      string
	Outcome SubmitOutcome
	// Error tells why an element is invalid.
	Error string
}

// SubmitTasks submits tasks of any queues, which may come after one another. A duplicate or invalid one is
// an error and nothing is submitted, unless the options allow that. The options may be nil.
func (c *Client) SubmitTasks(ctx context.Context, tasks []SubmitTask, options *SubmitTasksOptions) ([]Submitted, error) {
	atomic := options == nil || !options.AllowPartial
	elements := make([]map[string]any, len(tasks))
	for i, task := range tasks {
		element, err := task.element()
		if err != nil {
			return nil, err
		}
		elements[i] = element
	}
	text, err := json.Marshal(elements)
	if err != nil {
		return nil, fmt.Errorf("scylla: %w", err)
	}
	var s statement
	submitted := make([]Submitted, 0, len(tasks))
	err = c.query(ctx, fmt.Sprintf("select id::text, outcome, coalesce(error, '') from scylla.submit_tasks(%s, %s)",
		s.add(string(text), "jsonb"), s.add(fmt.Sprint(atomic), "boolean")), s.args, func(row scanner) error {
		var one Submitted
		var id *string
		if err := row.Scan(&id, &one.Outcome, &one.Error); err != nil {
			return err
		}
		if id != nil {
			one.ID = *id
		}
		submitted = append(submitted, one)
		return nil
	})
	return submitted, err
}

// Settled is how a task ended.
type Settled struct {
	Status Status
	// Result is nil when the task has none.
	Result json.RawMessage
	Errors []TaskError
}

const (
	waitPiece    = time.Second     // of a wait, after which the context is looked at
	waitPatience = 5 * time.Second // for the answer that is due
)

// Wait waits until a task has settled or the context ends. The task must have been submitted with
// PostResult. It does not work inside a transaction.
//
// pgx closes a connection whose context ends while a statement runs. So Wait asks in pieces of at most
// one second, none of which outlasts the context's deadline, and returns at most a second after a context
// that is cancelled.
func (c *Client) Wait(ctx context.Context, id string) (*Settled, error) {
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("scylla: task %s has not settled: %w", id, context.Cause(ctx))
		}
		piece := waitPiece
		if deadline, ok := ctx.Deadline(); ok {
			piece = max(0, min(piece, time.Until(deadline)))
		}
		settled, err := c.waitPiece(ctx, id, piece)
		if settled != nil || err != nil {
			return settled, err
		}
	}
}

func (c *Client) waitPiece(ctx context.Context, id string, piece time.Duration) (*Settled, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), piece+waitPatience)
	defer cancel()
	var status *string
	var result []byte
	err := c.query(ctx, "call scylla.wait_for_task($1::text::uuid, $2::text::interval, null, null)",
		[]any{id, interval(piece)}, func(row scanner) error { return row.Scan(&status, &result) })
	if err != nil || status == nil {
		return nil, err
	}
	settled := &Settled{Status: Status(*status), Result: result}
	if settled.Status != StatusCompleted {
		entry, err := c.Task(ctx, id)
		switch {
		case err == nil:
			settled.Errors = entry.Errors
		case !errors.Is(err, ErrNotFound): // retention was quicker
			return nil, err
		}
	}
	return settled, nil
}

// Result waits as [Client.Wait] does, and decodes the result into dest, which may be nil. The error is a
// [TaskFailedError] when the task was aborted or cancelled.
func (c *Client) Result(ctx context.Context, id string, dest any) error {
	settled, err := c.Wait(ctx, id)
	if err != nil {
		return err
	}
	if settled.Status != StatusCompleted {
		return &TaskFailedError{ID: id, Status: settled.Status, Errors: settled.Errors}
	}
	if dest == nil || settled.Result == nil {
		return nil
	}
	if err := json.Unmarshal(settled.Result, dest); err != nil {
		return fmt.Errorf("scylla: result of task %s: %w", id, err)
	}
	return nil
}

// Cancel cancels a task. False: it had settled.
func (c *Client) Cancel(ctx context.Context, id string) (cancelled bool, err error) {
	err = c.value(ctx, &cancelled, "scylla.cancel($1::text::uuid)", id)
	return cancelled, err
}

// CancelOutcome is what became of a task of [Client.CancelMany].
type CancelOutcome string

// What became of a task: it was cancelled, it had settled, or there is no such task.
const (
	CancelDone     CancelOutcome = "cancelled"
	CancelSettled  CancelOutcome = "settled"
	CancelNotFound CancelOutcome = "not found"
)

// CancelMany cancels tasks and returns the outcome of each.
func (c *Client) CancelMany(ctx context.Context, ids []string) ([]CancelOutcome, error) {
	var cancelled []*bool
	if err := c.value(ctx, &cancelled, "scylla.cancel_tasks($1::text::uuid[])", plainArray(ids)); err != nil {
		return nil, err
	}
	outcomes := make([]CancelOutcome, len(cancelled))
	for i, done := range cancelled {
		switch {
		case done == nil:
			outcomes[i] = CancelNotFound
		case *done:
			outcomes[i] = CancelDone
		default:
			outcomes[i] = CancelSettled
		}
	}
	return outcomes, nil
}

// CancelGroup cancels the unfinished tasks of a group and returns their number.
func (c *Client) CancelGroup(ctx context.Context, queue, groupKey string) (count int64, err error) {
	err = c.value(ctx, &count, "scylla.cancel_group($1::text, $2::text)", queue, groupKey)
	return count, err
}

// Delay postpones a task that waits or is ready. False: it runs or has settled.
func (c *Client) Delay(ctx context.Context, id string, until time.Time) (delayed bool, err error) {
	err = c.value(ctx, &delayed, "scylla.delay(task => $1::text::uuid, until => $2::text::timestamptz)", id, moment(until))
	return delayed, err
}

// Delete deletes tasks and, in turn, dependents with nothing left to wait for. It returns how many.
func (c *Client) Delete(ctx context.Context, ids []string) (count int, err error) {
	err = c.value(ctx, &count, "scylla.delete_tasks($1::text::uuid[])", plainArray(ids))
	return count, err
}

// Resubmit submits aborted and cancelled tasks again and returns the new ids in order. An id is empty where
// there is no such task, or it is neither aborted nor cancelled.
func (c *Client) Resubmit(ctx context.Context, ids []string) ([]string, error) {
	var found []*string
	if err := c.value(ctx, &found, "scylla.resubmit($1::text::uuid[])", plainArray(ids)); err != nil {
		return nil, err
	}
	made := make([]string, len(found))
	for i, id := range found {
		if id != nil {
			made[i] = *id
		}
	}
	return made, nil
}

// Why tells in one sentence why a task is not running.
func (c *Client) Why(ctx context.Context, id string) (why string, err error) {
	err = c.value(ctx, &why, "scylla.why($1::text::uuid)", id)
	return why, err
}

// Task is a task's entry.
func (c *Client) Task(ctx context.Context, id string) (*Entry, error) {
	var entry Entry
	if err := c.value(ctx, &entry, "scylla.task($1::text::uuid)", id); err != nil {
		return nil, err
	}
	return &entry, nil
}

// TaskID is the id of the unfinished task with a key. Empty: there is no such task.
func (c *Client) TaskID(ctx context.Context, queue, key string) (id string, err error) {
	err = c.value(ctx, &id, "scylla.task_id($1::text, $2::text)", queue, key)
	return id, err
}

// DrainWorker asks a worker to stop. False: no such worker.
func (c *Client) DrainWorker(ctx context.Context, worker string) (asked bool, err error) {
	err = c.value(ctx, &asked, "scylla.drain_worker($1::text)", worker)
	return asked, err
}

// value decodes the JSON of an expression. NULL leaves dest as it is.
func (c *Client) value(ctx context.Context, dest any, expression string, args ...any) error {
	var text *string
	err := c.query(ctx, "select to_json("+expression+")::text", args, func(row scanner) error {
		return row.Scan(&text)
	})
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal([]byte(*text), dest)
}
