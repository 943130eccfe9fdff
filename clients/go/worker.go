package scylla

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	batchSize, enough = 500, 100 // tasks that one statement returns or owns; results that wait for no more

	protocol  = 1
	fullPause = 100 * time.Millisecond // how long a worker is full before it waits for signals only
	stopPause = 3 * time.Second        // what handlers have to end after ErrShutdown
)

var features = [...]string{"return_many", "yield_run_at", "heartbeat", "own_any", "wait_for_event"}

// Worker owns tasks of its queues and runs their handlers, until it is told to stop. It survives restarts
// of the server. Two workers in one process do not know of each other.
type Worker struct {
	config       WorkerConfig
	log          *slog.Logger
	link         *link
	sql          statements
	queues       string // arrays as PostgreSQL reads them
	actions      string
	maxExchanges int
	life         context.Context // ends with the worker
	end          context.CancelFunc
	handling     context.Context // what the contexts of handlers are made of
	spawned      sync.WaitGroup

	beatNow  chan struct{}
	wanting  chan struct{} // the worker wants work: the wait begins
	changed  chan struct{} // idle may have become true
	next     chan *run     // to a goroutine that has run a handler, and waits for another one
	draining chan struct{} // closed: it stops
	atOnce   chan struct{} // closed: it hands back at once
	failed   chan error

	mu          sync.Mutex
	started     bool
	isDraining  bool
	isAtOnce    bool
	closing     bool
	up          bool
	stats       Stats
	runs        map[*run]bool // all leases that are not known to have ended
	running     int
	backlog     []*run // owned, not begun: at most Prefetch
	done        []*run // ended, not returned
	doneAt      time.Time
	asked       int // tasks that may come with the exchanges under way
	exchanges   int
	settling    int
	work        bool // there may be ready tasks
	ownPause    int
	ownTimer    *time.Timer
	pumpTimer   *time.Timer
	clockOffset time.Duration // of the server's clock
	beatTarget  time.Time
	beating     bool
	signalled   bool // a lease has ended without this worker
	emptyHints  int
	waiting     *pgx.Conn
	waitNumber  int
	signalsOnly bool
}

// Name is the worker's name, as the server's views show it.
func (w *Worker) Name() string { return w.config.Name }

// Stats is what the worker has done so far.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Run serves until the context ends, [Worker.Stop] is called, or an administrator calls drain_worker. Then
// it drains, and returns nil: it owns nothing more, handlers have Grace to end, then their contexts end
// with [ErrShutdown], and after three seconds more their tasks are handed back. No try is counted.
//
// Handlers get the context's values, not its end. A server that is away is waited for. The error is
// [ErrIncompatible] for a server that this package cannot work with. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.started {
		w.mu.Unlock()
		return errors.New("scylla: the worker was run before")
	}
	w.started, w.work = true, true
	w.mu.Unlock()
	w.handling = context.WithoutCancel(ctx)
	w.life, w.end = context.WithCancel(w.handling)
	defer w.end()
	defer context.AfterFunc(ctx, w.Stop)()

	w.spawn(w.beatLoop)
	w.spawn(func() {
		if err := w.connect(0); err != nil {
			w.failed <- err
			return
		}
		w.waitLoop()
	})
	drained := make(chan struct{})
	w.spawn(func() {
		w.drain()
		close(drained)
	})
	var err error
	select {
	case <-drained:
	case err = <-w.failed:
	}
	w.close()
	return err
}

// Stop begins to drain, and returns at once.
func (w *Worker) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isDraining {
		w.isDraining = true
		close(w.draining)
	}
}

// StopNow hands back all tasks without waiting for their handlers, and returns at once.
func (w *Worker) StopNow() {
	w.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isAtOnce {
		w.isAtOnce = true
		close(w.atOnce)
	}
}

func (w *Worker) close() {
	w.mu.Lock()
	w.closing = true
	close(w.next)
	for _, timer := range []*time.Timer{w.ownTimer, w.pumpTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	w.mu.Unlock()
	poke(w.wanting)
	w.interruptWait()
	w.end()
	w.link.close()
	ended := make(chan struct{})
	go func() {
		w.spawned.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
	}
}

func (w *Worker) spawn(f func()) {
	w.spawned.Add(1)
	go func() {
		defer w.spawned.Done()
		f()
	}()
}

// poke wakes who waits on a channel of one place.
func poke(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// sleep ends early with the worker.
func (w *Worker) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.life.Done():
	}
}

