package scylla_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"scylla.example/scylla"
)

// The script test has started a server, and set PGHOST, PGPORT and so on.

var pool *pgxpool.Pool // of the database that most tests share

func TestMain(m *testing.M) {
	if os.Getenv("SCYLLA_TEST_PROGRAM") != "" {
		program()
		return
	}
	if os.Getenv("SCYLLA_FOLDER") == "" {
		fmt.Println("run clients/go/test: it starts a server")
		os.Exit(1)
	}
	ctx := context.Background()
	name := "go_" + strings.ToLower(rand.Text()[:8])
	if err := createDatabase(ctx, name); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("PGDATABASE", name)
	var err error
	if pool, err = pgxpool.New(ctx, "pool_max_conns=8"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	pool.Close()
	os.Exit(code)
}

func createDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, "dbname=postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err = conn.Exec(ctx, "create database "+name); err != nil {
		return err
	}
	inside, err := pgx.Connect(ctx, "dbname="+name)
	if err != nil {
		return err
	}
	defer inside.Close(ctx)
	_, err = inside.Exec(ctx, "create extension scylla")
	return err
}

// ---- the server ----

// pg runs scripts/pg on the server's folder.
func pg(t *testing.T, command string, args ...string) {
	t.Helper()
	args = append([]string{command, filepath.Join(os.Getenv("SCYLLA_FOLDER"), "server")}, args...)
	if output, err := exec.Command(os.Getenv("SCYLLA_REPO")+"/scripts/pg", args...).CombinedOutput(); err != nil {
		t.Fatalf("scripts/pg %v: %v\n%s", args, err, output)
	}
}

// serverProcesses are the postmaster and its children.
func serverProcesses(t *testing.T) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("SCYLLA_FOLDER"), "server", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	postmaster := strings.SplitN(string(text), "\n", 2)[0]
	pids := []int{atoi(postmaster)}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "\nPPid:\t"+postmaster+"\n") {
			pids = append(pids, atoi(filepath.Base(filepath.Dir(file))))
		}
	}
	return pids
}

// freeze stops the server's processes until thaw is called.
func freeze(t *testing.T) (thaw func()) {
	t.Helper()
	pids := serverProcesses(t)
	_ = syscall.Kill(pids[0], syscall.SIGSTOP) // no more children from here on
	pids = serverProcesses(t)
	for _, pid := range pids[1:] {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	thaw = sync.OnceFunc(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// ---- tests ----

func newClient() *scylla.Client { return scylla.NewClient(pool, nil) }

// newQueue is a queue of no other test.
func newQueue(t *testing.T) string {
	t.Helper()
	return "q-" + strings.ToLower(rand.Text()[:10])
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func value[T any](t *testing.T, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return must(pgx.CollectExactlyOneRow(rows, pgx.RowTo[T]))(t)
}

func run(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func submit(t *testing.T, queue string, spec any, options scylla.SubmitOptions) string {
	t.Helper()
	return must(newClient().Submit(t.Context(), queue, spec, &options))(t)
}

func entry(t *testing.T, id string) *scylla.Entry {
	t.Helper()
	return must(newClient().Task(t.Context(), id))(t)
}

// statuses is how many tasks of a queue have which status, such as "completed=2 ready=1".
func statuses(t *testing.T, queue string) string {
	t.Helper()
	return value[string](t, "select coalesce(string_agg(status || '=' || n, ' ' order by status), '') from "+
		"(select status, count(*) as n from scylla.tasks where queue = $1 group by 1) as s", queue)
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func untilStatuses(t *testing.T, queue, expected string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		found := statuses(t, queue)
		if found == expected {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("statuses are %q, not %q", found, expected)
		}
	}
}

func equal[T comparable](t *testing.T, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("found %v, expected %v", found, expected)
	}
}

func connConfig(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	return must(pgx.ParseConfig(""))(t)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

type server struct {
	*scylla.Worker
	ended chan error
}

// serve runs a worker, which is stopped at the test's end.
func serve(t *testing.T, config scylla.WorkerConfig) *server {
	t.Helper()
	return serveAt(t, connConfig(t), config)
}

func serveAt(t *testing.T, conn *pgx.ConnConfig, config scylla.WorkerConfig) *server {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet
	}
	s := &server{must(scylla.NewWorker(conn, &config))(t), make(chan error, 1)}
	go func() { s.ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		s.StopNow()
		s.end(t)
	})
	return s
}

// end waits for the end of Run.
func (s *server) end(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Error(err)
		}
		s.ended <- nil
	case <-time.After(40 * time.Second):
		t.Error("the worker does not end")
	}
}

// serveOne is a worker of one queue whose tasks have no action.
func serveOne(t *testing.T, queue string, handler scylla.Handler) *server {
	t.Helper()
	return serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{"": handler}})
}

func nothing(context.Context, *scylla.Task[any]) error { return nil }

// ---- a worker in a process of its own ----

// program serves the queue of its environment. It writes what happens to handlers, one line each.
func program() {
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	type spec struct{ Seconds float64 }
	conn, err := pgx.ParseConfig("")
	if err != nil {
		panic(err)
	}
	number := func(name string) float64 {
		n, _ := strconv.ParseFloat(os.Getenv(name), 64)
		return n
	}
	worker, err := scylla.NewWorker(conn, &scylla.WorkerConfig{
		Queues:      []string{os.Getenv("SCYLLA_TEST_PROGRAM")},
		Concurrency: int(number("CONCURRENCY")),
		Lease:       time.Duration(number("LEASE") * 1e9),
		Grace:       time.Duration(number("GRACE") * 1e9),
		Handlers: scylla.Handlers{
			"sleep": scylla.Handle(func(ctx context.Context, task *scylla.Task[spec]) error {
				say("begin", task.ID, task.Tries)
				select {
				case <-time.After(time.Duration(task.Spec.Seconds * 1e9)):
					say("end", task.ID)
					return nil
				case <-ctx.Done():
					say(context.Cause(ctx), task.ID)
					return ctx.Err()
				}
			}),
			"ignore": scylla.Handle(func(ctx context.Context, task *scylla.Task[spec]) error {
				say("begin", task.ID, task.Tries)
				context.AfterFunc(ctx, func() { say(context.Cause(ctx), task.ID) })
				time.Sleep(time.Duration(task.Spec.Seconds * 1e9))
				say("end", task.ID)
				return nil
			}),
		},
	})
	if err != nil {
		panic(err)
	}
	if err := worker.RunUntilSignal(context.Background()); err != nil {
		panic(err)
	}
	say(fmt.Sprintf("exit %+v", worker.Stats()))
}

type process struct {
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	read  chan struct{}
}

func start(t *testing.T, queue string, environment ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), read: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "SCYLLA_TEST_PROGRAM="+queue), environment...)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		<-p.read
		if t.Failed() {
			t.Log(strings.Join(p.lines, "\n"))
		}
	})
	return p
}

func (p *process) said(words string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, line := range p.lines {
		if strings.Contains(line, words) {
			count++
		}
	}
	return count
}

func (p *process) untilSaid(t *testing.T, words string, count int) {
	t.Helper()
	until(t, fmt.Sprint(count, " times ", words), func() bool { return p.said(words) >= count })
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end, with status 0, and returns the last line.
func (p *process) end(t *testing.T) string {
	t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	<-p.read
	return p.lines[len(p.lines)-1]
}
