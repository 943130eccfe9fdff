package scylla_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"scylla.example/scylla"
)

func TestConnectionsAreOneAndAtMostFour(t *testing.T) {
	t.Parallel()
	for concurrency, most := range map[int]int{1: 2, 3: 4, 50: 5} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			queue := newQueue(t)
			must(newClient().SubmitMany(t.Context(), queue, make([]any, 2_000), nil))(t)
			s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: concurrency, Lease: time.Second, Coalesce: -1,
				Handlers: scylla.Handlers{"": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
					time.Sleep(time.Millisecond)
					return nil
				})}})
			seen := 0
			name := "scylla-pg go/" + scylla.Version + " " + s.Name()
			until(t, "all are done", func() bool {
				seen = max(seen, value[int](t, "select count(*)::int from pg_stat_activity where application_name = left($1, 63)", name))
				return s.Stats().Completed == 2_000
			})
			if seen < 2 || seen > most {
				t.Fatal(seen)
			}
		})
	}
}

func TestEveryConnectionIsTerminated(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Name: "victim-" + queue,
		Handlers: scylla.Handlers{"": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
			time.Sleep(time.Millisecond)
			return nil
		})}})
	for range 5 {
		must(newClient().SubmitMany(t.Context(), queue, make([]any, 100), nil))(t)
		run(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1", "%victim-"+queue)
		time.Sleep(100 * time.Millisecond)
	}
	untilStatuses(t, queue, "completed=500")
	until(t, "each is counted once", func() bool { return s.Stats() == scylla.Stats{Completed: 500} })
	equal(t, value[int](t, "select sum(tries)::int from scylla.tasks where queue = $1", queue), 500)
}

// TestRestarts: through two immediate restarts and a kill -9 of a worker each task ends and counts once. A
// crash of the server forgets leases that are younger than a second: each may cost a task one more run.
func TestRestarts(t *testing.T) {
	queue := newQueue(t)
	const total, crashes = 3_000, 2
	must(newClient().SubmitMany(t.Context(), queue, make([]any, total), nil))(t)
	var mu sync.Mutex
	runs, running := map[string]int{}, map[string]bool{}
	handler := scylla.Handle(func(ctx context.Context, task *scylla.Task[any]) error {
		mu.Lock()
		runs[task.ID]++
		twice := running[task.ID]
		running[task.ID] = true
		mu.Unlock()
		time.Sleep(4 * time.Millisecond)
		mu.Lock()
		running[task.ID] = twice
		mu.Unlock()
		if twice {
			return scylla.Abort("twice", "it runs already")
		}
		return nil
	})
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 8, Lease: 5 * time.Second,
		Handlers: scylla.Handlers{"": handler, "sleep": handler}})
	victim := start(t, queue, "LEASE=5")
	killed := submit(t, queue, slept(60), scylla.SubmitOptions{Action: "sleep", Priority: 1})
	until(t, "it runs", func() bool { return entry(t, killed).Status != scylla.StatusReady })
	_ = victim.cmd.Process.Kill()
	for range crashes {
		before := s.Stats().Completed
		until(t, "it works", func() bool { return s.Stats().Completed > before+200 })
		pg(t, "stop", "immediate")
		pg(t, "restart")
		pool.Reset()
	}
	until(t, "the server takes calls", func() bool {
		_, err := newClient().Task(t.Context(), killed)
		return err == nil
	})
	untilStatuses(t, queue, fmt.Sprint("completed=", total+1))
	until(t, "each counts once", func() bool { return s.Stats().Completed == total+1 })
	rows := must(pool.Query(t.Context(), "select id::text from scylla.tasks where queue = $1", queue))(t)
	ids := must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	assigned := value[map[string]int](t, "select jsonb_object_agg(id, (select count(*) from jsonb_array_elements(history) as h "+
		"where h ->> '_typ' = 'TaskAssignment')) from scylla.tasks where queue = $1", queue)
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		if runs[id] < 1 || runs[id] > assigned[id]+crashes {
			t.Fatalf("task %s ran %d times and was owned %d times", id, runs[id], assigned[id])
		}
	}
}

func TestHandlersGoOnWhileTheServerIsAway(t *testing.T) {
	queue := newQueue(t)
	handler, stopped := sleeping()
	id := submit(t, queue, 1_500, scylla.SubmitOptions{})
	s := serveOne(t, queue, handler)
	untilStatuses(t, queue, "running=1")
	time.Sleep(1100 * time.Millisecond) // leases that are younger are not in the table
	pg(t, "stop", "immediate")
	time.Sleep(600 * time.Millisecond)
	pg(t, "restart")
	pool.Reset()
	until(t, "it is completed", func() bool { return s.Stats().Completed == 1 })
	equal(t, len(stopped), 0)
	equal(t, len(assignments(entry(t, id))), 1)
}

