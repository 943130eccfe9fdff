package scylla

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// WorkerConfig configures a [Worker]. Queues and Handlers are required; the zero value of each other field
// is its default.
type WorkerConfig struct {
	// Queues are the 1 to 16 queues to serve. The first ones come first.
	Queues []string
	// Handlers are the handlers by action, in each of the queues.
	Handlers Handlers
	// Name is what the server's views show; by default host, process and four random digits.
	Name string
	// Concurrency is how many handlers run at once; 10 by default.
	Concurrency int
	// Prefetch is how many tasks the worker owns beyond those that run, for very short tasks.
	Prefetch int
	// Lease is how long a lease lasts without a heartbeat; by default as the task or its queue says.
	Lease time.Duration
	// Grace is what handlers have to end when the worker stops; 25 s by default, negative: nothing.
	Grace time.Duration
	// TimeLimit is the time limit of each handler that has none of its own; no limit by default.
	TimeLimit time.Duration
	// Coalesce is how long a result waits for others while handlers run; 5 ms by default, negative: not.
	Coalesce time.Duration
	// Wait is how long one statement waits for work; 30 s by default.
	Wait time.Duration
	// CallTimeout is after what time a call without an answer counts as lost; 15 s by default.
	CallTimeout time.Duration
	// Middleware goes around each handler, the first one outermost.
	Middleware []HandleMiddleware
	// BeforeConnect may change the configuration of a connection before it is made, for passwords that
	// change.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error
	// Logger hears what an administrator should know; slog.Default() by default.
	Logger *slog.Logger
}

// Stats counts what a worker has done with its tasks.
type Stats struct {
	Completed, Aborted, Retried, Yielded int64
	// Cancelled counts handlers that were stopped since their task was cancelled or deleted.
	Cancelled int64
	// Lost counts results that were dropped since the lease was lost.
	Lost int64
}

// NewWorker makes a worker that connects as conn says. pgx.ParseConfig makes one of a connection string; a
// pool has one in Config().ConnConfig. The worker has connections of its own: one that waits, and at most
// min(4, Concurrency) for short calls.
func NewWorker(conn *pgx.ConnConfig, config *WorkerConfig) (*Worker, error) {
	if conn == nil || config == nil {
		return nil, errors.New("scylla: a worker needs a connection and a config")
	}
	c := *config
	c.Queues = slices.Clone(c.Queues)
	if len(c.Queues) < 1 || len(c.Queues) > 16 {
		return nil, fmt.Errorf("scylla: a worker serves 1 to 16 queues, not %d", len(c.Queues))
	}
	if len(c.Handlers) == 0 {
		return nil, errors.New("scylla: a worker needs a handler")
	}
	if c.Concurrency < 0 || c.Prefetch < 0 {
		return nil, errors.New("scylla: Concurrency and Prefetch are not negative")
	}
	if c.Lease < 0 || c.TimeLimit < 0 || c.Wait < 0 || c.CallTimeout < 0 {
		return nil, errors.New("scylla: Lease, TimeLimit, Wait and CallTimeout are not negative")
	}
	handlers, actions := make(Handlers, len(c.Handlers)), make([]string, 0, len(c.Handlers))
	for action, handler := range c.Handlers {
		if handler.handle == nil {
			return nil, fmt.Errorf("scylla: the handler of action %q is empty", action)
		}
		if handler.limit == 0 {
			handler.limit = c.TimeLimit
		}
		handlers[action] = handler
		actions = append(actions, action)
	}
	slices.Sort(actions)
	c.Handlers = handlers
	c.Concurrency = defaulted(c.Concurrency, 10)
	c.Grace = max(0, defaulted(c.Grace, 25*time.Second))
	c.Coalesce = max(0, defaulted(c.Coalesce, 5*time.Millisecond))
	c.Wait = defaulted(c.Wait, 30*time.Second)
	c.CallTimeout = defaulted(c.CallTimeout, 15*time.Second)
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%.80s:%d:%04x", host, os.Getpid(), rand.IntN(1<<16))
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	own := conn.Copy()
	own.RuntimeParams["application_name"] = fmt.Sprintf("scylla-pg go/%s %s", Version, c.Name)
	size := min(4, c.Concurrency)
	return &Worker{
		config: c,
		log:    c.Logger.With("worker", c.Name),
		link: &link{
			config: own, before: c.BeforeConnect, timeout: c.CallTimeout, places: make(chan struct{}, size),
		},
		sql:          makeStatements(&c, actions),
		queues:       textArray(c.Queues, false),
		actions:      textArray(actions, false),
		maxExchanges: max(1, size-1), // one place is the heartbeat's
		runs:         map[*run]bool{},
		beatNow:      make(chan struct{}, 1),
		wanting:      make(chan struct{}, 1),
		changed:      make(chan struct{}, 1),
		next:         make(chan *run),
		draining:     make(chan struct{}),
		atOnce:       make(chan struct{}),
		failed:       make(chan error, 1),
	}, nil
}

func defaulted[V comparable](value, otherwise V) V {
	var zero V
	if value == zero {
		return otherwise
	}
	return value
}
