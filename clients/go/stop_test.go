package scylla_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"scylla.example/scylla"
)

func exit(stats scylla.Stats) string { return fmt.Sprintf("exit %+v", stats) }

func slept(seconds float64) map[string]float64 { return map[string]float64{"seconds": seconds} }

func TestSignalLetsHandlersEnd(t *testing.T) {
	t.Parallel()
	for _, number := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(number.String(), func(t *testing.T) {
			queue := newQueue(t)
			worker := start(t, queue, "CONCURRENCY=2")
			submit(t, queue, slept(0.6), scylla.SubmitOptions{Action: "sleep"})
			submit(t, queue, slept(0.6), scylla.SubmitOptions{Action: "ignore"})
			worker.untilSaid(t, "begin", 2)
			later := submit(t, queue, slept(0), scylla.SubmitOptions{Action: "sleep"})
			worker.signal(t, number)
			equal(t, worker.end(t), exit(scylla.Stats{Completed: 2}))
			e := entry(t, later)
			equal(t, fmt.Sprintf("%s %d %d", e.Status, e.Tries, len(e.History)), "ready 0 0")
		})
	}
}

func TestDrainWorker(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full=", full), func(t *testing.T) {
			queue := newQueue(t)
			worker := start(t, queue, "CONCURRENCY=1")
			id := submit(t, queue, slept(0.5), scylla.SubmitOptions{Action: "sleep"})
			worker.untilSaid(t, "begin", 1)
			name := *entry(t, id).Owner
			if !full {
				untilStatuses(t, queue, "completed=1")
			}
			equal(t, must(newClient().DrainWorker(t.Context(), name))(t), true)
			equal(t, worker.end(t), exit(scylla.Stats{Completed: 1}))
		})
	}
}

func TestGraceOver(t *testing.T) {
	t.Parallel()
	for action, most := range map[string]time.Duration{"sleep": 2500 * time.Millisecond, "ignore": 5500 * time.Millisecond} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(t)
			worker := start(t, queue, "GRACE=0.5")
			id := submit(t, queue, slept(60), scylla.SubmitOptions{Action: action})
			worker.untilSaid(t, "begin", 1)
			begun := time.Now()
			worker.signal(t, syscall.SIGTERM)
			equal(t, worker.end(t), exit(scylla.Stats{Yielded: 1}))
			if took := time.Since(begun); took < 500*time.Millisecond || took > most {
				t.Fatal(took)
			}
			equal(t, worker.said(scylla.ErrShutdown.Error()), 1)
			e := entry(t, id)
			if e.Status != scylla.StatusReady || e.Tries != 0 || e.Owner != nil {
				t.Fatalf("%+v", e)
			}
		})
	}
}

func TestSecondSignalHandsBackAtOnce(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	worker := start(t, queue)
	ids := []string{
		submit(t, queue, slept(60), scylla.SubmitOptions{Action: "sleep"}),
		submit(t, queue, slept(60), scylla.SubmitOptions{Action: "ignore"}),
	}
	worker.untilSaid(t, "begin", 2)
	worker.signal(t, syscall.SIGTERM)
	worker.untilSaid(t, "worker stops", 1)
	begun := time.Now()
	worker.signal(t, syscall.SIGTERM)
	equal(t, worker.end(t), exit(scylla.Stats{Yielded: 2}))
	if took := time.Since(begun); took > 2*time.Second {
		t.Fatal(took)
	}
	for _, id := range ids {
		e := entry(t, id)
		if e.Status != scylla.StatusReady || e.Tries != 0 {
			t.Fatalf("%+v", e)
		}
	}
}

func TestKill9(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	first := start(t, queue, "LEASE=1")
	id := submit(t, queue, slept(1.5), scylla.SubmitOptions{Action: "sleep"})
	first.untilSaid(t, "begin", 1)
	first.signal(t, syscall.SIGKILL)
	second := start(t, queue, "LEASE=1")
	untilStatuses(t, queue, "completed=1")
	equal(t, second.said("begin "+id+" 2"), 1)
	equal(t, len(assignments(entry(t, id))), 2)
}

func TestStopBeforeTheServerIsReached(t *testing.T) {
	t.Parallel()
	conn := connConfig(t)
	conn.Port = 1
	s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{"q"}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	time.Sleep(300 * time.Millisecond)
	begun := time.Now()
	s.Stop()
	s.end(t)
	if took := time.Since(begun); took > 3*time.Second {
		t.Fatal(took)
	}
}

func TestWorkersOfSeveralDatabasesRunAsOne(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	second := "second_" + strings.ReplaceAll(queue, "-", "_")
	if err := createDatabase(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	other := connConfig(t)
	other.Database = second
	ran := make(chan string, 2)
	workers := func() (made []*scylla.Worker) {
		for _, conn := range []*pgx.ConnConfig{connConfig(t), other} {
			made = append(made, must(scylla.NewWorker(conn, &scylla.WorkerConfig{Queues: []string{queue}, Name: "worker of " + queue,
				Handlers: scylla.Handlers{"": scylla.Handle(func(_ context.Context, task *scylla.Task[string]) error {
					ran <- task.Spec
					return nil
				})}}))(t))
		}
		return made
	}
	ended := make(chan error, 1)
	go func() { ended <- scylla.RunAll(t.Context(), workers()...) }()
	conn := must(pgx.ConnectConfig(t.Context(), other))(t)
	defer conn.Close(context.Background())
	submit(t, queue, "first", scylla.SubmitOptions{})
	client := scylla.NewClient(conn, nil)
	must(client.Submit(t.Context(), queue, "second", nil))(t)
	found := []string{<-ran, <-ran}
	slices.Sort(found)
	equal(t, fmt.Sprint(found), "[first second]")
	equal(t, must(client.DrainWorker(t.Context(), "worker of "+queue))(t), true)
	equal(t, <-ended, nil)
	// where it can do nothing, the others stop
	must(conn.Exec(t.Context(), "drop extension scylla"))(t)
	if err := scylla.RunAll(t.Context(), workers()...); !errors.Is(err, scylla.ErrIncompatible) {
		t.Fatal(err)
	}
}
