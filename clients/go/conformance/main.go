// The driver of clients/conformance: conformance URL. Commands and events are lines of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"scylla.example/scylla"
)

type options struct {
	Key        string         `json:"key"`
	OnConflict string         `json:"on_conflict"`
	Priority   int64          `json:"priority"`
	GroupKey   string         `json:"group_key"`
	MaxTries   int            `json:"max_tries"`
	PostResult bool           `json:"post_result"`
	Meta       map[string]any `json:"meta"`
}

type command struct {
	ID          int             `json:"id"`
	Do          string          `json:"do"`
	Queue       string          `json:"queue"`
	Action      string          `json:"action"`
	Spec        json.RawMessage `json:"spec"`
	Count       int             `json:"count"`
	Options     options         `json:"options"`
	In          string          `json:"in"`
	Task        string          `json:"task"`
	Name        string          `json:"name"`
	Queues      []string        `json:"queues"`
	Concurrency int             `json:"concurrency"`
	Lease       float64         `json:"lease"`
	Grace       float64         `json:"grace"`
}

type spec struct {
	Ms    float64         `json:"ms"`
	Then  string          `json:"then"`
	Deaf  bool            `json:"deaf"`
	Value json.RawMessage `json:"value"`
}

var causes = map[error]string{
	scylla.ErrCancelled: "Cancelled", scylla.ErrLeaseLost: "LeaseLost",
	scylla.ErrTimeLimit: "TimeLimit", scylla.ErrShutdown: "Shutdown",
}

type driver struct {
	conn    *pgx.ConnConfig
	pool    *pgxpool.Pool
	client  *scylla.Client
	workers chan *scylla.Worker
	snoozed sync.Map
	lock    sync.Mutex
}

func (d *driver) say(members map[string]any) {
	line, err := json.Marshal(members)
	if err != nil {
		log.Fatal(err)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func (d *driver) handle(ctx context.Context, task *scylla.Task[spec]) (any, error) {
	d.say(map[string]any{"event": "begin", "task": task.ID, "tries": task.Tries})
	timer := time.After(time.Duration(task.Spec.Ms * float64(time.Millisecond)))
	select {
	case <-timer:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		for known, name := range causes {
			if errors.Is(cause, known) {
				d.say(map[string]any{"event": "stopped", "task": task.ID, "cause": name})
			}
		}
		if !task.Spec.Deaf {
			return nil, cause
		}
		<-timer
	}
	if _, again := d.snoozed.LoadOrStore(task.ID, true); task.Spec.Then == "snooze" && !again {
		d.say(map[string]any{"event": "stopped", "task": task.ID, "cause": "Snooze"})
		return nil, scylla.Snooze(300 * time.Millisecond)
	}
	d.say(map[string]any{"event": "end", "task": task.ID})
	switch task.Spec.Then {
	case "error":
		return nil, errors.New("told to fail")
	case "abort":
		return nil, scylla.Abort("told", "told to abort")
	case "meta":
		return task.Meta, nil
	}
	return task.Spec.Value, nil
}

func (d *driver) send(ctx context.Context, client *scylla.Client, c *command) ([]string, error) {
	o := c.Options
	if c.Count > 1 {
		specs := make([]any, c.Count)
		for i := range specs {
			specs[i] = c.Spec
		}
		return client.SubmitMany(ctx, c.Queue, specs, &scylla.SubmitManyOptions{
			Action: c.Action, Priority: o.Priority, MaxTries: o.MaxTries, PostResult: o.PostResult, Meta: o.Meta,
		})
	}
	id, err := client.Submit(ctx, c.Queue, c.Spec, &scylla.SubmitOptions{
		Action: c.Action, Key: o.Key, OnConflict: scylla.OnConflict(o.OnConflict), Priority: o.Priority,
		GroupKey: o.GroupKey, MaxTries: o.MaxTries, PostResult: o.PostResult, Meta: o.Meta,
	})
	return []string{id}, err
}

func (d *driver) submit(ctx context.Context, c *command) ([]string, error) {
	if c.In == "" {
		return d.send(ctx, d.client, c)
	}
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx)
	inner := tx
	if c.In == "savepoint" {
		if inner, err = tx.Begin(ctx); err != nil {
			return nil, err
		}
	}
	ids, err := d.send(ctx, d.client.With(inner), c)
	if err != nil || c.In == "rollback" {
		return ids, err
	}
	if c.In == "savepoint" {
		if err := inner.Rollback(ctx); err != nil {
			return nil, err
		}
	}
	return ids, tx.Commit(ctx)
}

func (d *driver) do(ctx context.Context, c *command) (map[string]any, error) {
	switch c.Do {
	case "submit":
		ids, err := d.submit(ctx, c)
		return map[string]any{"tasks": ids}, err
	case "result":
		var value json.RawMessage
		err := d.client.Result(ctx, c.Task, &value)
		return map[string]any{"value": value}, err
	case "work":
		worker, err := scylla.NewWorker(d.conn, &scylla.WorkerConfig{
			Name: c.Name, Queues: c.Queues, Concurrency: c.Concurrency,
			Lease:    time.Duration(c.Lease * float64(time.Second)),
			Grace:    time.Duration(c.Grace * float64(time.Second)),
			Handlers: scylla.Handlers{"work": scylla.HandleResult(d.handle)},
		})
		if err == nil {
			d.workers <- worker
		}
		return map[string]any{}, err
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (d *driver) read(ctx context.Context) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			log.Fatal(err)
		}
		answer, err := d.do(ctx, &c)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
			var told *scylla.Error
			if errors.As(err, &told) {
				answer["sqlstate"] = told.Code
			}
		}
		answer["id"] = c.ID
		d.say(answer)
	}
}

func main() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // there may be a pooler
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	d := &driver{
		conn: config.ConnConfig, pool: pool, client: scylla.NewClient(pool, nil), workers: make(chan *scylla.Worker),
	}
	go d.read(ctx)
	if err := (<-d.workers).RunUntilSignal(ctx); err != nil {
		log.Fatal(err)
	}
}
