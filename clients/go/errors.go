package scylla

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Causes for which a worker stops a handler. One of them is context.Cause(ctx) of the handler's context.
var (
	// ErrCancelled: the task was cancelled or deleted. What the handler returns is dropped.
	ErrCancelled = errors.New("scylla: the task was cancelled")
	// ErrLeaseLost: another worker may have the task. What the handler returns is dropped.
	ErrLeaseLost = errors.New("scylla: the lease was lost")
	// ErrTimeLimit: the handler's time limit is over. An error means another try; a result counts.
	ErrTimeLimit = errors.New("scylla: the handler's time limit is over")
	// ErrShutdown: the worker stops and its grace is over. An error hands the task back, and the try is
	// not counted; a result counts.
	ErrShutdown = errors.New("scylla: the worker stops")
)

// Errors of the server, for errors.Is.
var (
	// ErrDuplicate is SQLSTATE 23505: the id or the key is taken.
	ErrDuplicate = errors.New("scylla: duplicate task")
	// ErrNotFound is SQLSTATE P0002: no such task, queue or schedule.
	ErrNotFound = errors.New("scylla: not found")
	// ErrNotPermitted is SQLSTATE 42501: the role lacks the privilege on the queue.
	ErrNotPermitted = errors.New("scylla: not permitted")
	// ErrQueueFull is SQLSTATE 53400 for a queue: it has as many ready tasks as its max_ready allows.
	ErrQueueFull = errors.New("scylla: queue full")
)

// ErrIncompatible is returned by a worker whose server has no scylla, or one that this package cannot
// work with.
var ErrIncompatible = errors.New("scylla: incompatible server")

// ErrInvalidSpec is what errors.Is finds in the error of a task whose spec does not fit its handler's type.
// The task is tried again: a newer version of the worker may read it.
var ErrInvalidSpec = errors.New("scylla: invalid spec")

// ErrTaskFailed is what errors.Is finds in a [TaskFailedError].
var ErrTaskFailed = errors.New("scylla: task failed")

// Error is an error of the server. The driver's own error is below it, for errors.As.
type Error struct {
	// Code is the SQLSTATE.
	Code string
	err  error
}

func (e *Error) Error() string { return "scylla: " + e.err.Error() }

// Unwrap gives the driver's error.
func (e *Error) Unwrap() error { return e.err }

// Is tells whether the SQLSTATE is that of ErrDuplicate, ErrNotFound, ErrNotPermitted or ErrQueueFull.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case "23505":
		return target == ErrDuplicate
	case "P0002":
		return target == ErrNotFound
	case "42501":
		return target == ErrNotPermitted
	case "53400":
		// other limits of the server have this code, too
		return target == ErrQueueFull && strings.Contains(e.err.Error(), `" is full`)
	}
	return false
}

// TaskError is an entry of a task's errors.
type TaskError struct {
	Code        string         `json:"code"`
	Description string         `json:"description"`
	Args        map[string]any `json:"args"`
}

// TaskFailedError is returned by [Client.Result] for a task that was aborted or cancelled.
type TaskFailedError struct {
	ID     string
	Status Status
	Errors []TaskError
}

func (e *TaskFailedError) Error() string {
	text := fmt.Sprintf("scylla: task %s was %s", e.ID, e.Status)
	for i := len(e.Errors) - 1; i >= 0; i-- {
		if e.Errors[i].Code != "tries_exhausted" { // that one does not tell why
			return text + ": " + e.Errors[i].Description
		}
	}
	return text
}

// Is makes errors.Is(err, ErrTaskFailed) true.
func (e *TaskFailedError) Is(target error) bool { return target == ErrTaskFailed }

// AbortError ends a task for good. [Abort] makes one.
type AbortError struct {
	Code        string
	Description string
	Args        map[string]any
	err         error
}

func (e *AbortError) Error() string { return e.Code + ": " + e.Description }

// Unwrap gives the error that [Abort] made of its format: errors.Is finds what that wraps with %w.
func (e *AbortError) Unwrap() error { return e.err }

// Abort is the error with which a handler ends a task for good: there is no further try. The format is
// that of [fmt.Errorf].
func Abort(code, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &AbortError{Code: code, Description: err.Error(), err: err}
}

// SnoozeError postpones a task. [Snooze] makes one.
type SnoozeError struct {
	Delay time.Duration
}

func (e *SnoozeError) Error() string { return fmt.Sprintf("scylla: snoozed for %s", e.Delay) }

// Snooze is the error with which a handler postpones its task. The try is not counted.
func Snooze(delay time.Duration) error { return &SnoozeError{Delay: delay} }

// specError keeps the error of encoding/json.
type specError struct {
	into string
	err  error
}

func (e *specError) Error() string        { return fmt.Sprintf("the spec does not fit %s: %v", e.into, e.err) }
func (e *specError) Unwrap() error        { return e.err }
func (e *specError) Is(target error) bool { return target == ErrInvalidSpec }

// PanicError is what becomes of a panic in a handler. The task is tried again.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is the stack at the time of the panic.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the value of the panic, when that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// sqlState is the SQLSTATE of an error, whichever driver reported it; empty: the server did not
// report it.
func sqlState(err error) string {
	var stated interface{ SQLState() string } // pgconn and lib/pq have it
	if errors.As(err, &stated) {
		return stated.SQLState()
	}
	return ""
}

// translate makes an Error of an error of the server, and leaves others alone.
func translate(err error) error {
	if code := sqlState(err); code != "" {
		return &Error{Code: code, err: err}
	}
	return err
}
