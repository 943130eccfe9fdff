// A worker and a client in one program. The connection comes from PGHOST, PGUSER, PGDATABASE and so on.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"scylla.example/scylla"
)

type welcome struct {
	To string `json:"to"`
}

type sent struct {
	Sent bool `json:"sent"`
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, "")
	if err != nil {
		return err
	}
	defer pool.Close()

	worker, err := scylla.NewWorker(pool.Config().ConnConfig, &scylla.WorkerConfig{
		Queues: []string{"mail"},
		Handlers: scylla.Handlers{
			"welcome": scylla.HandleResult(func(_ context.Context, task *scylla.Task[welcome]) (sent, error) {
				if task.Spec.To == "" {
					return sent{}, scylla.Abort("no_address", "there is no address")
				}
				fmt.Println("welcome,", task.Spec.To)
				return sent{Sent: true}, nil
			}),
		},
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.RunUntilSignal(ctx) }()

	client := scylla.NewClient(pool, nil)
	options := &scylla.SubmitOptions{Action: "welcome", PostResult: true}
	id, err := client.Submit(ctx, "mail", welcome{To: "ann@example.com"}, options)
	if err != nil {
		return err
	}
	var result sent
	if err := client.Result(ctx, id, &result); err != nil {
		return err
	}
	fmt.Println("sent:", result.Sent)

	if id, err = client.Submit(ctx, "mail", welcome{}, options); err != nil {
		return err
	}
	fmt.Println(client.Result(ctx, id, nil) != nil)

	worker.Stop()
	return <-ended
}
