package scylla_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"scylla.example/scylla"
)

func info(spec string) *scylla.TaskInfo { return &scylla.TaskInfo{Spec: json.RawMessage(spec)} }

func failing(err error) scylla.Handler {
	return scylla.Handle(func(context.Context, *scylla.Task[any]) error { return err })
}

func taskError(t *testing.T, outcome scylla.Outcome) (e scylla.TaskError) {
	t.Helper()
	if err := json.Unmarshal(outcome.Error, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("outer: %w", io.ErrUnexpectedEOF)
	for name, c := range map[string]struct {
		handler           scylla.Handler
		kind              scylla.OutcomeKind
		code, description string
		args              string
	}{
		"error":   {failing(wrapped), "retry", "error", "outer: unexpected EOF", `{"type":"*errors.errorString"}`},
		"abort":   {failing(scylla.Abort("c", "d %d", 1)), "aborted", "c", "d 1", `{}`},
		"wrapped": {failing(fmt.Errorf("more: %w", scylla.Abort("c", "d"))), "aborted", "c", "d", `{}`},
		"args": {failing(&scylla.AbortError{Code: "c", Args: map[string]any{"n": 1}}), "aborted", "c", "",
			`{"n":1}`},
		"args without JSON": {failing(&scylla.AbortError{Code: "c", Args: map[string]any{"e": 1i}}), "aborted", "c", "",
			`{"e":"(0+1i)"}`},
		"NUL":   {failing(errors.New("a\x00b")), "retry", "error", "a\ufffdb", `{"type":"*errors.errorString"}`},
		"large": {failing(errors.New(strings.Repeat("x", 10_000))), "retry", "error", strings.Repeat("x", 4_000), `{"type":"*errors.errorString"}`},
		"invalid result": {scylla.HandleResult(func(context.Context, *scylla.Task[any]) (chan int, error) {
			return make(chan int), nil
		}), "retry", "invalid_result", "json: unsupported type: chan int", `{"type":"*json.UnsupportedTypeError"}`},
		"invalid spec": {scylla.Handle(func(context.Context, *scylla.Task[int]) error { return nil }), "retry",
			"invalid_spec", "the spec does not fit int: json: cannot unmarshal string into Go value of type int",
			`{"type":"*json.UnmarshalTypeError"}`},
	} {
		outcome := c.handler.Run(t.Context(), info(`"x"`))
		e := taskError(t, outcome)
		args, _ := json.Marshal(e.Args)
		if outcome.Kind != c.kind || e.Code != c.code || e.Description != c.description || string(args) != c.args {
			t.Errorf("%s: %v %s", name, outcome.Kind, outcome.Error)
		}
	}
	if err := failing(scylla.Abort("c", "%w", io.EOF)).Run(t.Context(), info(`1`)).Err; !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	outcome := failing(scylla.Snooze(time.Minute)).Run(t.Context(), info(`1`))
	if outcome.Kind != scylla.OutcomeYield || outcome.Delay != time.Minute {
		t.Fatal(outcome)
	}
}

func TestPanicIsARetryWithItsStack(t *testing.T) {
	t.Parallel()
	handler := scylla.Handle(func(context.Context, *scylla.Task[any]) error { panic(io.EOF) })
	outcome := handler.Run(t.Context(), info(`1`))
	var panicked *scylla.PanicError
	if !errors.As(outcome.Err, &panicked) || !errors.Is(outcome.Err, io.EOF) {
		t.Fatal(outcome.Err)
	}
	e := taskError(t, outcome)
	if e.Code != "panic" || !strings.Contains(fmt.Sprint(e.Args["traceback"]), "TestPanicIsARetryWithItsStack") {
		t.Fatal(e)
	}
}

func TestCauseDecidesWhatAnErrorMeans(t *testing.T) {
	t.Parallel()
	wait := scylla.Handle(func(ctx context.Context, _ *scylla.Task[any]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	begun := time.Now()
	outcome := wait.WithTimeLimit(20*time.Millisecond).Run(t.Context(), info(`1`))
	equal(t, outcome.Kind, scylla.OutcomeRetry)
	equal(t, taskError(t, outcome).Code, "time_limit")
	if took := time.Since(begun); took < 20*time.Millisecond || took > 5*time.Second {
		t.Fatal(took)
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(scylla.ErrShutdown)
	equal(t, wait.Run(stopped, info(`1`)).Kind, scylla.OutcomeYield)
	equal(t, failing(nil).Run(stopped, info(`1`)).Kind, scylla.OutcomeCompleted)
	equal(t, failing(scylla.Abort("c", "d")).Run(stopped, info(`1`)).Kind, scylla.OutcomeAborted)
}

func TestHandleMiddleware(t *testing.T) {
	t.Parallel()
	var seen []string
	around := func(name string) scylla.HandleMiddleware {
		return func(next scylla.HandleFunc) scylla.HandleFunc {
			return func(ctx context.Context, task *scylla.TaskInfo) error {
				err := next(ctx, task)
				seen = append(seen, fmt.Sprint(name, " ", err))
				return err
			}
		}
	}
	swallow := func(next scylla.HandleFunc) scylla.HandleFunc {
		return func(ctx context.Context, task *scylla.TaskInfo) error {
			_ = next(ctx, task)
			return nil
		}
	}
	equal(t, failing(io.EOF).Run(t.Context(), info(`1`), around("a"), around("b")).Kind, scylla.OutcomeRetry)
	equal(t, strings.Join(seen, ", "), "b EOF, a EOF")
	equal(t, failing(io.EOF).Run(t.Context(), info(`1`), swallow).Kind, scylla.OutcomeCompleted)
	broken := func(scylla.HandleFunc) scylla.HandleFunc {
		return func(context.Context, *scylla.TaskInfo) error { panic("broken") }
	}
	equal(t, taskError(t, failing(nil).Run(t.Context(), info(`1`), broken)).Description, "panic: broken")
}

func TestServerErrorsOfAnyDriver(t *testing.T) {
	t.Parallel()
	for message, full := range map[string]bool{`queue "q" is full`: true, "too many databases use scylla": false} {
		_, err := scylla.NewClient(failingDB(message), nil).Submit(t.Context(), "q", nil, nil)
		var stated *scylla.Error
		if !errors.As(err, &stated) || stated.Code != "53400" || errors.Is(err, scylla.ErrQueueFull) != full {
			t.Fatal(err)
		}
	}
}