// ---- CONNECT and DOWN ----

// connect connects, heartbeats what is held, and lets the worker go on.
func (w *Worker) connect(attempt int) error {
	for first := attempt == 0; ; {
		if attempt > 0 {
			w.sleep(pause(attempt - 1))
		}
		attempt++
		if w.life.Err() != nil {
			return nil
		}
		err := w.checkServer()
		if err == nil {
			// with nothing held, too: from then on the server keeps signals for this worker
			err = w.beat(true)
		}
		switch {
		case err == nil:
			w.mu.Lock()
			w.up, w.work = true, true
			w.pump()
			w.mu.Unlock()
			poke(w.beatNow)
			w.log.Info("scylla: worker connected", "queues", w.config.Queues)
			return nil
		case errors.Is(err, ErrIncompatible) && first:
			return err
		case attempt == 1 || attempt == 5 || attempt%20 == 0:
			w.log.Warn("scylla: no connection yet", "error", err)
		}
	}
}

func (w *Worker) checkServer() error {
	var text string
	err := w.link.run(w.life, w.config.CallTimeout, "select scylla.about()::text", nil, func(row pgx.Rows) error {
		return row.Scan(&text)
	})
	if state := sqlState(err); state == "3F000" || state == "42883" {
		return fmt.Errorf("%w: this database has no scylla 0.2 or later: "+
			"create extension scylla; or alter extension scylla update", ErrIncompatible)
	}
	if err != nil {
		return err
	}
	var about struct {
		Version  string
		Protocol int
		Features []string
	}
	if err := json.Unmarshal([]byte(text), &about); err != nil {
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	for _, feature := range features {
		if about.Protocol != protocol || !slices.Contains(about.Features, feature) {
			return fmt.Errorf("%w: scylla %s of protocol %d does not work with scylla-pg %s",
				ErrIncompatible, about.Version, about.Protocol, Version)
		}
	}
	return nil
}

// lost: the server, or a connection, is gone. Handlers go on. w.mu is held.
func (w *Worker) lost(err error) {
	if !w.up || w.closing {
		return
	}
	w.up = false
	w.log.Warn("scylla: connection lost", "error", err)
	w.spawn(func() {
		w.link.clear()
		_ = w.connect(1) // ends when it is connected
	})
}

// ---- DRAIN ----

func (w *Worker) drain() {
	select {
	case <-w.draining:
	case <-w.life.Done():
		return
	}
	w.mu.Lock()
	w.log.Info("scylla: worker stops", "running", w.running)
	endsAt := time.Now().Add(w.config.Grace + stopPause + 1500*time.Millisecond)
	for _, r := range w.backlog {
		w.finish(r, Outcome{Kind: OutcomeYield})
	}
	w.backlog = nil
	w.pump()
	w.mu.Unlock()
	w.idleWithin(w.config.Grace)
	w.mu.Lock()
	for r := range w.runs {
		w.stopRun(r, ErrShutdown)
	}
	w.mu.Unlock()
	w.idleWithin(stopPause)
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.runs {
		if !r.ended && !r.dropped() {
			w.finish(r, Outcome{Kind: OutcomeYield})
		}
	}
	w.pump()
	for (len(w.done) > 0 || w.settling > 0) && time.Now().Before(endsAt) {
		w.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		w.mu.Lock()
	}
	if len(w.done) > 0 || w.settling > 0 {
		w.log.Error("scylla: tasks not handed back", "tasks", len(w.runs))
	}
}

// idleWithin returns when nothing runs and all is returned, the time is over, or StopNow was called.
func (w *Worker) idleWithin(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		w.mu.Lock()
		idle := w.running == 0 && len(w.backlog)+len(w.done)+w.settling+w.asked == 0
		w.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-w.changed:
		case <-w.atOnce:
			return
		case <-timer.C:
			return
		}
	}
}
