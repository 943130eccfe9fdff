package scylla

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// RunUntilSignal is [Worker.Run] until SIGTERM or SIGINT, too. A second signal is [Worker.StopNow].
func (w *Worker) RunUntilSignal(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ended := make(chan struct{})
	defer func() {
		signal.Stop(signals)
		close(ended)
	}()
	go func() {
		for stop := w.Stop; ; stop = w.StopNow {
			select {
			case <-signals:
				stop()
			case <-ended:
				return
			}
		}
	}()
	return w.Run(ctx)
}

// RunAll runs workers as one, such as one for each database of a sharded application: until SIGTERM or
// SIGINT, until the context ends, or until one of them ends, which stops the others. Each drains as
// [Worker.RunUntilSignal] says. It returns the first error.
func RunAll(ctx context.Context, workers ...*Worker) error {
	ended := make(chan error, len(workers))
	for _, w := range workers {
		go func() { ended <- w.RunUntilSignal(ctx) }()
	}
	var first error
	for range workers {
		if err := <-ended; first == nil {
			first = err
		}
		for _, w := range workers {
			w.Stop()
		}
	}
	return first
}
