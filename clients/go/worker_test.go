package scylla_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"scylla.example/scylla"
)

// statedError is an error as lib/pq has them.
type statedError string

func (e statedError) Error() string  { return "pq: " + string(e) }
func (statedError) SQLState() string { return "53400" }

type failingDB string

func (db failingDB) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, fmt.Errorf("wrapped: %w", statedError(db))
}

func TestTaskHasWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	tasks := make(chan *scylla.Task[map[string]int64], 1)
	serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{
		"do": scylla.Handle(func(_ context.Context, task *scylla.Task[map[string]int64]) error {
			tasks <- task
			return nil
		}),
	}})
	id := submit(t, queue, map[string]int64{"n": 9007199254740993}, scylla.SubmitOptions{
		Action: "do", Priority: 1<<32 - 1, Key: "k", GroupKey: "g", MaxTries: 7, Meta: map[string]any{"tag": "x"},
	})
	task := <-tasks
	if task.ID != id || task.Queue != queue || task.Action != "do" || task.Spec["n"] != 9007199254740993 ||
		task.Priority != 1<<32-1 || task.Key != "k" || task.GroupKey != "g" || task.Tries != 1 || task.MaxTries != 7 ||
		task.Meta["tag"] != "x" || !task.Created.Equal(entry(t, id).Created) || string(task.TaskInfo.Spec) != `{"n": 9007199254740993}` {
		t.Fatalf("%+v", task)
	}
	if left := time.Until(task.Deadline()); left < 5*time.Second || left > 11*time.Second {
		t.Fatal(left)
	}
}

func TestErrorIsARetryUntilTriesAreExhausted(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	id := submit(t, queue, nil, scylla.SubmitOptions{MaxTries: 2, RetryInterval: -1})
	s := serveOne(t, queue, failing(errors.New("broken")))
	untilStatuses(t, queue, "aborted=1")
	e := entry(t, id)
	codes := ""
	for _, one := range e.Errors {
		codes += one.Code + " "
	}
	equal(t, codes, "error error tries_exhausted ")
	equal(t, e.Tries, 2)
	until(t, "both are counted", func() bool { return s.Stats() == scylla.Stats{Retried: 1, Aborted: 1} })
}

func TestAbortIsFinal(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	id := submit(t, queue, nil, scylla.SubmitOptions{})
	serveOne(t, queue, failing(scylla.Abort("bad", "it is %s", "bad")))
	untilStatuses(t, queue, "aborted=1")
	e := entry(t, id)
	equal(t, fmt.Sprint(e.Tries, e.Errors), "1 [{bad it is bad map[]}]")
}

func TestSnoozeDoesNotCountTheTry(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	id := submit(t, queue, nil, scylla.SubmitOptions{})
	var calls atomic.Int32
	s := serveOne(t, queue, scylla.Handle(func(_ context.Context, task *scylla.Task[any]) error {
		if calls.Add(1) == 1 {
			return scylla.Snooze(700 * time.Millisecond)
		}
		if task.Tries != 1 {
			return scylla.Abort("tries", "%d", task.Tries)
		}
		return nil
	}))
	untilStatuses(t, queue, "waiting=1")
	e := entry(t, id)
	if wait := time.Until(*e.RunAt); e.Tries != 0 || wait < 100*time.Millisecond || wait > 700*time.Millisecond {
		t.Fatal(e.Tries, wait)
	}
	untilStatuses(t, queue, "completed=1")
	until(t, "both are counted", func() bool { return s.Stats() == scylla.Stats{Yielded: 1, Completed: 1} })
}

func TestActionWithoutAHandlerIsLeftAlone(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	id := submit(t, queue, nil, scylla.SubmitOptions{Action: "unknown", Priority: 9})
	submit(t, queue, nil, scylla.SubmitOptions{})
	serveOne(t, queue, scylla.Handle(nothing))
	untilStatuses(t, queue, "completed=1 ready=1")
	equal(t, entry(t, id).Tries, 0)
}

func TestConcurrencyIsReachedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	must(newClient().SubmitMany(t.Context(), queue, make([]any, 200), nil))(t)
	var running, most atomic.Int32
	serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 7, Prefetch: 3, Handlers: scylla.Handlers{
		"": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			time.Sleep(2 * time.Millisecond)
			running.Add(-1)
			return nil
		}),
	}})
	untilStatuses(t, queue, "completed=200")
	equal(t, most.Load(), 7)
}

func TestPrefetchOwnsMoreThanRuns(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	must(newClient().SubmitMany(t.Context(), queue, make([]any, 5), nil))(t)
	goOn := make(chan struct{})
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 1, Prefetch: 3, Handlers: scylla.Handlers{
		"": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
			<-goOn
			return nil
		}),
	}})
	untilStatuses(t, queue, "ready=1 running=4")
	s.Stop()
	untilStatuses(t, queue, "ready=4 running=1")
	close(goOn)
	s.end(t)
	equal(t, statuses(t, queue), "completed=1 ready=4")
	equal(t, s.Stats(), scylla.Stats{Completed: 1, Yielded: 3})
}

