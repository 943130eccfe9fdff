package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"scylla.example/scylla"
)

// args is what a task is given: when it was submitted, in nanoseconds, or 0.
type args struct {
	At int64 `json:"at"`
}

func (args) Kind() string { return "bench" }

func executed(ctx context.Context, pool *pgxpool.Pool, sql string) error {
	_, err := pool.Exec(ctx, sql)
	return err
}

type ours struct {
	pool     *pgxpool.Pool
	client   *scylla.Client
	prefetch int
}

func newScylla(pool *pgxpool.Pool, prefetch int) *ours {
	return &ours{pool, scylla.NewClient(pool, nil), prefetch}
}

func (s *ours) left() string { return "select count(*) from scylla.task" }

func (s *ours) remove(ctx context.Context) error {
	return executed(ctx, s.pool, "drop extension if exists scylla cascade")
}

func (s *ours) install(ctx context.Context) error {
	return executed(ctx, s.pool, "create extension scylla")
}

func (s *ours) fill(ctx context.Context, count int) error {
	specs := make([]any, count)
	for at := range specs {
		specs[at] = args{}
	}
	_, err := s.client.SubmitMany(ctx, "bench", specs, &scylla.SubmitManyOptions{Action: "bench"})
	return err
}

func (s *ours) submit(ctx context.Context, at time.Time) error {
	_, err := s.client.Submit(ctx, "bench", args{at.UnixNano()}, &scylla.SubmitOptions{Action: "bench"})
	return err
}

func (s *ours) work(ctx context.Context, concurrency int, handle func(time.Time)) (func() error, error) {
	conn, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	worker, err := scylla.NewWorker(conn, &scylla.WorkerConfig{
		Queues:      []string{"bench"},
		Concurrency: concurrency,
		Prefetch:    s.prefetch,
		Handlers: scylla.Handlers{"bench": scylla.Handle(func(_ context.Context, task *scylla.Task[args]) error {
			handle(time.Unix(0, task.Spec.At))
			return nil
		})},
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() error { worker.Stop(); return <-ended }, nil
}

type theirs struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func newRiver(pool *pgxpool.Pool) *theirs { return &theirs{pool: pool} }

func (s *theirs) left() string {
	return "select count(*) from river.river_job where state not in ('completed', 'discarded', 'cancelled')"
}

func (s *theirs) remove(ctx context.Context) error {
	return executed(ctx, s.pool, "drop schema if exists river cascade")
}

func (s *theirs) install(ctx context.Context) error {
	if err := executed(ctx, s.pool, "create schema river"); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

type riverWorker struct {
	river.WorkerDefaults[args]
	handle func(time.Time)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[args]) error {
	w.handle(time.Unix(0, job.Args.At))
	return nil
}

// open makes a client, which works if it has queues.
func (s *theirs) open(queues map[string]river.QueueConfig, handle func(time.Time)) error {
	if s.client != nil {
		return nil
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		// as its own benchmark has them: by default it fetches ten times a second
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            slog.New(slog.DiscardHandler),
		Queues:            queues,
		Workers:           workers,
	})
	s.client = client
	return err
}

func (s *theirs) fill(ctx context.Context, count int) error {
	if err := s.open(nil, nil); err != nil {
		return err
	}
	many := make([]river.InsertManyParams, count)
	for at := range many {
		many[at].Args = args{}
	}
	_, err := s.client.InsertManyFast(ctx, many)
	return err
}

func (s *theirs) submit(ctx context.Context, at time.Time) error {
	_, err := s.client.Insert(ctx, args{at.UnixNano()}, nil)
	return err
}

func (s *theirs) work(ctx context.Context, concurrency int, handle func(time.Time)) (func() error, error) {
	if err := s.open(map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}}, handle); err != nil {
		return nil, err
	}
	if err := s.client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return s.client.Stop(ctx) }, nil
}