func TestStopWithoutAServer(t *testing.T) {
	queue := newQueue(t)
	worker := start(t, queue, "GRACE=0.5", "LEASE=60")
	submit(t, queue, slept(60), scylla.SubmitOptions{Action: "sleep"})
	worker.untilSaid(t, "begin", 1)
	pg(t, "stop", "immediate")
	begun := time.Now()
	worker.signal(t, 15)
	worker.end(t)
	took := time.Since(begun)
	pg(t, "restart")
	pool.Reset()
	if took > 5500*time.Millisecond {
		t.Fatal(took)
	}
	equal(t, worker.said(scylla.ErrShutdown.Error()), 1)
}

func TestServerThatIsAwayAtTheStart(t *testing.T) {
	queue := newQueue(t)
	submit(t, queue, nil, scylla.SubmitOptions{})
	pg(t, "stop", "fast")
	s := serveOne(t, queue, scylla.Handle(nothing))
	time.Sleep(200 * time.Millisecond)
	pg(t, "restart")
	pool.Reset()
	until(t, "it is completed", func() bool { return s.Stats().Completed == 1 })
}

// proxy is between a worker and the server. Armed, it lets the next request through and loses the
// answer with the connection.
type proxy struct {
	net.Listener
	armed atomic.Int32
	lost  atomic.Int32
}

func newProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	p := &proxy{Listener: must(net.Listen("tcp", "127.0.0.1:0"))(t)}
	t.Cleanup(func() { p.Close() })
	go func() {
		for {
			client, err := p.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				client.Close()
				continue
			}
			var deaf atomic.Bool
			go func() {
				defer client.Close()
				for buffer := make([]byte, 1<<16); ; {
					n, err := server.Read(buffer)
					if err != nil {
						return
					}
					if !deaf.Load() {
						_, _ = client.Write(buffer[:n])
					}
				}
			}()
			go func() {
				defer server.Close()
				for buffer := make([]byte, 1<<16); ; {
					n, err := client.Read(buffer)
					if err != nil {
						return
					}
					if p.armed.Load() > 0 && p.armed.Add(-1) >= 0 {
						deaf.Store(true)
						p.lost.Add(1)
						time.AfterFunc(200*time.Millisecond, func() { client.Close() })
					}
					_, _ = server.Write(buffer[:n])
				}
			}()
		}
	}()
	return p
}

func TestReturnWhoseAnswerIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	queue, conn := newQueue(t), connConfig(t)
	p := newProxy(t, net.JoinHostPort("127.0.0.1", fmt.Sprint(conn.Port)))
	conn.Host, conn.Port = "127.0.0.1", uint16(p.Addr().(*net.TCPAddr).Port)
	conn.Fallbacks = nil
	goOn := make(chan struct{})
	s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 2, Handlers: scylla.Handlers{
		"wait": scylla.HandleResult(func(context.Context, *scylla.Task[any]) (int, error) {
			<-goOn
			return 1, nil
		}),
		"snooze": scylla.Handle(func(context.Context, *scylla.Task[any]) error {
			<-goOn
			return scylla.Snooze(time.Hour)
		}),
	}})
	for i, action := range []string{"wait", "snooze", "wait"} {
		id := submit(t, queue, nil, scylla.SubmitOptions{Action: action})
		until(t, "it runs", func() bool { return entry(t, id).Status == scylla.StatusRunning })
		time.Sleep(150 * time.Millisecond) // the worker waits
		p.armed.Store(1)
		goOn <- struct{}{}
		until(t, "it is counted", func() bool { return s.Stats().Completed+s.Stats().Yielded+s.Stats().Lost == int64(i+1) })
		equal(t, len(assignments(entry(t, id))), 1)
	}
	equal(t, s.Stats(), scylla.Stats{Completed: 2, Yielded: 1})
	equal(t, p.lost.Load(), 3)
}

func TestClosedDatabase(t *testing.T) {
	t.Parallel()
	own := ownDatabase(t)
	conn := must(pgx.ConnectConfig(t.Context(), own.Copy()))(t)
	defer conn.Close(context.Background())
	client := scylla.NewClient(conn, nil)
	s := serveAt(t, own, scylla.WorkerConfig{Queues: []string{"q"}, Wait: 200 * time.Millisecond,
		Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	for i, open := range []bool{true, false, true} {
		must(conn.Exec(t.Context(), "select scylla.open($1)", open))(t)
		id := must(client.Submit(t.Context(), "q", nil, nil))(t)
		if open {
			until(t, "all are completed", func() bool { return s.Stats().Completed == int64(i+1) })
			continue
		}
		time.Sleep(700 * time.Millisecond)
		equal(t, must(client.Task(t.Context(), id))(t).Status, scylla.StatusReady)
	}
}

// TestWhatAnIdleWorkerSends: one statement for each wait, and nothing else.
func TestWhatAnIdleWorkerSends(t *testing.T) {
	t.Parallel()
	queue, conn := newQueue(t), connConfig(t)
	conn.RuntimeParams["log_statement"] = "all"
	log := filepath.Join(os.Getenv("SCYLLA_FOLDER"), "server", "server.log")
	run(t, "alter system set log_line_prefix = '[%a] '")
	run(t, "select pg_reload_conf()")
	defer func() {
		run(t, "alter system reset log_line_prefix")
		run(t, "select pg_reload_conf()")
	}()
	time.Sleep(100 * time.Millisecond)
	name := "idle-" + queue
	serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Name: name, Wait: 150 * time.Millisecond,
		Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	kind := regexp.MustCompile(`execute [^:]*: .*?(about|heartbeat|own_tasks|wait_for_event)`)
	var kinds string
	until(t, "there are waits", func() bool {
		kinds = ""
		text, _ := os.ReadFile(log)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, name+"]") || !strings.Contains(line, "execute") && !strings.Contains(line, "statement:") {
				continue
			}
			if found := kind.FindStringSubmatch(line); found != nil {
				kinds += found[1] + " "
			} else {
				kinds += "?" + line
			}
		}
		return strings.Count(kinds, "wait") > 8
	})
	equal(t, strings.ReplaceAll(kinds, "wait_for_event ", ""), "about heartbeat own_tasks ")
}

