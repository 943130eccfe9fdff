package scylla

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// OnConflict is what to do when a key is taken.
type OnConflict string

// What to do when a key is taken: fail with [ErrDuplicate], return the existing task's id, or cancel that
// task.
const (
	ConflictError   OnConflict = "error"
	ConflictIgnore  OnConflict = "ignore"
	ConflictReplace OnConflict = "replace"
)

// OnFailure is what to do when a task in After was aborted or cancelled.
type OnFailure string

// What to do when a task in After was aborted or cancelled.
const (
	FailureAbort OnFailure = "abort"
	FailureRun   OnFailure = "run"
)

// NoLimit is for MaxTries: the task is tried until it succeeds.
const NoLimit = -1

// SubmitOptions are the arguments of scylla.submit beside queue and spec. The zero value of each is the
// server's default.
type SubmitOptions struct {
	Action string
	// Priority is 0 to 4294967295, higher runs first.
	Priority int64
	// ID is a uuid; empty: the server makes one.
	ID string
	// Key is unique among the queue's unfinished tasks.
	Key        string
	OnConflict OnConflict
	// RunAt is the time before which the task does not run.
	RunAt time.Time
	// Delay is RunAt from now, by the server's clock.
	Delay time.Duration
	// After are the ids of tasks that must settle first.
	After     []string
	OnFailure OnFailure
	// MaxTries is how often the task may be tried, or [NoLimit].
	MaxTries int
	// RetryInterval is the delay of the first retry, which doubles each time; negative: no delay.
	RetryInterval time.Duration
	// RetryJitter is a random addition to each delay, at most; negative: no addition.
	RetryJitter time.Duration
	// Lease is the length of a lease, without a heartbeat: timeout of scylla.submit.
	Lease time.Duration
	// PostResult allows Wait and Result.
	PostResult bool
	// GroupKey is the tenant, account or aggregate: the unit of fairness, order and limits in the queue.
	GroupKey string
	// Meta is for clients, such as trace context and tags; scylla does not interpret it.
	Meta map[string]any
	// UniqueFor is with Key: the key stays taken for this long, though the task has settled.
	UniqueFor time.Duration
}

// SubmitManyOptions hold for all tasks of [Client.SubmitMany], but for IDs, Keys and GroupKeys, which have
// an element for each spec. An empty element: the server makes the id; no key; no group.
type SubmitManyOptions struct {
	Action        string
	Priority      int64
	RunAt         time.Time
	Delay         time.Duration
	MaxTries      int
	RetryInterval time.Duration
	RetryJitter   time.Duration
	Lease         time.Duration
	PostResult    bool
	Meta          map[string]any
	IDs           []string
	Keys          []string
	GroupKeys     []string
	// Batch is how many specs one statement has; 0: all, of which the server takes 100,000.
	Batch int
}

func (o *SubmitManyOptions) shared() SubmitOptions {
	return SubmitOptions{
		Action: o.Action, Priority: o.Priority, RunAt: o.RunAt, Delay: o.Delay, MaxTries: o.MaxTries,
		RetryInterval: o.RetryInterval, RetryJitter: o.RetryJitter, Lease: o.Lease,
		PostResult: o.PostResult, Meta: o.Meta,
	}
}

// Submission is what middleware sees, and may change, before it is sent.
type Submission struct {
	Queue string
	// Specs has one element, or those of SubmitMany.
	Specs []any
	// Many is set for SubmitMany.
	Many bool
	SubmitOptions
	many SubmitManyOptions
}

// SubmitFunc submits, and returns the ids in order.
type SubmitFunc func(ctx context.Context, submission *Submission) ([]string, error)

// SubmitMiddleware goes around submissions.
type SubmitMiddleware func(next SubmitFunc) SubmitFunc

// Action names a queue, an action of it and the type of its spec, for those who submit and for those who
// handle:
//
//	var Resize = scylla.Action[ResizeSpec]{Queue: "images", Name: "resize"}
type Action[T any] struct {
	Queue string
	Name  string
}

// Submit is [Client.Submit] with the action's queue and name.
func (a Action[T]) Submit(ctx context.Context, c *Client, spec T, options *SubmitOptions) (string, error) {
	var given SubmitOptions
	if options != nil {
		given = *options
	}
	given.Action = a.Name
	return c.Submit(ctx, a.Queue, spec, &given)
}

// SubmitMany is [Client.SubmitMany] with the action's queue and name.
func (a Action[T]) SubmitMany(ctx context.Context, c *Client, specs []T, options *SubmitManyOptions) ([]string, error) {
	var given SubmitManyOptions
	if options != nil {
		given = *options
	}
	given.Action = a.Name
	untyped := make([]any, len(specs))
	for i, spec := range specs {
		untyped[i] = spec
	}
	return c.SubmitMany(ctx, a.Queue, untyped, &given)
}

// Handle is [Handle] for the action's type.
func (a Action[T]) Handle(f func(ctx context.Context, task *Task[T]) error) Handler {
	return Handle(f)
}

