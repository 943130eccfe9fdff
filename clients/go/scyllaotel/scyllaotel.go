// Package scyllaotel makes spans and metrics of OpenTelemetry for clients and workers of scylla, by the
// conventions for messaging:
//
//	telemetry, err := scyllaotel.New(nil)
//	...
//	client := scylla.NewClient(pool, &scylla.ClientConfig{
//		Middleware: []scylla.SubmitMiddleware{telemetry.Submit},
//	})
//	worker, err := scylla.NewWorker(conn, &scylla.WorkerConfig{
//		Middleware: []scylla.HandleMiddleware{telemetry.Handle},
//		...
//
// The first try of a task continues the trace of its submission. A retry begins a trace of its own, with a
// link to that one.
package scyllaotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"scylla.example/scylla"
)

const name = "scylla.example/scylla/scyllaotel"

// Config says where spans and metrics go. The zero value of each field is OpenTelemetry's global one.
type Config struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
}

// Telemetry is middleware: its methods Submit and Handle go into the configuration of clients and workers.
type Telemetry struct {
	tracer              trace.Tracer
	propagator          propagation.TextMapPropagator
	sent, consumed      metric.Int64Counter
	operation, handling metric.Float64Histogram
}

// New makes the middleware. The config may be nil.
func New(config *Config) (*Telemetry, error) {
	var c Config
	if config != nil {
		c = *config
	}
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	if c.Propagator == nil {
		c.Propagator = otel.GetTextMapPropagator()
	}
	t := &Telemetry{
		tracer:     c.TracerProvider.Tracer(name, trace.WithInstrumentationVersion(scylla.Version)),
		propagator: c.Propagator,
	}
	meter := c.MeterProvider.Meter(name, metric.WithInstrumentationVersion(scylla.Version))
	var errs [4]error
	t.sent, errs[0] = meter.Int64Counter("messaging.client.sent.messages", metric.WithUnit("{message}"))
	t.consumed, errs[1] = meter.Int64Counter("messaging.client.consumed.messages", metric.WithUnit("{message}"))
	t.operation, errs[2] = meter.Float64Histogram("messaging.client.operation.duration", metric.WithUnit("s"))
	t.handling, errs[3] = meter.Float64Histogram("messaging.process.duration", metric.WithUnit("s"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return t, nil
}

// Submit is a [scylla.SubmitMiddleware]: a span "send <queue>", whose context goes with the task's meta.
func (t *Telemetry) Submit(next scylla.SubmitFunc) scylla.SubmitFunc {
	return func(ctx context.Context, s *scylla.Submission) (ids []string, err error) {
		known := attributes("send", s.Queue)
		ctx, span := t.tracer.Start(ctx, "send "+s.Queue, trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(known...), trace.WithAttributes(attribute.String("scylla.action", s.Action)))
		begun := time.Now()
		ended := false
		defer func() {
			if !ended {
				err = errPanic
			}
			if err != nil {
				known = append(known, t.fail(span, nil, err))
			}
			t.sent.Add(ctx, int64(len(s.Specs)), metric.WithAttributes(known...))
			t.operation.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(known...))
			span.End()
		}()
		carrier := propagation.MapCarrier{}
		t.propagator.Inject(ctx, carrier)
		if len(carrier) > 0 {
			meta := maps.Clone(s.Meta) // the caller's stays as it is
			if meta == nil {
				meta = map[string]any{}
			}
			for key, value := range carrier {
				meta[key] = value
			}
			s.Meta = meta
		}
		ids, err = next(ctx, s)
		ended = true
		switch {
		case s.Many:
			span.SetAttributes(attribute.Int("messaging.batch.message_count", len(s.Specs)))
		case len(ids) == 1:
			span.SetAttributes(attribute.String("messaging.message.id", ids[0]))
		}
		return ids, err
	}
}

// Handle is a [scylla.HandleMiddleware]: a span "process <queue>".
func (t *Telemetry) Handle(next scylla.HandleFunc) scylla.HandleFunc {
	return func(ctx context.Context, task *scylla.TaskInfo) (err error) {
		known := attributes("process", task.Queue)
		carrier := propagation.MapCarrier{}
		for key, value := range task.Meta {
			if text, ok := value.(string); ok {
				carrier[key] = text
			}
		}
		options := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(known...),
			trace.WithAttributes(attribute.String("messaging.message.id", task.ID),
				attribute.String("scylla.action", task.Action), attribute.Int("scylla.try", task.Tries)),
		}
		sender := t.propagator.Extract(ctx, carrier)
		if task.Tries <= 1 {
			ctx = sender
		} else {
			options = append(options, trace.WithNewRoot())
			if linked := trace.SpanContextFromContext(sender); linked.IsRemote() {
				options = append(options, trace.WithLinks(trace.Link{SpanContext: linked}))
			}
		}
		ctx, span := t.tracer.Start(ctx, "process "+task.Queue, options...)
		begun := time.Now()
		ended := false
		defer func() {
			if !ended {
				err = errPanic
			}
			var snooze *scylla.SnoozeError
			if err != nil && !errors.As(err, &snooze) { // later is no failure
				known = append(known, t.fail(span, context.Cause(ctx), err))
			}
			t.consumed.Add(ctx, 1, metric.WithAttributes(known...))
			t.handling.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(known...))
			span.End()
		}()
		err = next(ctx, task)
		ended = true
		return err
	}
}

var errPanic = errors.New("panic in other middleware")

// fail notes an error in the span and returns its type.
func (t *Telemetry) fail(span trace.Span, cause, err error) attribute.KeyValue {
	errorType := attribute.String("error.type", typeOf(cause, err))
	span.SetAttributes(errorType)
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	return errorType
}

func typeOf(cause, err error) string {
	var abort *scylla.AbortError
	var server *scylla.Error
	switch {
	case errors.As(err, &abort):
		return abort.Code
	case cause == scylla.ErrCancelled:
		return "cancelled"
	case cause == scylla.ErrLeaseLost:
		return "lease_lost"
	case cause == scylla.ErrTimeLimit:
		return "time_limit"
	case cause == scylla.ErrShutdown:
		return "shutdown"
	case errors.As(err, &server):
		return server.Code
	}
	return fmt.Sprintf("%T", err)
}

func attributes(operation, queue string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "scylla"),
		attribute.String("messaging.destination.name", queue),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation),
	}
}
