package scylla

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// goneError: the connection was lost. Whether the server has carried out the call is unknown.
type goneError struct{ err error }

func (e *goneError) Error() string { return e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// link opens a worker's connections, and runs short calls on a few of them. Each call has a time-out: pgx
// closes a connection whose context ends, which is what should happen to one that does not answer.
type link struct {
	config  *pgx.ConnConfig
	before  func(context.Context, *pgx.ConnConfig) error
	timeout time.Duration
	places  chan struct{}
	// unnamed: a pooler does not know prepared statements, so none is used any more.
	unnamed atomic.Bool

	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
}

// open makes a new connection, which the pool does not have.
func (l *link) open(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	config := l.config.Copy()
	if l.before != nil {
		if err := l.before(ctx, config); err != nil {
			return nil, &goneError{err}
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, &goneError{err}
	}
	return conn, nil
}

// query runs one statement. After a goneError the connection is closed.
func (l *link) query(ctx context.Context, conn *pgx.Conn, timeout time.Duration, sql string, args []any, row func(pgx.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mode := l.config.DefaultQueryExecMode
	if mode == pgx.QueryExecModeCacheStatement && l.unnamed.Load() {
		mode = pgx.QueryExecModeExec
	}
	err := collect(ctx, conn, sql, append([]any{mode}, args...), row)
	state := sqlState(err)
	if (state == "26000" || state == "42P05") && mode == pgx.QueryExecModeCacheStatement {
		l.unnamed.Store(true)
		err = collect(ctx, conn, sql, append([]any{pgx.QueryExecModeExec}, args...), row)
		state = sqlState(err)
	}
	if err != nil && (conn.IsClosed() || isGone(state)) {
		closeConn(conn)
		return &goneError{err}
	}
	return err
}

func collect(ctx context.Context, conn *pgx.Conn, sql string, args []any, row func(pgx.Rows) error) error {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// run runs one statement on a connection of the pool.
func (l *link) run(ctx context.Context, timeout time.Duration, sql string, args []any, row func(pgx.Rows) error) error {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return &goneError{ctx.Err()}
	}
	defer func() { <-l.places }()
	conn, err := l.take(ctx)
	if err != nil {
		return err
	}
	err = l.query(ctx, conn, timeout, sql, args, row)
	var gone *goneError
	if !errors.As(err, &gone) {
		l.give(conn)
	}
	return err
}

func (l *link) take(ctx context.Context) (*pgx.Conn, error) {
	l.mu.Lock()
	if last := len(l.idle) - 1; last >= 0 {
		conn := l.idle[last]
		l.idle = l.idle[:last]
		l.mu.Unlock()
		return conn, nil
	}
	l.mu.Unlock()
	return l.open(ctx)
}

func (l *link) give(conn *pgx.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		go closeConn(conn)
		return
	}
	l.idle = append(l.idle, conn)
}

// clear closes what is idle.
func (l *link) clear() {
	l.mu.Lock()
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, conn := range idle {
		closeConn(conn)
	}
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.clear()
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is closed in any case
}

// isGone tells whether only another connection can help. Empty is no error of the server. A standby
// refuses with 25006: the next connection may find the primary.
func isGone(state string) bool {
	switch state {
	case "", "57P01", "57P02", "57P05", "25006":
		return true
	}
	return strings.HasPrefix(state, "08")
}

// isTemporary tells whether a call that was refused may soon work: the server starts, stops or is crowded.
func isTemporary(err error) bool {
	switch sqlState(err) {
	case "57P01", "57P02", "57P03", "53300", "40001", "40P01":
		return true
	}
	return false
}

// pause is a delay with full jitter: any time up to a bound that doubles with each attempt, to 10 s.
func pause(attempt int) time.Duration {
	return jitter(min(10*time.Second, 100*time.Millisecond<<min(attempt, 16)))
}

func jitter(most time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(most) + 1))
}
