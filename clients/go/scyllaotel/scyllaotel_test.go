package scyllaotel_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"scylla.example/scylla"
	"scylla.example/scylla/scyllaotel"
)

type fixture struct {
	pool   *pgxpool.Pool
	client *scylla.Client
	spans  *tracetest.SpanRecorder
	reader *metric.ManualReader
}

// serve starts a worker of queue q with telemetry, in a new database on the server of the script test.
func serve(t *testing.T, handlers scylla.Handlers) fixture {
	t.Helper()
	ctx, name := t.Context(), "scyllaotel_"+strings.ToLower(rand.Text()[:8])
	for _, step := range [][2]string{{"postgres", "create database " + name}, {name, "create extension scylla"}} {
		conn, err := pgx.Connect(ctx, "dbname="+step[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err = conn.Exec(ctx, step[1]); err != nil {
			t.Fatal(err)
		}
		if err = conn.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(ctx, "dbname="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f := fixture{pool: pool, spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	telemetry, err := scyllaotel.New(&scyllaotel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans)),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(f.reader)),
		Propagator:     propagation.TraceContext{},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.client = scylla.NewClient(pool, &scylla.ClientConfig{Middleware: []scylla.SubmitMiddleware{telemetry.Submit}})
	worker, err := scylla.NewWorker(pool.Config().ConnConfig, &scylla.WorkerConfig{
		Queues: []string{"q"}, Handlers: handlers, Middleware: []scylla.HandleMiddleware{telemetry.Handle},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	t.Cleanup(func() {
		worker.StopNow()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f fixture) untilEnded(t *testing.T, spans int) []sdktrace.ReadOnlySpan {
	t.Helper()
	for range 2_000 {
		if found := f.spans.Ended(); len(found) >= spans {
			return found
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("not in time: the end of spans")
	return nil
}

func attributeOf(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, one := range span.Attributes() {
		if one.Key == key {
			return one.Value.String()
		}
	}
	return ""
}

func TestFirstTryContinuesTheTraceAndARetryLinksToIt(t *testing.T) {
	inside := make(chan trace.SpanContext, 2)
	f := serve(t, scylla.Handlers{"": scylla.Handle(func(ctx context.Context, task *scylla.Task[any]) error {
		inside <- trace.SpanContextFromContext(ctx)
		if task.Tries == 1 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})})
	meta := map[string]any{"mine": 1}
	id, err := f.client.Submit(t.Context(), "q", nil, &scylla.SubmitOptions{RetryInterval: -1, Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	spans := f.untilEnded(t, 3)
	send, first, second := spans[0], spans[1], spans[2]
	if send.Name() != "send q" || first.Name() != "process q" || second.Name() != "process q" {
		t.Fatal(send.Name(), first.Name(), second.Name())
	}
	if send.SpanKind() != trace.SpanKindProducer || first.SpanKind() != trace.SpanKindConsumer {
		t.Fatal(send.SpanKind(), first.SpanKind())
	}
	for key, expected := range map[attribute.Key]string{
		"messaging.system": "scylla", "messaging.destination.name": "q", "messaging.operation.name": "send",
		"messaging.operation.type": "send", "messaging.message.id": id, "error.type": "",
	} {
		if found := attributeOf(send, key); found != expected {
			t.Fatal(key, found)
		}
	}
	if first.Parent().SpanID() != send.SpanContext().SpanID() || first.SpanContext().TraceID() != send.SpanContext().TraceID() {
		t.Fatal("the first try does not continue the trace")
	}
	if first.Status().Code != codes.Error || attributeOf(first, "error.type") != "*errors.errorString" ||
		attributeOf(first, "messaging.message.id") != id || attributeOf(first, "messaging.operation.type") != "process" {
		t.Fatal(first.Status(), first.Attributes())
	}
	if second.Parent().IsValid() || second.SpanContext().TraceID() == send.SpanContext().TraceID() ||
		len(second.Links()) != 1 || second.Links()[0].SpanContext.SpanID() != send.SpanContext().SpanID() {
		t.Fatal(second.Parent(), second.Links())
	}
	if second.Status().Code == codes.Error || attributeOf(second, "scylla.try") != "2" {
		t.Fatal(second.Status(), second.Attributes())
	}
	if (<-inside).SpanID() != first.SpanContext().SpanID() {
		t.Fatal("the handler is not inside the span")
	}
	var kept string
	if err := f.pool.QueryRow(t.Context(), "select meta::text from scylla.tasks where id = $1", id).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(kept, `"mine": 1`) || !strings.Contains(kept, send.SpanContext().TraceID().String()) || len(meta) != 1 {
		t.Fatal(kept, meta)
	}
}

func TestMessagesAreCounted(t *testing.T) {
	f := serve(t, scylla.Handlers{
		"ok":    scylla.Handle(func(context.Context, *scylla.Task[any]) error { return nil }),
		"later": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return scylla.Snooze(time.Hour) }),
		"never": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return scylla.Abort("never", "no") }),
		"slow": scylla.Handle(func(ctx context.Context, _ *scylla.Task[any]) error {
			<-ctx.Done()
			return ctx.Err()
		}).WithTimeLimit(50 * time.Millisecond),
		"panic": scylla.Handle(func(context.Context, *scylla.Task[any]) error { panic("broken") }),
	})
	if _, err := f.client.SubmitMany(t.Context(), "q", []any{1, 2, 3}, &scylla.SubmitManyOptions{Action: "ok"}); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"later", "never", "slow", "panic"} {
		if _, err := f.client.Submit(t.Context(), "q", nil, &scylla.SubmitOptions{Action: action, MaxTries: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.client.Submit(t.Context(), "q", (*int)(nil), nil)
	var server *scylla.Error
	if !errors.As(err, &server) {
		t.Fatal(err)
	}
	f.untilEnded(t, 13)
	var data metricdata.ResourceMetrics
	if err := f.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	var found []string
	note := func(name string, count any, set attribute.Set) {
		errorType, _ := set.Value("error.type")
		found = append(found, fmt.Sprint(name, " ", count, " ", errorType.String()))
	}
	for _, one := range data.ScopeMetrics[0].Metrics {
		switch points := one.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range points.DataPoints {
				note(one.Name, point.Value, point.Attributes)
			}
		case metricdata.Histogram[float64]:
			for _, point := range points.DataPoints {
				note(one.Name, point.Count, point.Attributes)
			}
		}
	}
	slices.Sort(found)
	expected := []string{
		"messaging.client.consumed.messages 1 *scylla.PanicError", "messaging.client.consumed.messages 1 never",
		"messaging.client.consumed.messages 1 time_limit", "messaging.client.consumed.messages 4 ",
		"messaging.client.operation.duration 1 22023", "messaging.client.operation.duration 5 ",
		"messaging.client.sent.messages 1 22023", "messaging.client.sent.messages 7 ",
		"messaging.process.duration 1 *scylla.PanicError", "messaging.process.duration 1 never",
		"messaging.process.duration 1 time_limit", "messaging.process.duration 4 ",
	}
	for i := range found { // what is not set is printed in one of these ways
		found[i] = strings.Replace(found[i], " <nil>", " ", 1)
	}
	if !slices.Equal(found, expected) {
		t.Fatal(strings.Join(found, "\n"))
	}
}
