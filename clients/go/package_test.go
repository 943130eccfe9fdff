package scylla_test

import (
	"archive/zip"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"scylla.example/scylla"
)

func read(t *testing.T, file string) string {
	t.Helper()
	return string(must(os.ReadFile(file))(t))
}

func TestCoreStaysSmall(t *testing.T) {
	t.Parallel()
	lines := 0
	for _, file := range []string{"worker.go", "exchange.go", "lease.go", "wait.go"} {
		for line := range strings.Lines(read(t, file)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	if lines >= 900 {
		t.Fatal(lines)
	}
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	direct := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1)
	if len(direct) != 1 || direct[0][1] != "github.com/jackc/pgx/v5" {
		t.Fatal(direct)
	}
	if !strings.Contains(read(t, "CHANGELOG.md"), "## "+scylla.Version) {
		t.Fatal("the changelog does not name the version")
	}
	for _, module := range []string{"go.mod", "scyllaotel/go.mod"} {
		if !strings.Contains(read(t, module), "github.com/jackc/pgx/v5 v5.12.0") {
			t.Fatal(module)
		}
	}
}

func TestExamples(t *testing.T) {
	folder := t.TempDir()
	outputs := map[string]string{
		"first-worker": "welcome, ann@example.com\nsent: true\ntrue\n",
		"transaction":  "{\"order\": 1} ready\n{\"order\": 2} ready\nduplicate: true\nfailed: true\ntask: \"\"\n",
	}
	found := must(os.ReadDir("examples"))(t)
	equal(t, len(found), len(outputs))
	for name, expected := range outputs {
		program := filepath.Join(folder, name)
		if output, err := exec.Command("go", "build", "-o", program, "./examples/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%s", output)
		}
		example := exec.Command(program)
		var printed, log strings.Builder
		example.Stdout, example.Stderr = &printed, &log
		if err := example.Run(); err != nil {
			t.Fatal(name, err, log.String())
		}
		equal(t, printed.String(), expected)
	}
}

// packModule puts a module into a folder that serves as a module proxy.
func packModule(t *testing.T, proxy, module, from string) {
	t.Helper()
	folder := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	version := "v" + scylla.Version
	info := fmt.Sprintf(`{"Version": %q}`, version)
	for name, text := range map[string]string{version + ".info": info, "list": version, version + ".mod": read(t, from+"/go.mod")} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := must(os.Create(filepath.Join(folder, version+".zip")))(t)
	defer file.Close()
	archive := zip.NewWriter(file)
	for _, pattern := range []string{"*.go", "go.mod", "go.sum", "LICENSE", "scyllatest/*.go"} {
		names, _ := filepath.Glob(filepath.Join(from, pattern))
		for _, name := range names {
			relative := must(filepath.Rel(from, name))(t)
			entry := must(archive.Create(module + "@" + version + "/" + relative))(t)
			if _, err := entry.Write([]byte(read(t, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestConsumer: a module outside of the tree gets the packed modules by their versions, and builds the
// programs of the README.
func TestConsumer(t *testing.T) {
	folder, proxy := t.TempDir(), t.TempDir()
	packModule(t, proxy, "scylla.example/scylla", ".")
	packModule(t, proxy, "scylla.example/scylla/scyllaotel", "scyllaotel")
	blocks := regexp.MustCompile("(?s)```go\n(// ([a-z_]+)\\.go\n.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) < 4 {
		t.Fatal("the README has no programs")
	}
	for _, block := range blocks {
		inside := filepath.Join(folder, block[2])
		if err := os.MkdirAll(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inside, block[2]+".go"), []byte(block[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOPROXY=file://"+proxy+","+goEnv(t, "GOPROXY"), "GONOSUMDB=scylla.example",
			"GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOFLAGS=-mod=mod", "GOWORK=off",
			"GODEBUG=goindex=0") // which has what a module of this version imported in an earlier run
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %s", args, output)
		}
		return string(output)
	}
	// a module of this version that an earlier run has packed is another one
	cache := goEnv(t, "GOMODCACHE")
	for _, stale := range []string{"cache/download/scylla.example", "scylla.example"} {
		path := filepath.Join(cache, stale)
		_ = exec.Command("chmod", "-R", "u+w", path).Run()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	command("mod", "init", "consumer")
	version := "@v" + scylla.Version
	command("get", "scylla.example/scylla"+version, "scylla.example/scylla/scyllatest"+version, "scylla.example/scylla/scyllaotel"+version)
	command("mod", "tidy")
	command("vet", "./...")
	if modules := command("list", "-m", "all"); !strings.Contains(modules, "scylla.example/scylla v"+scylla.Version) {
		t.Fatal(modules)
	}
	// the core alone does not need OpenTelemetry
	deps := command("list", "-deps", "scylla.example/scylla")
	if strings.Contains(deps, "opentelemetry") || !strings.Contains(deps, "pgx") {
		t.Fatal(deps)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(string(must(exec.Command("go", "env", name).Output())(t)))
}

// TestPages: the pages of docs with Go in them, followed as a reader would.
func TestPages(t *testing.T) {
	repo := os.Getenv("SCYLLA_REPO")
	docs := filepath.Join(repo, "docs")
	pages := map[string]string{}
	err := filepath.WalkDir(docs, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			if text := read(t, path); strings.Contains(text, "\n```go\n") {
				pages[must(filepath.Rel(docs, path))(t)] = text
			}
		}
		return err
	})
	if err != nil || pages["tutorial/go.md"] == "" {
		t.Fatal("the tutorial is missing", err)
	}
	for page, text := range pages {
		t.Run(page, func(t *testing.T) {
			module := "app"
			if named := regexp.MustCompile(`(?m)^go mod init (\S+)$`).FindStringSubmatch(text); named != nil {
				module = named[1]
			}
			folder := t.TempDir()
			here := must(os.Getwd())(t)
			db := database(t)
			program := func(name string, args ...string) {
				t.Helper()
				cmd := exec.Command(name, args...)
				cmd.Dir = folder
				cmd.Env = append(os.Environ(), "PGDATABASE="+db, "GOWORK=off",
					"PATH="+os.Getenv("SCYLLA_BIN")+":"+os.Getenv("PATH"))
				if !strings.Contains(text, "\ngo mod tidy") { // such a page has to say it wherever it is needed
					cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod")
				}
				if output, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s %v: %s", name, args, output)
				}
			}
			program("go", "mod", "init", module)
			for _, sub := range []string{"", "/scyllaotel"} {
				name := "scylla.example/scylla" + sub
				program("go", "mod", "edit", "-require="+name+"@v"+scylla.Version, "-replace="+name+"="+here+sub)
			}
			program(filepath.Join(repo, "scripts/check/follow"), "go", filepath.Join(docs, page), folder)
		})
	}
}

// database is a new one on the server of all tests.
func database(t *testing.T) string {
	t.Helper()
	name := "page_" + strings.ToLower(rand.Text()[:8])
	if err := createDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}
