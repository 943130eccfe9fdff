package scylla

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// run is a lease, and the handler that runs under it.
type run struct {
	task    TaskInfo
	id      pgtype.UUID
	token   pgtype.UUID
	handler Handler
	ownedAt float64 // after the ownership, by the server's clock
	length  time.Duration
	fence   time.Time // when the handler is stopped unless a heartbeat succeeds before
	beatAt  time.Time

	ctx      context.Context // of the handler
	cancel   context.CancelCauseFunc
	cause    error // why the worker has stopped the handler
	ended    bool  // outcome is set
	outcome  Outcome
	runAt    time.Time // of a yielded task
	doubtful bool      // returned before, without an answer
	alone    bool      // returned alone, since a batch with it was refused
	refused  bool      // the server did not store its outcome
}

// never is further away than any lease.
const never = 100 * 365 * 24 * time.Hour

// extend notes a lease that the server gave until deadline when its clock said now. It counts from before
// the question, so that the fence is early, never late.
func (r *run) extend(deadline pgtype.Float8, now float64, askedAt time.Time) {
	r.length = never
	if deadline.Valid {
		r.length = max(0, time.Duration((deadline.Float64-now)*1e9))
		r.task.deadline.Store(seconds(deadline.Float64).UnixMicro())
	}
	r.fence = askedAt.Add(r.length / 10 * 9)
	r.beatAt = askedAt.Add(time.Duration(float64(r.length/3) * (0.9 + 0.2*rand.Float64())))
}

// dropped tells whether the lease is over, so that no outcome counts.
func (r *run) dropped() bool {
	return r.cause == ErrCancelled || r.cause == ErrLeaseLost
}
