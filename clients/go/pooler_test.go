package scylla_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"scylla.example/scylla"
)

// pooled starts PgBouncer in transaction mode, and returns how to connect to it.
func pooled(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	conn := connConfig(t)
	file := filepath.Join(os.Getenv("SCYLLA_FOLDER"), fmt.Sprint("pooler-", port, ".ini"))
	err := os.WriteFile(file, fmt.Appendf(nil, `
[databases]
* = host=127.0.0.1 port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
`, conn.Port, conn.User, port), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	bouncer := exec.Command(os.Getenv("SCYLLA_REPO")+"/scripts/pg", "run-as-server", "/usr/sbin/pgbouncer", file)
	bouncer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it is a child of the script
	if err := bouncer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-bouncer.Process.Pid, syscall.SIGTERM)
		_ = bouncer.Wait()
	})
	conn.Host, conn.Port, conn.Fallbacks = "127.0.0.1", uint16(port), nil
	until(t, "the pooler answers", func() bool {
		c, err := pgx.ConnectConfig(t.Context(), conn.Copy())
		if err != nil {
			return false
		}
		return c.Close(t.Context()) == nil
	})
	return conn
}

// TestPgBouncer: Debian's of 2023 knows no prepared statements.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	ctx, queue, conn := t.Context(), newQueue(t), pooled(t)
	config := must(pgxpool.ParseConfig(""))(t)
	config.ConnConfig = conn.Copy()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.MaxConns = 3
	through := must(pgxpool.NewWithConfig(ctx, config))(t)
	defer through.Close()
	client := scylla.NewClient(through, nil)
	handler, stopped := sleeping()
	specs := make([]any, 1000)
	for i := range specs {
		specs[i] = 2
	}
	must(client.SubmitMany(ctx, queue, specs, nil))(t)
	var warnings warningCounter
	s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 8, Lease: 5 * time.Second,
		Logger: slog.New(&warnings),
		Handlers: scylla.Handlers{"": handler, "double": scylla.HandleResult(
			func(_ context.Context, task *scylla.Task[int]) (int, error) { return 2 * task.Spec, nil })}})
	until(t, "all are completed", func() bool { return s.Stats().Completed == 1000 })
	var result int
	id := must(client.Submit(ctx, queue, 7, &scylla.SubmitOptions{Action: "double", PostResult: true}))(t)
	if err := client.Result(ctx, id, &result); err != nil {
		t.Fatal(err)
	}
	equal(t, result, 14)
	id = must(client.Submit(ctx, queue, 60_000, nil))(t)
	untilStatuses(t, queue, "completed=1001 running=1")
	before := time.Now()
	must(client.Cancel(ctx, id))(t)
	h := receive(t, stopped)
	equal(t, h.cause, scylla.ErrCancelled)
	if took := h.when.Sub(before); took > 300*time.Millisecond {
		t.Fatal(took)
	}
	equal(t, s.Stats().Completed, 1001)
	equal(t, s.Stats().Lost, 0)
	equal(t, warnings.Load(), 0)
}