func TestPreparedStatementsThatAPoolerLost(t *testing.T) {
	t.Parallel()
	queue, conn := newQueue(t), connConfig(t)
	var mu sync.Mutex
	queries := 0
	conn.Tracer = tracer(func(ctx context.Context, c *pgx.Conn, sql string) {
		mu.Lock()
		defer mu.Unlock()
		if queries++; queries%5 == 0 && queries < 40 && !strings.HasPrefix(sql, "call") {
			// behind the back of pgx, which goes on to believe in them
			_, _ = c.PgConn().Exec(ctx, "deallocate all").ReadAll()
		}
	})
	var warnings warningCounter
	s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Concurrency: 1, Logger: slog.New(&warnings),
		Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	for i := range 15 {
		submit(t, queue, nil, scylla.SubmitOptions{})
		until(t, "it is completed", func() bool { return s.Stats().Completed == int64(i+1) })
	}
	equal(t, s.Stats(), scylla.Stats{Completed: 15})
	equal(t, warnings.Load(), 0)
}

// warningCounter counts what a worker warns of.
type warningCounter struct{ atomic.Int32 }

func (*warningCounter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (c *warningCounter) Handle(context.Context, slog.Record) error {
	c.Add(1)
	return nil
}
func (c *warningCounter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *warningCounter) WithGroup(string) slog.Handler      { return c }

type tracer func(ctx context.Context, conn *pgx.Conn, sql string)

func (f tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	f(ctx, conn, data.SQL)
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestDatabaseWithoutScylla(t *testing.T) {
	t.Parallel()
	conn := connConfig(t)
	conn.Database = "postgres"
	worker := must(scylla.NewWorker(conn, &scylla.WorkerConfig{
		Queues: []string{"q"}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)}, Logger: quiet,
	}))(t)
	err := worker.Run(t.Context())
	if !errors.Is(err, scylla.ErrIncompatible) || !strings.Contains(err.Error(), "create extension scylla") {
		t.Fatal(err)
	}
}

func TestPasswordThatChanges(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	submit(t, queue, nil, scylla.SubmitOptions{})
	var asked atomic.Int32
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)},
		BeforeConnect: func(_ context.Context, config *pgx.ConnConfig) error {
			switch asked.Add(1) {
			case 1:
				return io.ErrUnexpectedEOF
			case 2, 3:
				config.User = "absent"
			}
			return nil
		}})
	until(t, "it is completed", func() bool { return s.Stats().Completed == 1 })
}

func TestRoleThatMayOnlyWork(t *testing.T) {
	t.Parallel()
	queue, conn := newQueue(t), connConfig(t)
	role := strings.ReplaceAll("worker_"+queue, "-", "_")
	run(t, "create role "+role+" login")
	submit(t, queue, nil, scylla.SubmitOptions{})
	run(t, "select scylla.grant($1, $2::text::regrole, '{work}')", queue, role)
	conn.User = role
	s := serveAt(t, conn, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	until(t, "it is completed", func() bool { return s.Stats().Completed == 1 })
}

func TestWorkerThatHearsOfWorkAndNeverGetsAnyDoesNotHurry(t *testing.T) {
	t.Parallel()
	conn := ownDatabase(t)
	admin := must(pgx.ConnectConfig(t.Context(), conn.Copy()))(t)
	defer admin.Close(context.Background())
	must(admin.Exec(t.Context(), "create or replace procedure scylla.wait_for_event(worker text, queues text[], "+
		"timeout interval default '30 s', actions text[] default null, inout event text default null, "+
		"inout queue text default null) language plpgsql as $$begin event := 'work'; end$$"))(t)
	var statements atomic.Int32
	conn.Tracer = tracer(func(context.Context, *pgx.Conn, string) { statements.Add(1) })
	serveAt(t, conn, scylla.WorkerConfig{Queues: []string{"q"}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)}})
	time.Sleep(1500 * time.Millisecond)
	if sent := statements.Load(); sent < 5 || sent > 60 {
		t.Fatal(sent)
	}
}

// ownDatabase is a database of this test alone.
func ownDatabase(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	conn := connConfig(t)
	conn.Database = strings.ReplaceAll("own_"+newQueue(t), "-", "_")
	if err := createDatabase(t.Context(), conn.Database); err != nil {
		t.Fatal(err)
	}
	return conn
}
