package scylla

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ---- WAIT ----

const waitSQL = "call scylla.wait_for_event($1::text, $2::text::text[], $3::text::interval, $4::text::text[], null, null)"

// waitLoop waits for work, for signals and for a request to stop, on a connection of its own.
func (w *Worker) waitLoop() {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			closeConn(conn)
		}
	}()
	for attempt := 0; w.life.Err() == nil; {
		if conn == nil {
			if attempt > 0 {
				w.sleep(pause(attempt - 1))
			}
			attempt++
			opened, err := w.link.open(w.life)
			if err != nil {
				continue
			}
			conn = opened
		}
		err := w.waitOnce(conn)
		var gone *goneError
		switch {
		case err == nil:
			attempt = 0
		case errors.As(err, &gone):
			conn = nil
			w.mu.Lock()
			w.lost(err)
			w.mu.Unlock()
		default:
			w.log.Warn("scylla: cannot wait for work", "error", err)
			w.sleep(pause(attempt))
			attempt++
		}
	}
}

func (w *Worker) waitOnce(conn *pgx.Conn) error {
	w.mu.Lock()
	wants, hints := w.wantsWork(), w.emptyHints
	w.mu.Unlock()
	if !wants {
		// a worker with enough to do; signals that come now are told when it waits
		timer := time.NewTimer(fullPause)
		defer timer.Stop()
		select {
		case <-w.wanting:
			return nil
		case <-w.life.Done():
			return nil
		case <-timer.C:
		}
	} else if hints > 2 {
		// others were quicker, or a limit keeps the tasks back
		w.sleep(jitter(min(time.Second, 5*time.Millisecond<<min(hints, 10))))
	}
	w.mu.Lock()
	if w.closing || !w.up {
		w.mu.Unlock()
		return nil
	}
	w.signalsOnly = !w.wantsWork()
	actions := w.actions
	if w.signalsOnly {
		actions = "{}"
	}
	w.waiting = conn
	w.waitNumber++
	w.mu.Unlock()
	var event, queue *string
	err := w.link.query(w.life, conn, w.config.Wait+10*time.Second, waitSQL,
		[]any{w.config.Name, w.queues, interval(w.config.Wait), actions},
		func(row pgx.Rows) error { return row.Scan(&event, &queue) })
	w.mu.Lock()
	w.waiting, w.signalsOnly = nil, false
	if err != nil || event == nil {
		w.mu.Unlock()
		if sqlState(err) == "57014" { // interrupted
			return nil
		}
		return err
	}
	switch *event {
	case "work":
		w.emptyHints++
		w.work = true
		w.pump()
	case "signal":
		w.signalled = true
		poke(w.beatNow)
	}
	w.mu.Unlock()
	if *event == "drain" {
		w.Stop()
		w.sleep(fullPause) // it is told each time
	}
	return nil
}

// interruptWait ends a wait by a request to cancel it: pgx would close the connection with the context.
func (w *Worker) interruptWait() {
	w.mu.Lock()
	conn, number := w.waiting, w.waitNumber
	w.mu.Unlock()
	// again, if the request came before the statement
	for conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := conn.PgConn().CancelRequest(ctx)
		cancel()
		if err != nil {
			_ = conn.PgConn().Conn().Close() // the server does not answer: the wait ends with an error
		}
		time.Sleep(10 * time.Millisecond)
		w.mu.Lock()
		if w.waiting != conn || w.waitNumber != number {
			conn = nil
		}
		w.mu.Unlock()
	}
}

func formatShare(share float64) string {
	return strconv.FormatFloat(share, 'f', -1, 64)
}
