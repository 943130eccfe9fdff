package scylla

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ---- FETCH and SETTLE ----

func (w *Worker) free() int {
	return w.config.Concurrency + w.config.Prefetch - len(w.runs) - w.asked
}

func (w *Worker) wantsWork() bool {
	return !w.work && w.up && !w.isDraining && w.free() > 0
}

// pump starts the exchanges with the server that there is a reason for. w.mu is held.
func (w *Worker) pump() {
	for w.up && !w.closing && w.exchanges < w.maxExchanges {
		due := w.settleIsDue()
		mayOwn := !w.isDraining && w.ownTimer == nil
		if !due && !(mayOwn && w.work && w.free() > 0) {
			break
		}
		batch := w.nextBatch()
		most := 0
		if mayOwn {
			most = max(0, min(batchSize, w.free()+len(batch)))
		}
		more := max(0, most-len(batch))
		w.exchanges++
		w.settling += len(batch)
		w.asked += more
		w.spawn(func() { w.exchange(batch, most, more) })
	}
	if w.wantsWork() {
		poke(w.wanting)
		if w.signalsOnly {
			w.signalsOnly = false
			w.spawn(w.interruptWait)
		}
	}
	poke(w.changed)
}

func (w *Worker) settleIsDue() bool {
	if len(w.done) == 0 {
		return false
	}
	if len(w.done) >= enough || w.running == 0 || w.isDraining {
		return true
	}
	left := w.config.Coalesce - time.Since(w.doneAt)
	if left <= 0 {
		return true
	}
	if w.pumpTimer == nil {
		w.pumpTimer = w.after(left, func() { w.pumpTimer = nil })
	}
	return false
}

// after calls f and pumps after a time, unless the worker has ended.
func (w *Worker) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
		w.pump()
	})
}

func (w *Worker) nextBatch() []*run {
	n := min(len(w.done), batchSize)
	for i, r := range w.done[:n] {
		if r.alone {
			n = max(1, i)
			break
		}
	}
	batch := slices.Clone(w.done[:n])
	w.done = slices.Delete(w.done, 0, n)
	w.doneAt = time.Now() // of those that are left
	return batch
}

