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
