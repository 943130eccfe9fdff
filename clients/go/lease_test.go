package scylla_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"scylla.example/scylla"
)

type heard struct {
	cause error
	when  time.Time
}

// sleeping handlers sleep for the milliseconds of their spec, and tell why they were stopped.
func sleeping() (scylla.Handler, chan heard) {
	stopped := make(chan heard, 100)
	return scylla.Handle(func(ctx context.Context, task *scylla.Task[int]) error {
		select {
		case <-time.After(time.Duration(task.Spec) * time.Millisecond):
			return nil
		case <-ctx.Done():
			stopped <- heard{context.Cause(ctx), time.Now()}
			return ctx.Err()
		}
	}), stopped
}

func receive[T any](t *testing.T, channel <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-channel:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	return value
}

func assignments(e *scylla.Entry) (workers []string) {
	for _, event := range e.History {
		if event.Type == "TaskAssignment" {
			workers = append(workers, event.Worker)
		}
	}
	return workers
}

func TestTaskOfThreeLeasesIsKept(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	handler := scylla.Handle(func(ctx context.Context, task *scylla.Task[int]) error {
		task.SetProgress(0.25)
		select {
		case <-time.After(time.Duration(task.Spec) * time.Millisecond):
			return nil
		case <-ctx.Done():
			return scylla.Abort("stopped", "%v", context.Cause(ctx))
		}
	})
	id := submit(t, queue, 3_200, scylla.SubmitOptions{})
	config := scylla.WorkerConfig{Queues: []string{queue}, Lease: time.Second, Handlers: scylla.Handlers{"": handler}}
	serve(t, config)
	serve(t, config) // it would take the task at once
	until(t, "progress is seen", func() bool { return entry(t, id).Progress == 0.25 })
	untilStatuses(t, queue, "completed=1")
	equal(t, len(entry(t, id).History), 1)
}

func TestEachLeaseHasItsOwnLength(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	short := submit(t, queue, 2_000, scylla.SubmitOptions{Lease: 600 * time.Millisecond})
	long := submit(t, queue, 2_000, scylla.SubmitOptions{Lease: time.Minute})
	endless := submit(t, queue, 2_000, scylla.SubmitOptions{Lease: 100 * 365 * 24 * time.Hour})
	handler, _ := sleeping()
	serveOne(t, queue, handler)
	serveOne(t, queue, handler)
	untilStatuses(t, queue, "completed=3")
	for _, id := range []string{short, long, endless} {
		equal(t, entry(t, id).Tries, 1)
	}
}

func TestCancelIsHeardWithin200Milliseconds(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("full=%t/deleted=%t", full, deleted), func(t *testing.T) {
				queue := newQueue(t)
				handler, stopped := sleeping()
				concurrency := 5
				if full {
					concurrency = 1
				}
				s := serve(t, scylla.WorkerConfig{
					Queues: []string{queue}, Concurrency: concurrency, Handlers: scylla.Handlers{"": handler},
				})
				id := submit(t, queue, 60_000, scylla.SubmitOptions{})
				untilStatuses(t, queue, "running=1")
				if full {
					time.Sleep(200 * time.Millisecond) // it waits for signals only
				}
				before := time.Now()
				if deleted {
					equal(t, must(newClient().Delete(t.Context(), []string{id}))(t), 1)
				} else {
					equal(t, must(newClient().Cancel(t.Context(), id))(t), true)
				}
				h := receive(t, stopped)
				equal(t, h.cause, scylla.ErrCancelled)
				if took := h.when.Sub(before); took > 200*time.Millisecond {
					t.Fatal(took)
				}
				until(t, "it is counted", func() bool { return s.Stats() == scylla.Stats{Cancelled: 1} })
				if !deleted {
					equal(t, statuses(t, queue), "cancelled=1")
				}
				submit(t, queue, 1, scylla.SubmitOptions{})
				until(t, "it works on", func() bool { return s.Stats().Completed == 1 })
			})
		}
	}
}

func TestResultAfterACancelIsDropped(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	s := serveOne(t, queue, scylla.HandleResult(func(ctx context.Context, _ *scylla.Task[any]) (string, error) {
		<-ctx.Done()
		return "too late", nil
	}))
	id := submit(t, queue, nil, scylla.SubmitOptions{})
	untilStatuses(t, queue, "running=1")
	must(newClient().Cancel(t.Context(), id))(t)
	until(t, "it is counted", func() bool { return s.Stats() == scylla.Stats{Cancelled: 1} })
	if result := entry(t, id).Result; result != nil && string(result) != "null" {
		t.Fatal(string(result))
	}
}

func TestLeaseThatAnotherWorkerHas(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	goOn, causes := make(chan struct{}), make(chan error, 1)
	// it keeps its only place, so that it does not own the task again
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 1, Handlers: scylla.Handlers{
		"": scylla.Handle(func(ctx context.Context, _ *scylla.Task[any]) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			<-goOn
			return nil
		}),
	}})
	submit(t, queue, nil, scylla.SubmitOptions{})
	untilStatuses(t, queue, "running=1")
	run(t, "select scylla.release_worker($1)", s.Name())
	equal(t, value[int](t, "select count(*)::int from scylla.own_tasks('another', $1)", queue), 1)
	equal(t, receive(t, causes), scylla.ErrLeaseLost)
	close(goOn)
	until(t, "it is counted", func() bool { return s.Stats() == scylla.Stats{Lost: 1} })
}

func TestFrozenProcessLosesItsLease(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	spec := map[string]float64{"seconds": 1.5}
	ids := []string{
		submit(t, queue, spec, scylla.SubmitOptions{Action: "sleep"}),
		submit(t, queue, spec, scylla.SubmitOptions{Action: "ignore"}),
	}
	first := start(t, queue, "LEASE=1", "CONCURRENCY=2")
	first.untilSaid(t, "begin", 2)
	first.signal(t, syscall.SIGSTOP)
	second := start(t, queue, "LEASE=1", "CONCURRENCY=2")
	second.untilSaid(t, "begin", 2)
	first.signal(t, syscall.SIGCONT)
	untilStatuses(t, queue, "completed=2")
	first.untilSaid(t, "lease was lost", 1)
	for _, id := range ids {
		workers := assignments(entry(t, id))
		if len(workers) != 2 || !strings.Contains(workers[1], fmt.Sprintf(":%d:", second.cmd.Process.Pid)) {
			t.Fatal(workers)
		}
	}
	first.signal(t, syscall.SIGTERM)
	equal(t, first.end(t), fmt.Sprintf("exit %+v", scylla.Stats{Lost: 2}))
}

func TestFenceIsBeforeTheLeasesEnd(t *testing.T) {
	queue := newQueue(t)
	handler, stopped := sleeping()
	submit(t, queue, 60_000, scylla.SubmitOptions{})
	s := serve(t, scylla.WorkerConfig{
		Queues: []string{queue}, Lease: 1500 * time.Millisecond, CallTimeout: time.Second,
		Handlers: scylla.Handlers{"": handler},
	})
	untilStatuses(t, queue, "running=1")
	thaw := freeze(t)
	frozen := time.Now()
	h := receive(t, stopped)
	thaw()
	equal(t, h.cause, scylla.ErrLeaseLost)
	// between half a lease, since the last heartbeat was up to a third ago, and 0.9 of it
	if took := h.when.Sub(frozen); took < 600*time.Millisecond || took > 1450*time.Millisecond {
		t.Fatal(took)
	}
	until(t, "it works on", func() bool { return statuses(t, queue) == "running=1" && s.Stats().Lost == 1 })
}
