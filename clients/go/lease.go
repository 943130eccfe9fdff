package scylla

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// ---- BEAT and FENCE ----

func (w *Worker) beatLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.beatNow:
		case <-w.life.Done():
			return
		}
		w.mu.Lock()
		now := time.Now()
		target := now.Add(never)
		beat := w.signalled
		for r := range w.runs {
			if r.dropped() {
				continue
			}
			if !r.ended && !now.Before(r.fence) {
				w.stopRun(r, ErrLeaseLost)
				continue
			}
			next := r.beatAt
			if !now.Before(r.beatAt) {
				beat, next = true, r.fence
			}
			if next.Before(target) && next.After(now) {
				target = next
			}
		}
		if beat && w.up && !w.beating {
			w.beating, w.signalled = true, false
			w.spawn(w.beatOnce)
		}
		w.beatTarget = target
		w.mu.Unlock()
		timer.Reset(time.Until(target))
	}
}

func (w *Worker) beatOnce() {
	err := w.beat(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beating = false
	var gone *goneError
	switch {
	case errors.As(err, &gone):
		w.lost(err)
	case err != nil:
		w.log.Warn("scylla: heartbeat refused", "error", err)
		again := time.Now().Add(200 * time.Millisecond)
		for r := range w.runs {
			if r.beatAt.Before(again) {
				r.beatAt = again
			}
		}
	}
	poke(w.beatNow)
}

// beat is one heartbeat for all leases, with their progress.
func (w *Worker) beat(first bool) error {
	w.mu.Lock()
	runs := make([]*run, 0, len(w.runs))
	timeout := 6 * w.config.CallTimeout
	for r := range w.runs {
		if !r.dropped() {
			runs = append(runs, r)
			timeout = min(timeout, r.length)
		}
	}
	w.mu.Unlock()
	if len(runs) == 0 && !first {
		return nil
	}
	ids, tokens, shares := make(uuids, len(runs)), make(uuids, len(runs)), make([]string, len(runs))
	told := make([]*float64, len(runs))
	for i, r := range runs {
		ids[i], tokens[i], told[i] = r.id, r.token, r.task.progress.Swap(nil)
		if told[i] != nil {
			shares[i] = formatShare(*told[i])
		}
	}
	type answer struct {
		state    string
		deadline pgtype.Float8
		now      float64
	}
	answers := make([]answer, 0, len(runs))
	askedAt := time.Now()
	err := w.link.run(w.life, max(20*time.Millisecond, timeout/6),
		"select h.state, date_part('epoch', h.deadline), date_part('epoch', clock_timestamp()) "+
			"from scylla.heartbeat($1::text, $2::uuid[], $3::uuid[], progress => $4::text::float8[]) as h",
		[]any{w.config.Name, ids, tokens, arrayOrNull(shares)},
		func(row pgx.Rows) error {
			var a answer
			answers = append(answers, a)
			last := &answers[len(answers)-1]
			return row.Scan(&last.state, &last.deadline, &last.now)
		})
	if err != nil {
		for i, r := range runs {
			if told[i] != nil {
				r.task.progress.CompareAndSwap(nil, told[i])
			}
		}
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range runs {
		switch {
		case answers[i].state == "held":
			r.extend(answers[i].deadline, answers[i].now, askedAt)
		case r.ended: // the answer to its return says what became of it
			r.fence, r.beatAt = askedAt.Add(never), askedAt.Add(never)
		case answers[i].state == "lost":
			w.stopRun(r, ErrLeaseLost)
		default:
			w.stopRun(r, ErrCancelled)
		}
	}
	return nil
}
