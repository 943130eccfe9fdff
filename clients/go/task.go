package scylla

import (
	"encoding/json"
	"math"
	"sync/atomic"
	"time"
)

// Task is what a handler gets: the task, with its spec decoded.
type Task[T any] struct {
	*TaskInfo
	// Spec is the spec as encoding/json decodes it. TaskInfo.Spec has its text.
	Spec T
}

// TaskInfo is a task as its worker owns it.
type TaskInfo struct {
	ID     string
	Queue  string
	Action string
	Spec   json.RawMessage
	// Key is empty when the task has none, as GroupKey is.
	Key      string
	GroupKey string
	Priority int64
	// Tries counts this one: it is 1 at first.
	Tries int
	// MaxTries is what holds for the task; 0: no limit.
	MaxTries int
	// NumFailures counts the tasks that this one waited for and that failed.
	NumFailures int
	Created     time.Time
	Meta        map[string]any

	deadline atomic.Int64 // microseconds since 1970; 0: never
	progress atomic.Pointer[float64]
}

// Deadline is when the lease ends unless the worker extends it, by the server's clock; the zero time:
// never. The worker extends it for as long as the handler runs.
func (t *TaskInfo) Deadline() time.Time {
	if deadline := t.deadline.Load(); deadline != 0 {
		return time.UnixMicro(deadline)
	}
	return time.Time{}
}

// SetProgress notes how far the task is, from 0 to 1. It is sent with the next heartbeat.
func (t *TaskInfo) SetProgress(fraction float64) {
	if math.IsNaN(fraction) {
		return
	}
	fraction = min(max(fraction, 0), 1)
	t.progress.Store(&fraction)
}

// Status is the status of a task.
type Status string

// The last three are final.
const (
	StatusWaiting   Status = "waiting"
	StatusReady     Status = "ready"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusAborted   Status = "aborted"
	StatusCancelled Status = "cancelled"
)

// Entry is a task as scylla.task shows it.
type Entry struct {
	ID              string          `json:"rn"`
	Queue           string          `json:"queue"`
	Action          string          `json:"action"`
	Key             *string         `json:"key"`
	Spec            json.RawMessage `json:"spec"`
	Priority        int64           `json:"priority"`
	Status          Status          `json:"status"`
	Progress        float64         `json:"progress"`
	Created         time.Time       `json:"created"`
	Updated         time.Time       `json:"updated"`
	RunAt           *time.Time      `json:"run_at"`
	Deadline        *time.Time      `json:"deadline"`
	Owner           *string         `json:"owner"`
	Tries           int             `json:"tries"`
	MaxTries        *int            `json:"max_tries"`
	NumFailures     int             `json:"num_failures"`
	After           []string        `json:"after"`
	Errors          []TaskError     `json:"errors"`
	Result          json.RawMessage `json:"result"`
	History         []Event         `json:"history"`
	GroupKey        *string         `json:"group_key"`
	Meta            map[string]any  `json:"meta"`
	ResubmittedFrom *string         `json:"resubmitted_from"`
}

// Event is an entry of a task's history.
type Event struct {
	// Type is TaskAssignment, TaskTimeout, TaskYield or TaskRetry.
	Type     string    `json:"_typ"`
	Worker   string    `json:"worker"`
	Time     time.Time `json:"time"`
	Progress *float64  `json:"progress"`
}
