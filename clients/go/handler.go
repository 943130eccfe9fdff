package scylla

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// Handlers are the handlers of a worker by action. A task of an action without a handler is not owned.
// The action of a task that was submitted without one is "".
type Handlers map[string]Handler

// Handler runs tasks of one action. [Handle] and [HandleResult] make one.
type Handler struct {
	handle func(ctx context.Context, task *TaskInfo) (any, error)
	limit  time.Duration
}

// Handle makes a handler of a function. The spec is decoded into a T; where it does not fit, the task is
// tried again, with the error [ErrInvalidSpec] of the code invalid_spec.
//
// The function ends the task: nil completes it, an error is another try after a delay, [Abort] ends it for
// good, [Snooze] postpones it. When the context ends, context.Cause tells why: [ErrCancelled],
// [ErrLeaseLost], [ErrTimeLimit] or [ErrShutdown].
func Handle[T any](f func(ctx context.Context, task *Task[T]) error) Handler {
	return HandleResult(func(ctx context.Context, task *Task[T]) (any, error) {
		return nil, f(ctx, task)
	})
}

// HandleResult is [Handle] for a function that has a result, which encoding/json encodes.
func HandleResult[T, R any](f func(ctx context.Context, task *Task[T]) (R, error)) Handler {
	return Handler{handle: func(ctx context.Context, info *TaskInfo) (any, error) {
		task := &Task[T]{TaskInfo: info}
		if err := json.Unmarshal(info.Spec, &task.Spec); err != nil {
			return nil, &specError{into: fmt.Sprintf("%T", task.Spec), err: err}
		}
		return f(ctx, task)
	}}
}

// WithTimeLimit is the handler with a time limit of its own: when that is over its context ends with
// [ErrTimeLimit].
func (h Handler) WithTimeLimit(limit time.Duration) Handler {
	h.limit = limit
	return h
}

// HandleFunc handles a task.
type HandleFunc func(ctx context.Context, task *TaskInfo) error

// HandleMiddleware goes around handlers. It sees how a handler ended as the error that it returned; a
// panic is a [PanicError].
type HandleMiddleware func(next HandleFunc) HandleFunc

// OutcomeKind is how a try ends.
type OutcomeKind string

// The kinds of outcome.
const (
	OutcomeCompleted OutcomeKind = "completed"
	OutcomeAborted   OutcomeKind = "aborted"
	OutcomeRetry     OutcomeKind = "retry"
	OutcomeYield     OutcomeKind = "yield"
)

// Outcome is what becomes of a task when its handler has ended.
type Outcome struct {
	Kind OutcomeKind
	// Result is the JSON of the handler's result.
	Result json.RawMessage
	// Error is the JSON that is appended to the task's errors.
	Error json.RawMessage
	// Delay is after what time a yielded task runs again.
	Delay time.Duration
	// Err is what the handler returned.
	Err error
}

// Run runs the handler with middleware around it, the first one outermost, and tells the outcome. It is
// what a worker does with a task that it owns, and serves tests without a server.
func (h Handler) Run(ctx context.Context, task *TaskInfo, middleware ...HandleMiddleware) Outcome {
	if h.limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, h.limit, ErrTimeLimit)
		defer cancel()
		ctx = limited
	}
	var value any
	next := recovering(func(ctx context.Context, task *TaskInfo) (err error) {
		value, err = h.handle(ctx, task)
		return err
	})
	if len(middleware) > 0 {
		for _, around := range slices.Backward(middleware) {
			next = around(next)
		}
		next = recovering(next)
	}
	err := next(ctx, task)
	return outcomeOf(value, err, context.Cause(ctx))
}

// recovering makes an error of a panic.
func recovering(next HandleFunc) HandleFunc {
	return func(ctx context.Context, task *TaskInfo) (err error) {
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{Value: value, Stack: debug.Stack()}
			}
		}()
		return next(ctx, task)
	}
}

func outcomeOf(value any, err, cause error) Outcome {
	if err == nil {
		if value == nil {
			return Outcome{Kind: OutcomeCompleted}
		}
		result, invalid := json.Marshal(value)
		if invalid != nil {
			return Outcome{Kind: OutcomeRetry, Error: failure("invalid_result", invalid), Err: invalid}
		}
		if string(result) == "null" {
			result = nil
		}
		return Outcome{Kind: OutcomeCompleted, Result: result}
	}
	var abort *AbortError
	var snooze *SnoozeError
	switch {
	case errors.As(err, &abort):
		return Outcome{Kind: OutcomeAborted, Error: abort.json(), Err: err}
	case errors.As(err, &snooze):
		return Outcome{Kind: OutcomeYield, Delay: snooze.Delay, Err: err}
	case cause == ErrShutdown:
		return Outcome{Kind: OutcomeYield, Err: err}
	case cause == ErrTimeLimit:
		return Outcome{Kind: OutcomeRetry, Error: failure("time_limit", err), Err: err}
	}
	code := "error"
	if errors.Is(err, ErrInvalidSpec) {
		code = "invalid_spec"
	}
	return Outcome{Kind: OutcomeRetry, Error: failure(code, err), Err: err}
}

const (
	mostDescription = 4_000
	mostTraceback   = 20_000
)

// failure is the JSON of an error, small enough to be stored, of characters that PostgreSQL stores.
func failure(code string, err error) json.RawMessage {
	args := map[string]any{"type": fmt.Sprintf("%T", rootOf(err))}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		if code == "error" {
			code = "panic"
		}
		args["type"] = fmt.Sprintf("%T", panicked.Value)
		args["traceback"] = shortened(string(panicked.Stack), mostTraceback)
	}
	text, _ := json.Marshal(TaskError{Code: code, Description: shortened(err.Error(), mostDescription), Args: args})
	return storable(text)
}

// rootOf is the error that the others wrap.
func rootOf(err error) error {
	for {
		below := errors.Unwrap(err)
		if below == nil {
			return err
		}
		err = below
	}
}

func (e *AbortError) json() json.RawMessage {
	args := e.Args
	if args == nil {
		args = map[string]any{}
	}
	text, err := json.Marshal(TaskError{Code: e.Code, Description: e.Description, Args: args})
	if err != nil { // what has no JSON is kept as text
		printed := make(map[string]any, len(args))
		for name, value := range args {
			printed[name] = fmt.Sprintf("%+v", value)
		}
		text, _ = json.Marshal(TaskError{Code: e.Code, Description: e.Description, Args: printed})
	}
	return storable(text)
}

func shortened(text string, most int) string {
	if len(text) > most {
		return text[:most] // encoding/json replaces half a character
	}
	return text
}

// storable replaces NUL, which is no text for PostgreSQL.
func storable(text []byte) json.RawMessage {
	return bytes.ReplaceAll(text, []byte(`\u0000`), []byte(`\ufffd`))
}
