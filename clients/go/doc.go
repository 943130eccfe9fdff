// Package scylla submits and runs tasks of scylla, the task scheduler inside PostgreSQL.
//
// A [Client] submits tasks, also in the caller's own transaction of pgx or database/sql. A [Worker]
// owns tasks and runs their handlers:
//
//	worker, err := scylla.NewWorker(conn, &scylla.WorkerConfig{
//		Queues: []string{"mail"},
//		Handlers: scylla.Handlers{
//			"welcome": scylla.Handle(func(ctx context.Context, task *scylla.Task[Welcome]) error {
//				return send(ctx, task.Spec.To)
//			}),
//		},
//	})
//	...
//	err = worker.RunUntilSignal(ctx)
//
// A worker keeps long tasks, hears a cancel within 200 ms, survives restarts of the server, and stops
// without losing or counting a try.
package scylla

// Version is the version of this package.
const Version = "0.1.0"
