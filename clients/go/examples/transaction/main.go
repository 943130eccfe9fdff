// An order and the task that ships it: both, or neither. First with pgx, then with database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"scylla.example/scylla"
)

type ship struct {
	Order int `json:"order"`
}

var shipping = scylla.Action[ship]{Queue: "shop", Name: "ship"}

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
	db, err := sql.Open("pgx", "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := pool.Exec(ctx, "create table if not exists orders (id int primary key)"); err != nil {
		return err
	}
	client := scylla.NewClient(pool, nil)

	orderByPgx := func(order int) (id string, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "insert into orders values ($1)", order); err != nil {
				return err
			}
			id, err = shipping.Submit(ctx, client.With(tx), ship{order}, &scylla.SubmitOptions{
				Key: fmt.Sprint("order-", order),
			})
			return err
		})
		return id, err
	}
	orderBySQL := func(order int) (string, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		defer tx.Rollback()
		id, err := shipping.Submit(ctx, client.WithSQL(tx), ship{order}, &scylla.SubmitOptions{
			Key: fmt.Sprint("order-", order),
		})
		if err != nil {
			return "", err
		}
		if _, err := tx.ExecContext(ctx, "insert into orders values ($1)", order); err != nil {
			return "", err
		}
		return id, tx.Commit()
	}

	first, err := orderByPgx(1)
	if err != nil {
		return err
	}
	second, err := orderBySQL(2)
	if err != nil {
		return err
	}
	for _, id := range []string{first, second} {
		task, err := client.Task(ctx, id)
		if err != nil {
			return err
		}
		fmt.Println(string(task.Spec), task.Status)
	}
	// The order is gone, its task is not: the key is taken.
	if _, err := pool.Exec(ctx, "delete from orders where id = 1"); err != nil {
		return err
	}
	_, err = orderByPgx(1)
	fmt.Println("duplicate:", errors.Is(err, scylla.ErrDuplicate))
	// The task is gone, the order is not: there is no task for the order that failed.
	if _, err := client.Delete(ctx, []string{first, second}); err != nil {
		return err
	}
	_, err = orderBySQL(2)
	fmt.Println("failed:", err != nil)
	id, err := client.TaskID(ctx, "shop", "order-2")
	fmt.Printf("task: %q\n", id)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "drop table orders")
	return err
}
