package scylla_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"scylla.example/scylla"
)

// BenchmarkOverhead has a worker whose handler does nothing beside bare pgx that makes the same calls: own and
// return in one statement, all columns of a task, singly, by 32 on one connection, by 100 on three. Both
// decode the specs.
//
//	./test -run '^$' -bench Overhead -benchtime 100000x
func BenchmarkOverhead(b *testing.B) {
	for _, one := range []struct{ concurrency, each, connections int }{{1, 1, 1}, {32, 32, 1}, {300, 100, 3}} {
		measure := func(name string, work func(b *testing.B, queue string)) {
			b.Run(fmt.Sprintf("%s/%d", name, one.concurrency), func(b *testing.B) {
				queue := rand.Text()
				if _, err := newClient().SubmitMany(b.Context(), queue, make([]any, b.N), nil); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				work(b, queue)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
		measure("bare", func(b *testing.B, queue string) {
			var group sync.WaitGroup
			for range one.connections {
				group.Go(func() {
					if err := bare(b.Context(), queue, one.each); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
		})
		measure("worker", func(b *testing.B, queue string) {
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var ran atomic.Int64
			conn, err := pgx.ParseConfig("")
			if err != nil {
				b.Fatal(err)
			}
			worker, err := scylla.NewWorker(conn, &scylla.WorkerConfig{
				Queues: []string{queue}, Concurrency: one.concurrency, Logger: slog.New(slog.DiscardHandler),
				Handlers: scylla.Handlers{"": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
					if ran.Add(1) == int64(b.N) {
						stop()
					}
					return nil
				})},
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := worker.Run(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// bare works until the queue is empty.
func bare(ctx context.Context, queue string, each int) error {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var ids, tokens []pgtype.UUID
	var outcomes []string
	var spec []byte
	for {
		rows, err := conn.Query(ctx, "select o.* from scylla.return_many($1, $2, $3) r "+
			"left join lateral scylla.own_tasks('bare', $4, $5, '{\"\"}') o on true", ids, tokens, outcomes, queue, each)
		if err != nil {
			return err
		}
		ids, tokens, outcomes = nil, nil, nil
		for rows.Next() {
			var id, token pgtype.UUID
			// id, token and spec: what the driver need not scan of a task, it does not
			if err := rows.Scan(&id, &token, nil, &spec, nil, nil, nil, nil, nil, nil, nil, nil, nil); err != nil {
				return err
			}
			if id.Valid {
				var value any
				if err := json.Unmarshal(spec, &value); err != nil {
					return err
				}
				ids, tokens, outcomes = append(ids, id), append(tokens, token), append(outcomes, "completed")
			}
		}
		if rows.Err() != nil || ids == nil {
			return rows.Err()
		}
	}
}