func TestSixteenQueuesInOrder(t *testing.T) {
	t.Parallel()
	queues := make([]string, 16)
	for i := range queues {
		queues[i] = newQueue(t)
	}
	for _, queue := range slices.Backward(queues) {
		submit(t, queue, nil, scylla.SubmitOptions{})
	}
	order := make(chan string, 16)
	serve(t, scylla.WorkerConfig{Queues: queues, Concurrency: 1, Handlers: scylla.Handlers{
		"": scylla.Handle(func(_ context.Context, task *scylla.Task[any]) error {
			order <- task.Queue
			return nil
		}),
	}})
	for _, queue := range queues {
		equal(t, <-order, queue)
	}
}

func TestOrderOfPriorityAgeAndGroup(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	run(t, "select scylla.configure_queue($1, max_running_per_group => 1)", queue)
	for i := range 6 {
		submit(t, queue, i, scylla.SubmitOptions{GroupKey: "g"})
	}
	submit(t, queue, 100, scylla.SubmitOptions{Priority: 5, GroupKey: "first"})
	order := make(chan int, 7)
	serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 4, Handlers: scylla.Handlers{
		"": scylla.Handle(func(_ context.Context, task *scylla.Task[int]) error {
			order <- task.Spec
			return nil
		}),
	}})
	var of []int
	for range 7 {
		if n := <-order; n < 100 {
			of = append(of, n)
		}
	}
	equal(t, fmt.Sprint(of), "[0 1 2 3 4 5]")
}

func TestRefusedResultFailsItsOwnTaskAlone(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	results := []any{"fine", strings.Repeat("x", 2<<20), json.RawMessage(`"\u0000"`), "good"}
	var ids []string
	for i := range results {
		ids = append(ids, submit(t, queue, i, scylla.SubmitOptions{MaxTries: 1}))
	}
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{
		"": scylla.HandleResult(func(_ context.Context, task *scylla.Task[int]) (any, error) { return results[task.Spec], nil }),
	}})
	untilStatuses(t, queue, "aborted=2 completed=2")
	equal(t, string(entry(t, ids[0]).Result), `"fine"`)
	for _, id := range ids[1:3] {
		equal(t, entry(t, id).Errors[0].Code, "result_refused")
	}
	until(t, "each is counted", func() bool { return s.Stats() == scylla.Stats{Completed: 2, Aborted: 2} })
}

func TestHandlerThatCallsGoexit(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	id := submit(t, queue, nil, scylla.SubmitOptions{MaxTries: 1})
	serveOne(t, queue, scylla.Handle(func(context.Context, *scylla.Task[any]) error {
		runtime.Goexit()
		return nil
	}))
	untilStatuses(t, queue, "aborted=1")
	equal(t, entry(t, id).Errors[0].Description, "the handler called runtime.Goexit")
}

// Not parallel: it looks at all goroutines.
func TestGoroutinesOfHandlersEndWithTheWorker(t *testing.T) {
	queue := newQueue(t)
	goOn := make(chan struct{})
	s := serveOne(t, queue, scylla.Handle(func(context.Context, *scylla.Task[any]) error {
		<-goOn
		return nil
	}))
	handling := func() int {
		var goroutines strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&goroutines, 2)
		return strings.Count(goroutines.String(), "scylla.(*Worker).handleAll(")
	}
	for range 5 {
		submit(t, queue, nil, scylla.SubmitOptions{})
	}
	until(t, "five handlers run", func() bool { return handling() == 5 })
	close(goOn)
	untilStatuses(t, queue, "completed=5")
	submit(t, queue, nil, scylla.SubmitOptions{})
	untilStatuses(t, queue, "completed=6")
	equal(t, handling(), 5) // the sixth task took one of them
	s.Stop()
	s.end(t)
	until(t, "none is left", func() bool { return handling() == 0 })
}

func TestEachExecModeOfPgx(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			conn, queue := connConfig(t), newQueue(t)
			conn.DefaultQueryExecMode = mode
			id := submit(t, queue, nil, scylla.SubmitOptions{Key: "k", GroupKey: "g", MaxTries: 1})
			s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Lease: time.Second, Handlers: scylla.Handlers{
				"": scylla.HandleResult(func(_ context.Context, task *scylla.Task[any]) (string, error) {
					time.Sleep(1500 * time.Millisecond) // needs a heartbeat
					return task.ID + task.Queue + task.Key + task.GroupKey, nil
				}),
			}})
			untilStatuses(t, queue, "completed=1")
			equal(t, string(entry(t, id).Result), `"`+id+queue+`kg"`)
			until(t, "it is counted", func() bool { return s.Stats() == scylla.Stats{Completed: 1} })
		})
	}
}

