// Tasks through a worker of Go: ours, or River's. Usage:
//
//	main SYSTEM install                            makes its schema, in place of the one that is there
//	main SYSTEM fill TASKS                         adds tasks until there are so many
//	main SYSTEM work CONCURRENCY SECONDS           a handler that does nothing
//	main SYSTEM latency CONCURRENCY RATE SECONDS   submits singly at a rate: from the call to the handler,
//	                                               without the first `warm` seconds
//	main SYSTEM remove                             drops its schema
//
// The connection comes from PGHOST and so on. Prints JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A system is a queue with its own worker.
type system interface {
	remove(ctx context.Context) error
	install(ctx context.Context) error
	fill(ctx context.Context, count int) error
	submit(ctx context.Context, at time.Time) error
	// work starts the worker, and returns what stops it. The handler is given when the task was submitted.
	work(ctx context.Context, concurrency int, handle func(at time.Time)) (stop func() error, err error)
	left() string // SQL: the tasks that are not done
}

const (
	sessions = 20               // that submit at once
	warm     = 2                // seconds, in which pools connect
	later    = 30 * time.Second // for what was submitted to be handled
)

type result map[string]float64

func main() {
	if len(os.Args) < 3 {
		log.Fatal("main SYSTEM COMMAND [NUMBER…]")
	}
	name, command := os.Args[1], os.Args[2]
	numbers := make([]int, 3)
	for at, word := range os.Args[3:] {
		number, err := strconv.Atoi(word)
		if err != nil {
			log.Fatal(err)
		}
		numbers[at] = number
	}
	found, err := run(context.Background(), name, command, numbers)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name, command string, numbers []int) (result, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.MaxConns = sessions
	config.ConnConfig.RuntimeParams["search_path"] = "river, public"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var chosen system
	switch name {
	case "scylla":
		chosen = newScylla(pool, 0)
	case "scylla-prefetch":
		chosen = newScylla(pool, 1500)
	case "river":
		chosen = newRiver(pool)
	default:
		return nil, fmt.Errorf("there is no system %s", name)
	}
	switch command {
	case "install":
		if err := chosen.remove(ctx); err != nil {
			return nil, err
		}
		return result{}, chosen.install(ctx)
	case "remove":
		return result{}, chosen.remove(ctx)
	case "fill":
		return fill(ctx, pool, chosen, numbers[0])
	case "work":
		return work(ctx, pool, chosen, numbers[0], time.Duration(numbers[1])*time.Second)
	case "latency":
		return latency(ctx, chosen, numbers[0], numbers[1], numbers[2])
	}
	return nil, fmt.Errorf("there is no command %s", command)
}

func left(ctx context.Context, pool *pgxpool.Pool, s system) (int, error) {
	var count int
	return count, pool.QueryRow(ctx, s.left()).Scan(&count)
}

func fill(ctx context.Context, pool *pgxpool.Pool, s system, tasks int) (result, error) {
	const batch = 1000
	count, err := left(ctx, pool, s)
	for missing := tasks - count; missing > 0 && err == nil; missing -= batch {
		err = s.fill(ctx, batch)
	}
	if err != nil {
		return nil, err
	}
	count, err = left(ctx, pool, s)
	return result{"left": float64(count)}, err
}

func work(ctx context.Context, pool *pgxpool.Pool, s system, concurrency int, length time.Duration) (result, error) {
	var handled atomic.Int64
	stop, err := s.work(ctx, concurrency, func(time.Time) { handled.Add(1) })
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); handled.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > later {
			return nil, errors.New("no task was handled")
		}
	}
	begun, before := time.Now(), handled.Load()
	time.Sleep(length)
	rate := float64(handled.Load()-before) / time.Since(begun).Seconds()
	if err := stop(); err != nil {
		return nil, err
	}
	count, err := left(ctx, pool, s)
	return result{"rate": rate, "handled": float64(handled.Load()), "left": float64(count)}, err
}

func latency(ctx context.Context, s system, concurrency, rate, seconds int) (result, error) {
	var (
		begun      = time.Now().Add(time.Second)
		counted    = begun.Add(warm * time.Second)
		number     = rate * (warm + seconds)
		handled    atomic.Int64
		lock       sync.Mutex
		found      []float64
		submitting sync.WaitGroup
		failed     atomic.Pointer[error]
	)
	stop, err := s.work(ctx, concurrency, func(at time.Time) {
		took := float64(time.Since(at).Microseconds()) / 1000
		handled.Add(1)
		if at.Before(counted) {
			return
		}
		lock.Lock()
		defer lock.Unlock()
		found = append(found, took)
	})
	if err != nil {
		return nil, err
	}
	for n := range number {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		at := time.Now()
		submitting.Go(func() {
			if err := s.submit(ctx, at); err != nil {
				failed.Store(&err)
			}
		})
	}
	submitting.Wait()
	if reason := failed.Load(); reason != nil {
		return nil, *reason
	}
	for until := time.Now().Add(later); handled.Load() < int64(number) && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := stop(); err != nil {
		return nil, err
	}
	slices.Sort(found)
	if len(found) == 0 {
		return nil, errors.New("no task was handled")
	}
	return result{
		"submitted": float64(number), "handled": float64(handled.Load()),
		"p50": found[len(found)/2], "p99": found[len(found)*99/100],
	}, nil
}