// exchange returns a batch and owns up to most tasks, in one statement.
func (w *Worker) exchange(batch []*run, most, more int) {
	askedAt := time.Now()
	var owned []*run
	var statuses string
	scan := func(row pgx.Rows) error {
		r, err := w.sql.scanOwned(row, &statuses, askedAt)
		if r != nil {
			owned = append(owned, r)
		}
		return err
	}
	call := func(sql string, args []any, scan func(pgx.Rows) error) error {
		return w.link.run(w.life, w.config.CallTimeout, sql, args, scan)
	}
	var err error
	switch {
	case len(batch) == 0:
		err = call(w.sql.owning, w.sql.own(most), scan)
	case most > 0:
		err = call(w.sql.both, w.sql.returnAndOwn(w.returned(batch), most), scan)
	default:
		err = call(w.sql.returning, w.returned(batch), func(row pgx.Rows) error { return row.Scan(&statuses) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges--
	w.settling -= len(batch)
	w.asked -= more
	var gone *goneError
	switch {
	case err == nil:
		if len(batch) > 0 {
			w.settled(batch, strings.Split(statuses, ","))
		}
		if most > 0 {
			w.owned(owned, most)
		}
	case errors.As(err, &gone):
		for _, r := range batch {
			r.doubtful = true
		}
		w.putBack(batch)
		w.lost(err)
	default:
		w.refused(batch, most, err)
	}
	w.pump()
}

func (w *Worker) putBack(batch []*run) {
	w.done = append(slices.Clone(batch), w.done...)
}

func (w *Worker) settled(batch []*run, statuses []string) {
	for i, r := range batch {
		delete(w.runs, r)
		switch {
		case statuses[i] == "aborted":
			w.stats.Aborted++
		case statuses[i] != "-":
			w.count(r.outcome.Kind)
		case r.doubtful:
			w.settling++
			w.spawn(func() { w.lookUp(r) })
		default:
			w.countLost(r)
		}
	}
}

func (w *Worker) count(kind OutcomeKind) {
	switch kind {
	case OutcomeCompleted:
		w.stats.Completed++
	case OutcomeAborted:
		w.stats.Aborted++
	case OutcomeRetry:
		w.stats.Retried++
	case OutcomeYield:
		w.stats.Yielded++
	}
}

func (w *Worker) countLost(r *run) {
	w.stats.Lost++
	w.log.Info("scylla: lease lost, result dropped", "task", r.task.ID)
}

// lookUp finds out whether a return whose answer was lost had worked: the task counts once.
func (w *Worker) lookUp(r *run) {
	status := w.statusOf(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settling--
	kind := r.outcome.Kind
	again := kind == OutcomeRetry || kind == OutcomeYield
	switch {
	case status == string(kind),
		again && (status == "ready" || status == "waiting" || status == "aborted"):
		w.count(kind)
	default:
		w.countLost(r)
	}
	w.pump()
}

// statusOf is the task's status, if nothing owned it after this lease.
func (w *Worker) statusOf(r *run) string {
	for attempt := 0; w.life.Err() == nil; attempt++ {
		var status, worker *string
		var ownedAt *float64
		err := w.link.run(w.life, w.config.CallTimeout, statusSQL, []any{r.task.ID}, func(row pgx.Rows) error {
			return row.Scan(&status, &worker, &ownedAt)
		})
		var gone *goneError
		switch {
		case err == nil:
			if status != nil && worker != nil && *worker == w.config.Name && *ownedAt <= r.ownedAt {
				return *status
			}
			return ""
		case errors.As(err, &gone):
			w.mu.Lock()
			w.lost(err)
			w.mu.Unlock()
		case !isTemporary(err):
			return "" // deleted, or not for this role to see
		}
		w.sleep(pause(attempt))
	}
	return ""
}

// refused: the statement failed as a whole. Nothing is returned, nothing owned.
func (w *Worker) refused(batch []*run, most int, err error) {
	if most > 0 || len(batch) == 0 {
		// what can be returned must not wait for what cannot be owned
		level := slog.LevelWarn
		if isTemporary(err) {
			level = slog.LevelInfo
		}
		w.log.Log(context.Background(), level, "scylla: no tasks for now", "error", err)
		if w.ownTimer == nil {
			w.ownTimer = w.after(pause(w.ownPause), func() { w.ownTimer, w.work = nil, true })
		}
		w.ownPause++
		w.putBack(batch)
		return
	}
	if len(batch) > 1 {
		for _, r := range batch {
			r.alone = true
		}
		w.putBack(batch)
		return
	}
	r := batch[0]
	state := sqlState(err)
	if (strings.HasPrefix(state, "22") || strings.HasPrefix(state, "54")) && !r.refused {
		// the server does not store this: the try has failed, and says why
		r.alone, r.refused = true, true
		if r.outcome.Kind != OutcomeAborted {
			r.outcome.Kind = OutcomeRetry
		}
		r.outcome.Result, r.outcome.Error, r.runAt = nil, failure("result_refused", err), time.Time{}
		w.putBack(batch)
		return
	}
	if time.Now().After(r.fence) {
		delete(w.runs, r)
		w.countLost(r)
		w.log.Error("scylla: could not return a task", "task", r.task.ID, "error", err)
		return
	}
	w.log.Warn("scylla: cannot return a task yet", "task", r.task.ID, "error", err)
	w.settling++
	w.after(pause(3), func() {
		w.settling--
		w.done = append(w.done, r)
	})
}

func (w *Worker) owned(runs []*run, most int) {
	w.ownPause = 0
	for i, r := range runs {
		if i == 0 {
			w.clockOffset = time.Until(seconds(r.ownedAt))
		}
		r.handler = w.config.Handlers[r.task.Action]
		w.runs[r] = true
		switch {
		case w.isDraining:
			w.finish(r, Outcome{Kind: OutcomeYield})
		case w.running < w.config.Concurrency:
			w.start(r)
		default:
			w.backlog = append(w.backlog, r)
		}
		if r.beatAt.Before(w.beatTarget) || w.beatTarget.IsZero() {
			poke(w.beatNow)
		}
	}
	w.work = len(runs) == most
	if len(runs) > 0 {
		w.emptyHints = 0
	}
}

// ---- handlers ----

// start starts the handler of a task. w.mu is held, and next is open: a worker that has drained, which it does
// before it closes, starts nothing.
func (w *Worker) start(r *run) {
	w.running++
	r.ctx, r.cancel = context.WithCancelCause(w.handling)
	select {
	case w.next <- r:
	default:
		go w.handleAll(r)
	}
}

// handleAll runs a handler, then others, until the worker ends. A goroutine for each would have to grow its
// stack again each time.
func (w *Worker) handleAll(r *run) {
	for ; r != nil; r = <-w.next {
		w.handle(r)
	}
}

func (w *Worker) handle(r *run) {
	outcome := goexit
	defer func() {
		w.handled(r, outcome)
		r.cancel(nil)
	}()
	outcome = r.handler.Run(r.ctx, &r.task, w.config.Middleware...)
}

var goexit = outcomeOf(nil, errors.New("the handler called runtime.Goexit"), nil)

// handled: a handler has ended. Whether its outcome counts or not, its place is free.
func (w *Worker) handled(r *run, outcome Outcome) {
	w.mu.Lock()
	w.running--
	if r.cause == nil && time.Now().After(r.fence) {
		// a process that was frozen comes here before the fence is looked at
		r.cause = ErrLeaseLost
	}
	if w.runs[r] && !r.ended {
		if r.dropped() {
			delete(w.runs, r)
			w.countDropped(r)
		} else {
			w.finish(r, outcome)
		}
	}
	for len(w.backlog) > 0 && w.running < w.config.Concurrency {
		w.start(w.backlog[0])
		w.backlog = w.backlog[1:]
	}
	if w.pumpTimer == nil || w.running == 0 || len(w.done) >= enough {
		w.pump()
	}
	w.mu.Unlock()
}

func (w *Worker) countDropped(r *run) {
	if r.cause == ErrCancelled {
		w.stats.Cancelled++
	} else {
		w.stats.Lost++
	}
}

// finish notes how a task ends, which is then returned. w.mu is held.
func (w *Worker) finish(r *run, outcome Outcome) {
	r.outcome, r.ended = outcome, true
	if outcome.Kind == OutcomeYield && outcome.Delay > 0 {
		r.runAt = time.Now().Add(w.clockOffset + outcome.Delay)
	}
	if len(w.done) == 0 {
		w.doneAt = time.Now()
	}
	w.done = append(w.done, r)
}

// stopRun stops a handler. The first cause counts, but that the lease is over overrules it. w.mu is held.
func (w *Worker) stopRun(r *run, cause error) {
	over := cause == ErrCancelled || cause == ErrLeaseLost
	if r.ended || r.cause != nil && (!over || r.dropped()) {
		return
	}
	r.cause = cause
	if at := slices.Index(w.backlog, r); at >= 0 {
		w.backlog = slices.Delete(w.backlog, at, at+1)
		delete(w.runs, r)
		w.countDropped(r)
		return
	}
	r.cancel(cause)
}