func TestTimeLimitOfWorkerAndHandler(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	causes := make(chan error, 2)
	wait := scylla.Handle(func(ctx context.Context, _ *scylla.Task[any]) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	serve(t, scylla.WorkerConfig{Queues: []string{queue}, TimeLimit: 100 * time.Millisecond, Handlers: scylla.Handlers{
		"short": wait, "long": wait.WithTimeLimit(time.Second),
	}})
	short := submit(t, queue, nil, scylla.SubmitOptions{Action: "short", MaxTries: 1})
	long := submit(t, queue, nil, scylla.SubmitOptions{Action: "long", MaxTries: 1})
	for range 2 {
		equal(t, <-causes, scylla.ErrTimeLimit)
	}
	untilStatuses(t, queue, "aborted=2")
	for id, least := range map[string]time.Duration{short: 100 * time.Millisecond, long: time.Second} {
		e := entry(t, id)
		took := e.Updated.Sub(e.History[0].Time)
		if e.Errors[0].Code != "time_limit" || took < least-20*time.Millisecond || took > least+800*time.Millisecond {
			t.Fatal(e.Errors, took)
		}
	}
}

func TestContextHasTheValuesOfRun(t *testing.T) {
	t.Parallel()
	type key struct{}
	queue, found := newQueue(t), make(chan any, 1)
	begun, cancelled := make(chan struct{}), make(chan struct{})
	worker := must(scylla.NewWorker(connConfig(t), &scylla.WorkerConfig{
		Queues: []string{queue}, Logger: quiet, Middleware: []scylla.HandleMiddleware{
			func(next scylla.HandleFunc) scylla.HandleFunc { return next },
		},
		Handlers: scylla.Handlers{"": scylla.Handle(func(ctx context.Context, _ *scylla.Task[any]) error {
			close(begun)
			<-cancelled
			time.Sleep(50 * time.Millisecond)
			if ctx.Err() == nil { // the end of Run's context does not reach it before the grace is over
				found <- ctx.Value(key{})
			}
			return nil
		})},
	}))(t)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	id := submit(t, queue, nil, scylla.SubmitOptions{})
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	<-begun
	cancel()
	close(cancelled)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	equal(t, <-found, any("value"))
	equal(t, entry(t, id).Status, scylla.StatusCompleted)
	if err := worker.Run(t.Context()); err == nil {
		t.Fatal("it runs twice")
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	handlers := scylla.Handlers{"": scylla.Handle(nothing)}
	for _, config := range []scylla.WorkerConfig{
		{Handlers: handlers},
		{Handlers: handlers, Queues: make([]string, 17)},
		{Queues: []string{"q"}},
		{Queues: []string{"q"}, Handlers: scylla.Handlers{"": {}}},
		{Queues: []string{"q"}, Handlers: handlers, Concurrency: -1},
		{Queues: []string{"q"}, Handlers: handlers, Lease: -1},
		{Queues: []string{"q"}, Handlers: handlers, TimeLimit: -1},
		{Queues: []string{"q"}, Handlers: handlers, Wait: -1},
		{Queues: []string{"q"}, Handlers: handlers, CallTimeout: -1},
	} {
		if _, err := scylla.NewWorker(connConfig(t), &config); err == nil {
			t.Errorf("%+v", config)
		}
	}
	if _, err := scylla.NewWorker(connConfig(t), nil); err == nil {
		t.Error("no config")
	}
	if _, err := scylla.NewWorker(nil, &scylla.WorkerConfig{Queues: []string{"q"}, Handlers: handlers}); err == nil {
		t.Error("no connection")
	}
}

func TestTwoWorkersInOneProcess(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counts := map[string]int{}
	queue := newQueue(t)
	counting := func(name string) scylla.Handler {
		return scylla.Handle(func(context.Context, *scylla.Task[any]) error {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			counts[name]++
			return nil
		})
	}
	first, second := serveOne(t, queue, counting("a")), serveOne(t, queue, counting("b"))
	until(t, "both wait", func() bool {
		return value[int](t, "select count(*)::int from pg_stat_activity where query like 'call scylla.wait_for_event%' and "+
			"(application_name like $1 or application_name like $2)", "%"+first.Name(), "%"+second.Name()) == 2
	})
	must(newClient().SubmitMany(t.Context(), queue, make([]any, 200), nil))(t)
	untilStatuses(t, queue, "completed=200")
	first.Stop()
	first.end(t)
	submit(t, queue, nil, scylla.SubmitOptions{})
	untilStatuses(t, queue, "completed=201")
	mu.Lock()
	defer mu.Unlock()
	if counts["a"] == 0 || counts["b"] == 0 || counts["a"]+counts["b"] != 201 {
		t.Fatal(counts)
	}
}
