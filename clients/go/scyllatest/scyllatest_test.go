package scyllatest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"scylla.example/scylla"
	"scylla.example/scylla/scyllatest"
)

// newPool is a pool of a new database on the server of the script test.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	name := "scyllatest_" + strings.ToLower(rand.Text()[:8])
	for _, step := range [][2]string{{"postgres", "create database " + name}, {name, "create extension scylla"}} {
		conn, err := pgx.Connect(t.Context(), "dbname="+step[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err = conn.Exec(t.Context(), step[1]); err != nil {
			t.Fatal(err)
		}
		if err = conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), "dbname="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func submit(t *testing.T, client *scylla.Client, spec any, options *scylla.SubmitOptions) string {
	t.Helper()
	id, err := client.Submit(t.Context(), "run", spec, options)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRunReady(t *testing.T) {
	pool := newPool(t)
	client := scylla.NewClient(pool, nil)
	handlers := scylla.Handlers{
		"first": scylla.HandleResult(func(ctx context.Context, task *scylla.Task[string]) (int, error) {
			_, err := client.Submit(ctx, "run", task.Spec, &scylla.SubmitOptions{Action: "second", Meta: map[string]any{"m": 1}})
			return 1, err
		}),
		"second": scylla.HandleResult(func(_ context.Context, task *scylla.Task[string]) (string, error) {
			return fmt.Sprint(task.Spec, task.Meta["m"], task.Tries, task.Queue), nil
		}),
		"bad":   scylla.Handle(func(context.Context, *scylla.Task[any]) error { return errors.New("bad") }),
		"never": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return scylla.Abort("never", "no") }),
		"later": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return scylla.Snooze(time.Minute) }),
	}
	var ids []string
	for _, action := range []string{"first", "bad", "never", "later", "unknown"} {
		ids = append(ids, submit(t, client, "x", &scylla.SubmitOptions{Action: action, RetryInterval: time.Hour}))
	}
	config := scyllatest.RunConfig{Queues: []string{"run"}, Handlers: handlers}
	ran, err := scyllatest.RunReady(t.Context(), pool, config)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, one := range ran {
		fmt.Fprintf(&found, "%s %s %s %v\n", one.Action, one.Outcome.Kind, one.Outcome.Result, one.Outcome.Err)
	}
	expected := "first completed 1 <nil>\nbad retry  bad\nnever aborted  never: no\n" +
		"later yield  scylla: snoozed for 1m0s\nsecond completed \"x1 1run\" <nil>\n"
	if found.String() != expected {
		t.Fatal(found.String())
	}
	if again, err := scyllatest.RunReady(t.Context(), pool, config); err != nil || len(again) > 0 {
		t.Fatal(again, err)
	}
	for i, status := range []scylla.Status{"completed", "waiting", "aborted", "waiting", "ready"} {
		task, err := client.Task(t.Context(), ids[i])
		if err != nil || task.Status != status {
			t.Fatal(task, err)
		}
	}
}

// fake notes how a test fails.
type fake struct {
	testing.TB
	text string
}

func (f *fake) Helper() {}
func (f *fake) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func TestRequireSubmitted(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	client := scylla.NewClient(pool, nil)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	spec := map[string]any{"to": "ann", "nested": map[string]any{"a": 1, "b": []int{1}}}
	id := submit(t, client.With(tx), spec, &scylla.SubmitOptions{Action: "mail", Key: "k", GroupKey: "g"})
	for _, expected := range []scyllatest.Expected{
		{}, {Queue: "run"}, {Action: "mail", Key: "k", GroupKey: "g"}, {Spec: map[string]any{"nested": map[string]any{"a": 1}}},
	} {
		if found := scyllatest.RequireSubmitted(ctx, t, tx, expected); found.ID != id || found.Key != "k" || found.Status != "ready" {
			t.Fatal(found)
		}
	}
	for _, expected := range []scyllatest.Expected{
		{Queue: "other"}, {Action: "other"}, {Key: "other"}, {GroupKey: "other"}, {Spec: map[string]any{"to": "bob"}},
	} {
		f := &fake{TB: t}
		func() {
			defer func() { _ = recover() }()
			scyllatest.RequireSubmitted(ctx, f, tx, expected)
		}()
		if !strings.Contains(f.text, "no task was submitted with") || expected.Queue == "" && !strings.Contains(f.text, `action "mail", key "k"`) {
			t.Fatalf("%+v: %q", expected, f.text)
		}
	}
	if found, err := scyllatest.Submitted(ctx, pool, scyllatest.Expected{}); err != nil || len(found) > 0 {
		t.Fatal("it is seen before the commit", found, err)
	}
}