func (c *Client) insert(ctx context.Context, s *Submission) ([]string, error) {
	if s.Many {
		return c.insertMany(ctx, s)
	}
	var st statement
	call := "scylla.submit(queue => " + st.add(s.Queue, "text")
	if s.Specs[0] != nil {
		spec, err := encodeSpec(s.Specs[0])
		if err != nil {
			return nil, err
		}
		call += ", spec => " + st.add(spec, "jsonb")
	}
	named, err := s.arguments(&st)
	if err != nil {
		return nil, err
	}
	var id *string
	err = c.query(ctx, "select "+call+named+")::text", st.args, func(row scanner) error { return row.Scan(&id) })
	if err != nil || id == nil {
		return nil, err
	}
	return []string{*id}, nil
}

func (c *Client) insertMany(ctx context.Context, s *Submission) ([]string, error) {
	for _, list := range [][]string{s.many.IDs, s.many.Keys, s.many.GroupKeys} {
		if list != nil && len(list) != len(s.Specs) {
			return nil, fmt.Errorf("scylla: %d elements for %d specs", len(list), len(s.Specs))
		}
	}
	specs := make([]string, len(s.Specs))
	for i, spec := range s.Specs {
		text, err := encodeSpec(spec)
		if err != nil {
			return nil, err
		}
		specs[i] = text
	}
	ids := make([]string, 0, len(specs))
	size := s.many.Batch
	if size <= 0 {
		size = max(1, len(specs))
	}
	for from := 0; from < len(specs); from += size {
		to := min(from+size, len(specs))
		var st statement
		call := "scylla.submit_many(queue => " + st.add(s.Queue, "text") +
			", specs => " + st.add(textArray(specs[from:to], false), "jsonb[]")
		if s.many.IDs != nil {
			call += ", ids => " + st.add(textArray(s.many.IDs[from:to], true), "uuid[]")
		}
		if s.many.Keys != nil {
			call += ", keys => " + st.add(textArray(s.many.Keys[from:to], true), "text[]")
		}
		if s.many.GroupKeys != nil {
			call += ", group_keys => " + st.add(textArray(s.many.GroupKeys[from:to], true), "text[]")
		}
		named, err := s.arguments(&st)
		if err != nil {
			return nil, err
		}
		var made []string
		if err := c.value(ctx, &made, call+named+")", st.args...); err != nil {
			return nil, err
		}
		ids = append(ids, made...)
	}
	return ids, nil
}

// option is an argument that was given: its name and type in SQL, its value as text.
type option struct {
	name, sqlType, value string
}

func (o *SubmitOptions) given() ([]option, error) {
	var options []option
	add := func(given bool, name, sqlType string, value func() string) {
		if given {
			options = append(options, option{name, sqlType, value()})
		}
	}
	text := func(name, value string) {
		add(value != "", name, "text", func() string { return value })
	}
	length := func(name string, value time.Duration) {
		add(value != 0, name, "interval", func() string { return interval(max(0, value)) })
	}
	text("action", o.Action)
	add(o.Priority != 0, "priority", "bigint", func() string { return strconv.FormatInt(o.Priority, 10) })
	add(o.ID != "", "id", "uuid", func() string { return o.ID })
	text("key", o.Key)
	text("on_conflict", string(o.OnConflict))
	add(!o.RunAt.IsZero(), "run_at", "timestamptz", func() string { return moment(o.RunAt) })
	add(o.After != nil, "after", "uuid[]", func() string { return plainArray(o.After) })
	text("on_failure", string(o.OnFailure))
	add(o.MaxTries != 0, "max_tries", "int", func() string { return strconv.Itoa(max(0, o.MaxTries)) })
	length("retry_interval", o.RetryInterval)
	length("retry_jitter", o.RetryJitter)
	length("timeout", o.Lease)
	add(o.PostResult, "post_result", "boolean", func() string { return "true" })
	text("group_key", o.GroupKey)
	length("unique_for", o.UniqueFor)
	if o.Meta != nil {
		meta, err := json.Marshal(o.Meta)
		if err != nil {
			return nil, fmt.Errorf("scylla: meta: %w", err)
		}
		options = append(options, option{"meta", "jsonb", string(meta)})
	}
	if o.Delay != 0 && !o.RunAt.IsZero() {
		return nil, fmt.Errorf("scylla: RunAt and Delay are both given")
	}
	return options, nil
}

// arguments are the options as named arguments of a call.
func (o *SubmitOptions) arguments(st *statement) (string, error) {
	options, err := o.given()
	if err != nil {
		return "", err
	}
	named := ""
	for _, option := range options {
		named += ", " + option.name + " => " + st.add(option.value, option.sqlType)
	}
	if o.Delay != 0 {
		named += ", run_at => clock_timestamp() + " + st.add(interval(o.Delay), "interval")
	}
	return named, nil
}

// element is the task as a member of the array of submit_tasks.
func (t *SubmitTask) element() (map[string]any, error) {
	options, err := t.given()
	if err != nil {
		return nil, err
	}
	if t.Delay != 0 {
		return nil, fmt.Errorf("scylla: SubmitTasks takes RunAt, not Delay")
	}
	element := map[string]any{"queue": t.Queue}
	if t.Spec != nil {
		element["spec"] = t.Spec
	}
	for _, option := range options {
		switch option.name {
		case "after":
			element["after"] = t.After
		case "priority", "max_tries", "post_result", "meta":
			element[option.name] = json.RawMessage(option.value)
		default:
			element[option.name] = option.value
		}
	}
	return element, nil
}
