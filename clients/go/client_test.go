package scylla_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"scylla.example/scylla"
)

func TestTransactionOfPgx(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	tx := must(pool.Begin(ctx))(t)
	id := must(client.With(tx).Submit(ctx, queue, nil, nil))(t)
	savepoint := must(tx.Begin(ctx))(t)
	must(client.With(savepoint).Submit(ctx, queue, nil, nil))(t)
	if err := savepoint.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Task(ctx, id); !errors.Is(err, scylla.ErrNotFound) {
		t.Fatalf("it is seen before the commit: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	equal(t, entry(t, id).Status, scylla.StatusReady)
	tx = must(pool.Begin(ctx))(t)
	must(client.With(tx).Submit(ctx, queue, nil, nil))(t)
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	equal(t, statuses(t, queue), "ready=1")
}

func TestTransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	ctx, queue := t.Context(), newQueue(t)
	db := must(sql.Open("pgx", ""))(t)
	defer db.Close()
	client := scylla.NewSQLClient(db, nil)
	for _, commit := range []bool{true, false} {
		tx := must(db.BeginTx(ctx, nil))(t)
		// either client goes into either transaction
		must(client.WithSQL(tx).Submit(ctx, queue, "from database/sql", nil))(t)
		must(newClient().WithSQL(tx).SubmitMany(ctx, queue, []any{1, 2}, nil))(t)
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, statuses(t, queue), "ready=3")
	_, err := client.Submit(ctx, "", nil, nil)
	var server *scylla.Error
	var driver *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "22023" || !errors.As(err, &driver) {
		t.Fatalf("%#v", err)
	}
	id := must(client.Submit(ctx, queue, nil, &scylla.SubmitOptions{PostResult: true}))(t)
	must(client.Cancel(ctx, id))(t)
	settled := must(client.Wait(ctx, id))(t)
	equal(t, settled.Status, scylla.StatusCancelled)
}

func TestEachModeOfPgx(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			ctx, queue := t.Context(), newQueue(t)
			conn := must(pgx.Connect(ctx, "default_query_exec_mode="+mode))(t)
			defer conn.Close(ctx)
			client := scylla.NewClient(conn, nil)
			id := must(client.Submit(ctx, queue, "it's", &scylla.SubmitOptions{
				Key: `a "b" \c`, After: []string{}, Meta: map[string]any{"n": 1}, PostResult: true,
			}))(t)
			ids := must(client.SubmitMany(ctx, queue, []any{`{"\`, nil}, &scylla.SubmitManyOptions{Keys: []string{`x,"\`, ""}}))(t)
			equal(t, len(ids), 2)
			equal(t, *entry(t, ids[0]).Key, `x,"\`)
			equal(t, must(client.TaskID(ctx, queue, `a "b" \c`))(t), id)
			must(client.Cancel(ctx, id))(t)
			equal(t, must(client.Wait(ctx, id))(t).Status, scylla.StatusCancelled)
			must(serveModes(t, mode, queue))(t)
		})
	}
}

// serveModes lets a worker in the mode run what the queue has.
func serveModes(t *testing.T, mode, queue string) (*server, error) {
	conn, err := pgx.ParseConfig("default_query_exec_mode=" + mode)
	if err != nil {
		return nil, err
	}
	s := serveAt(t, conn, scylla.WorkerConfig{
		Queues: []string{queue}, Handlers: scylla.Handlers{"": scylla.Handle(nothing)},
	})
	untilStatuses(t, queue, "cancelled=1 completed=2")
	return s, nil
}

func TestKeyConflicts(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	first := submit(t, queue, nil, scylla.SubmitOptions{Key: "k"})
	_, err := client.Submit(ctx, queue, nil, &scylla.SubmitOptions{Key: "k"})
	if !errors.Is(err, scylla.ErrDuplicate) || errors.Is(err, scylla.ErrQueueFull) {
		t.Fatal(err)
	}
	equal(t, submit(t, queue, nil, scylla.SubmitOptions{Key: "k", OnConflict: scylla.ConflictIgnore}), first)
	second := submit(t, queue, nil, scylla.SubmitOptions{Key: "k", OnConflict: scylla.ConflictReplace})
	equal(t, entry(t, first).Status, scylla.StatusCancelled)
	equal(t, must(client.TaskID(ctx, queue, "k"))(t), second)
	equal(t, must(client.TaskID(ctx, queue, "other"))(t), "")
}

func TestEachOptionReachesTheServer(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	before := submit(t, queue, nil, scylla.SubmitOptions{})
	id := "01890000-0000-7000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
	runAt := time.Now().Add(time.Hour).Round(time.Microsecond)
	submit(t, queue, []int{1}, scylla.SubmitOptions{
		Action: "a", Priority: 4294967295, ID: id, Key: "k", RunAt: runAt, After: []string{before},
		OnFailure: scylla.FailureRun, MaxTries: scylla.NoLimit, RetryInterval: 1500 * time.Millisecond, RetryJitter: -time.Second,
		Lease: 100 * 365 * 24 * time.Hour, PostResult: true, GroupKey: "g", Meta: map[string]any{"m": 1},
	})
	e := entry(t, id)
	if e.Action != "a" || e.Priority != 4294967295 || *e.Key != "k" || !e.RunAt.Equal(runAt) || e.After[0] != before ||
		*e.MaxTries != 0 || *e.GroupKey != "g" || string(e.Spec) != "[1]" {
		t.Fatalf("%+v", e)
	}
	equal(t, value[string](t, "select concat_ws(' ', run_on_failure, retry_interval, retry_jitter, timeout > '99 years', "+
		"post_result, meta) from scylla.task where id = $1", id), `t 00:00:01.5 00:00:00 t t {"m": 1}`)
	_, err := newClient().Submit(t.Context(), queue, nil, &scylla.SubmitOptions{RunAt: runAt, Delay: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "both") {
		t.Fatal(err)
	}
	later := entry(t, submit(t, queue, nil, scylla.SubmitOptions{Delay: time.Hour}))
	if wait := later.RunAt.Sub(later.Created); wait < time.Hour-time.Second || wait > time.Hour+time.Second {
		t.Fatal(wait)
	}
}

// recorder is a database that notes what it is asked.
type recorder struct {
	sql  string
	args []any
}

func (r *recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	r.sql, r.args = sql, args
	return nil, errors.New("recorded")
}

func TestWhatIsNotGivenIsNotSent(t *testing.T) {
	t.Parallel()
	var db recorder
	client := scylla.NewClient(&db, nil)
	_, _ = client.Submit(t.Context(), "q", nil, &scylla.SubmitOptions{Key: "k", UniqueFor: time.Hour})
	equal(t, db.sql, "select scylla.submit(queue => $1::text, key => $2::text, unique_for => $3::text::interval)::text")
	equal(t, fmt.Sprint(db.args), "[q k 3600.000000 seconds]")
	_, _ = client.Submit(t.Context(), "q", nil, nil)
	equal(t, db.sql, "select scylla.submit(queue => $1::text)::text")
}

func TestHundredThousandInBatches(t *testing.T) {
	ctx, queue := t.Context(), newQueue(t)
	specs := make([]any, 100_000)
	for i := range specs {
		specs[i] = i
	}
	ids := must(newClient().SubmitMany(ctx, queue, specs, &scylla.SubmitManyOptions{Batch: 30_000}))(t)
	equal(t, len(ids), 100_000)
	for _, i := range []int{0, 29_999, 30_000, 99_999} {
		equal(t, string(entry(t, ids[i]).Spec), fmt.Sprint(i))
	}
	equal(t, value[bool](t, "select scylla.drop_queue($1)", queue), true)
}

func TestManyAreAllOrNone(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	_, err := client.SubmitMany(ctx, queue, []any{1, 2}, &scylla.SubmitManyOptions{Keys: []string{"a", "a"}})
	if !errors.Is(err, scylla.ErrDuplicate) {
		t.Fatal(err)
	}
	if _, err = client.SubmitMany(ctx, queue, []any{1, 2}, &scylla.SubmitManyOptions{IDs: []string{""}}); err == nil {
		t.Fatal("one id for two specs")
	}
	equal(t, statuses(t, queue), "")
	ids := must(client.SubmitMany(ctx, queue, []any{1, 2}, &scylla.SubmitManyOptions{
		Action: "a", Keys: []string{"a", ""}, GroupKeys: []string{"", "g"}, Meta: map[string]any{"m": 1}, Delay: time.Hour,
	}))(t)
	first, second := entry(t, ids[0]), entry(t, ids[1])
	if *first.Key != "a" || second.Key != nil || first.GroupKey != nil || *second.GroupKey != "g" ||
		second.Action != "a" || second.Status != scylla.StatusWaiting {
		t.Fatalf("%+v %+v", first, second)
	}
	equal(t, len(must(client.SubmitMany(ctx, queue, nil, nil))(t)), 0)
}

func TestSubmitTasks(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	first := "01890000-0000-7000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
	tasks := []scylla.SubmitTask{
		{Queue: queue, Spec: 1, SubmitOptions: scylla.SubmitOptions{ID: first, RetryInterval: time.Minute, MaxTries: 3}},
		{Queue: queue, SubmitOptions: scylla.SubmitOptions{After: []string{first}, Priority: 7, Meta: map[string]any{"m": 1}}},
		{Queue: queue, SubmitOptions: scylla.SubmitOptions{ID: first}},
		{Queue: queue, SubmitOptions: scylla.SubmitOptions{Priority: -1}},
	}
	submitted := must(client.SubmitTasks(ctx, tasks, &scylla.SubmitTasksOptions{AllowPartial: true}))(t)
	outcomes := ""
	for _, one := range submitted {
		outcomes += string(one.Outcome) + " "
	}
	equal(t, outcomes, "inserted inserted duplicate invalid ")
	if submitted[3].Error == "" {
		t.Fatal("no reason")
	}
	e := entry(t, submitted[1].ID)
	if e.Status != scylla.StatusWaiting || e.After[0] != first || e.Priority != 7 {
		t.Fatalf("%+v", e)
	}
	if _, err := client.SubmitTasks(ctx, tasks[2:3], nil); !errors.Is(err, scylla.ErrDuplicate) {
		t.Fatal(err)
	}
}

func TestSpecComesBackAsItWas(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, spec := range []string{
		`9007199254740993`, `-9223372036854775808`, `"🙂 é \"\\ '"`, deep, `{"<a>": "&"}`, `[1.5, true, null]`,
	} {
		var expected, found any
		id := submit(t, queue, json.RawMessage(spec), scylla.SubmitOptions{})
		text := entry(t, id).Spec
		if !strings.Contains(spec, "<") && len(spec) < 30 {
			equal(t, string(text), spec)
		}
		_ = json.Unmarshal([]byte(spec), &expected)
		_ = json.Unmarshal(text, &found)
		if !reflect.DeepEqual(found, expected) {
			t.Fatalf("%s, not %s", text, spec)
		}
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	for code, spec := range map[string]any{
		"54000": strings.Repeat("x", 2<<20), "22P05": "\x00", "22023": (*int)(nil), "": make(chan int),
	} {
		_, err := client.Submit(ctx, queue, spec, nil)
		var server *scylla.Error
		if err == nil || code != "" && (!errors.As(err, &server) || server.Code != code) {
			t.Fatalf("%s: %v", code, err)
		}
	}
	equal(t, statuses(t, queue), "")
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	run(t, "select scylla.configure_queue($1, max_ready => 1)", queue)
	submit(t, queue, nil, scylla.SubmitOptions{})
	until(t, "the server has counted the tasks", func() bool {
		return value[bool](t, "select ready is not null from scylla.queues where queue = $1", queue)
	})
	if _, err := newClient().Submit(t.Context(), queue, nil, nil); !errors.Is(err, scylla.ErrQueueFull) {
		t.Fatal(err)
	}
}

func TestRoleWithoutThePrivilege(t *testing.T) {
	t.Parallel()
	ctx, queue := t.Context(), newQueue(t)
	tx := must(pool.Begin(ctx))(t)
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "create role powerless; set local role powerless"); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient().With(tx).Submit(ctx, queue, nil, nil); !errors.Is(err, scylla.ErrNotPermitted) {
		t.Fatal(err)
	}
}

func TestCallsAboutTasks(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	id := submit(t, queue, nil, scylla.SubmitOptions{GroupKey: "g"})
	equal(t, must(client.Delay(ctx, id, time.Now().Add(time.Hour)))(t), true)
	equal(t, must(client.Why(ctx, id))(t), "due in 60 min")
	equal(t, must(client.Cancel(ctx, id))(t), true)
	equal(t, must(client.Cancel(ctx, id))(t), false)
	absent := "01890000-0000-7000-8000-000000000000"
	if _, err := client.Cancel(ctx, absent); !errors.Is(err, scylla.ErrNotFound) {
		t.Fatal(err)
	}
	open := submit(t, queue, nil, scylla.SubmitOptions{})
	many := must(client.CancelMany(ctx, []string{id, absent, open}))(t)
	if want := []scylla.CancelOutcome{scylla.CancelSettled, scylla.CancelNotFound, scylla.CancelDone}; !slices.Equal(many, want) {
		t.Fatal(many)
	}
	again := must(client.Resubmit(ctx, []string{id, absent}))(t)
	equal(t, again[1], "")
	equal(t, entry(t, again[0]).Status, scylla.StatusReady)
	equal(t, must(client.CancelGroup(ctx, queue, "g"))(t), 1)
	equal(t, must(client.Delete(ctx, []string{id, again[0]}))(t), 2)
	equal(t, must(client.DrainWorker(ctx, "absent-worker"))(t), false)
}

func TestResult(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	type number struct{ N int64 }
	s := serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{
		"double": scylla.HandleResult(func(_ context.Context, task *scylla.Task[number]) (number, error) {
			return number{2 * task.Spec.N}, nil
		}),
		"abort": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return scylla.Abort("never", "not today") }),
		"retry": scylla.Handle(func(context.Context, *scylla.Task[any]) error { return errors.New("broken") }),
		"none":  scylla.Handle(nothing),
	}})
	var result number
	id := submit(t, queue, number{4503599627370497}, scylla.SubmitOptions{Action: "double", PostResult: true})
	if err := client.Result(ctx, id, &result); err != nil {
		t.Fatal(err)
	}
	equal(t, result.N, 9007199254740994)
	id = submit(t, queue, nil, scylla.SubmitOptions{Action: "none", PostResult: true})
	if err := client.Result(ctx, id, &result); err != nil {
		t.Fatal(err)
	}
	for action, description := range map[string]string{"abort": "not today", "retry": "broken"} {
		id := submit(t, queue, nil, scylla.SubmitOptions{Action: action, PostResult: true, MaxTries: 1})
		err := client.Result(ctx, id, nil)
		var failed *scylla.TaskFailedError
		if !errors.As(err, &failed) || !errors.Is(err, scylla.ErrTaskFailed) || failed.Status != scylla.StatusAborted ||
			!strings.HasSuffix(err.Error(), description) {
			t.Fatal(err)
		}
	}
	equal(t, s.Stats().Completed, 2)
}

func TestWaitEndsWithItsContextAndKeepsTheConnection(t *testing.T) {
	t.Parallel()
	own := must(pgxpool.New(t.Context(), "pool_max_conns=1"))(t)
	defer own.Close()
	client := scylla.NewClient(own, nil)
	pid := func() (pid int) {
		if err := own.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first := pid()
	id := must(client.Submit(t.Context(), newQueue(t), nil, &scylla.SubmitOptions{PostResult: true}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := client.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 250*time.Millisecond || took > 900*time.Millisecond {
		t.Fatal(took)
	}
	equal(t, pid(), first)
	mine := errors.New("mine")
	cancelled, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { stop(mine) })
	begun = time.Now()
	if err := client.Result(cancelled, id, nil); !errors.Is(err, mine) {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Fatal(took)
	}
	equal(t, pid(), first)
	plain := must(client.Submit(t.Context(), newQueue(t), nil, nil))(t)
	var server *scylla.Error
	if _, err := client.Wait(t.Context(), plain); !errors.As(err, &server) || server.Code != "55000" {
		t.Fatal(err)
	}
}

func TestSubmitMiddleware(t *testing.T) {
	t.Parallel()
	ctx, queue := t.Context(), newQueue(t)
	var seen []string
	around := func(name string) scylla.SubmitMiddleware {
		return func(next scylla.SubmitFunc) scylla.SubmitFunc {
			return func(ctx context.Context, s *scylla.Submission) ([]string, error) {
				seen = append(seen, fmt.Sprintf("%s%d%t", name, len(s.Specs), s.Many))
				s.Meta = map[string]any{"by": name}
				return next(ctx, s)
			}
		}
	}
	client := scylla.NewClient(pool, &scylla.ClientConfig{Middleware: []scylla.SubmitMiddleware{around("a"), around("b")}})
	options := &scylla.SubmitOptions{}
	id := must(client.Submit(ctx, queue, 1, options))(t)
	equal(t, value[string](t, "select meta ->> 'by' from scylla.tasks where id = $1", id), "b")
	tx := must(pool.Begin(ctx))(t)
	defer tx.Rollback(ctx)
	must(client.With(tx).SubmitMany(ctx, queue, []any{1, 2}, nil))(t)
	equal(t, strings.Join(seen, " "), "a1false b1false a2true b2true")
	if options.Meta != nil {
		t.Fatal("the caller's options were changed")
	}
}

func TestActionSubmitsWhatItHandles(t *testing.T) {
	t.Parallel()
	ctx, queue, client := t.Context(), newQueue(t), newClient()
	type resize struct {
		Width int `json:"width"`
	}
	action := scylla.Action[resize]{Queue: queue, Name: "resize"}
	must(action.Submit(ctx, client, resize{1}, &scylla.SubmitOptions{Priority: 1}))(t)
	must(action.SubmitMany(ctx, client, []resize{{2}, {3}}, nil))(t)
	widths := make(chan int, 3)
	serve(t, scylla.WorkerConfig{Queues: []string{queue}, Handlers: scylla.Handlers{
		action.Name: action.Handle(func(_ context.Context, task *scylla.Task[resize]) error {
			widths <- task.Spec.Width
			return nil
		}),
	}, Concurrency: 1})
	for expected := range 3 {
		equal(t, <-widths, expected+1)
	}
}
