package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestMain makes this binary the commands that scripts use: the real one with a keyring of the
// test (see home), a client of it (see converse), and several kinds of upstream servers.
func TestMain(m *testing.M) {
	host.OpenStore = fleettest.Open
	commands := map[string]func(){
		"mcp-metatool": func() { mockKeyring(os.Getenv("KEYRING")); main() },
		folderProgram:  main,
		"fetch":        func() { os.Exit(fetch(os.Args[1:])) },
		"converse":     func() { os.Exit(converse(os.Args[1:])) },
		"conversehttp": func() { os.Exit(converseHTTP(os.Args[1:])) },
		"tellpage":     func() { os.Exit(tellPage(os.Args[1:])) },
		"visitpage":    func() { os.Exit(visitPage(os.Args[1:])) },
		"echo":         func() { os.Exit(serveEcho()) },
		"tracker":      func() { os.Exit(serveTracker()) },
		"hostile":      func() { os.Exit(serveHostile()) },
		"drifting":     func() { os.Exit(serveDrifting(os.Args[1])) },
		"crash":        func() { fmt.Fprintln(os.Stderr, "cannot reach "+os.Getenv("TOKEN")); os.Exit(3) },
		"garbage":      garbage,
		"largeanswers": func() { os.Exit(serveLargeAnswers()) },
		"stubborn":     stubborn,
		"interrupt":    func() { os.Exit(interrupt(os.Args[1], os.Args[2:])) },
		"decide":       func() { os.Exit(decide(os.Args[1:])) },
		"npx":          func() { os.Exit(serveEverything()) },
		"reader":       func() { os.Exit(serveReader()) },
		"starthost":    func() { os.Exit(starthost(os.Args[1], os.Args[2])) },
		"serveera":     func() { os.Exit(serveEra(os.Args[1])) },
		"scatter":      func() { os.Exit(scatter(os.Args[1:])) },
		"rechain":      func() { os.Exit(rechain(os.Args[1])) },
		"opensign":     func() { os.Exit(opensign(os.Args[1])) },
		"withregistry": func() { os.Exit(withRegistry(os.Args[1], os.Args[2:])) },
	}
	// Tests have a time zone that is not UTC; no test can set one, since timers that are running
	// read it. It comes before testscript.Main copies this binary.
	if commands[strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")] == nil {
		setZone()
	}
	testscript.Main(suite{m}, commands)
}

type suite struct{ *testing.M }

// Run runs the tests and removes the files that they share.
func (s suite) Run() int {
	// Under nohup, the programs that tests start would ignore SIGHUP. They do not if it
	// is caught here.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// Scripts wait for processes some of the time.
	_ = flag.Set("test.parallel", strconv.Itoa(3*max(2, runtime.GOMAXPROCS(0))))
	code := s.M.Run()
	if dir := homeDir; dir != "" {
		os.RemoveAll(dir)
	}
	return code
}

func TestScripts(t *testing.T) { t.Parallel(); runScripts(t, "script") }

// TestLongScripts runs the scripts of testdata/long, which take as long as all others together.
func TestLongScripts(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	runScripts(t, "long")
}

var long = flag.Bool("long", false, "run the tests that take long, too")

// onlyLong skips a test that .ci/run makes with -long.
func onlyLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("it takes long: add -long")
	}
}

func runScripts(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir:       filepath.Join("testdata", folder),
		Setup:     setUp,
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": checkExitCode, "gone": checkGone,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// condition reports whether [confines] is true: servers can be confined here.
func condition(name string) (bool, error) {
	if name != "confines" {
		return false, fmt.Errorf("unknown condition %s", name)
	}
	lacks := confine.Lacks(&confine.Settings{})
	if len(lacks) > 0 {
		fmt.Fprintf(os.Stderr, "servers cannot be confined here (%s): %s\n", confine.Level(), strings.Join(lacks, "; "))
	}
	return len(lacks) == 0, nil
}

// homeVariables are the environment variables for the home and cache directories on any
// system.
var homeVariables = []string{"HOME", "XDG_CACHE_HOME", "LocalAppData", "USERPROFILE"}

// ownEnviron is the environment before home changes it.
var ownEnviron = os.Environ()

// homeDir is set by home.
var homeDir string

// withKeyring is the folder with a mcp-metatool whose keyring has what KEYRING says: this binary.
var withKeyring string

// home makes the home directory of all tests. They share one, so that the sandbox is
// compiled only once. It puts the program into PATH as users have it.
var home = sync.OnceValue(func() (err error) {
	if homeDir, err = os.MkdirTemp("", "mcp-metatool-test-"); err != nil {
		return err
	}
	if err := install(filepath.Join(homeDir, "bin")); err != nil {
		return err
	}
	shared := guestcache.Dir()
	for _, name := range homeVariables {
		if err := os.Setenv(name, homeDir); err != nil {
			return err
		}
	}
	if shared != "" {
		own := cli.CacheDir(slog.New(slog.DiscardHandler))
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return err
		}
		_ = os.Symlink(shared, own) // if there are none, the guest is compiled here
	}
	box := sandbox.New(sandbox.Options{CacheDir: cli.CacheDir(slog.New(slog.DiscardHandler))})
	return errors.Join(box.Err(), box.Close())
})

// install puts the program into a folder, and that first into PATH. Without go, this binary, which
// is there already, has to do.
func install(dir string) error {
	mock, err := exec.LookPath("mcp-metatool")
	if err != nil {
		return err
	}
	withKeyring = filepath.Dir(mock)
	built, err := testenv.Executable(".", ownEnviron)
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	name := filepath.Join(dir, filepath.Base(mock))
	if os.Link(built, name) != nil { // another file system
		program, err := os.ReadFile(built)
		if err == nil {
			err = os.WriteFile(name, program, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// startsProgram prepares a test that starts the program and does not depend on other tests.
func startsProgram(t *testing.T) {
	t.Helper()
	if err := home(); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
}

// pathWithKeyring is a PATH that has the mcp-metatool with a keyring of the test.
func pathWithKeyring() string {
	return withKeyring + string(os.PathListSeparator) + os.Getenv("PATH")
}

func setUp(env *testscript.Env) error {
	if err := home(); err != nil {
		return err
	}
	for _, name := range homeVariables {
		env.Setenv(name, homeDir)
	}
	env.Setenv("TZ", "UTC")
	env.Setenv("GORACE", os.Getenv("GORACE")) // how the race detector behaves; see .ci/run
	env.Setenv("MCP_METATOOL_DIR", filepath.Join(env.WorkDir, "dir"))
	env.Setenv("PATH", os.Getenv("PATH"))
	env.Setenv("NO_KEYRING", os.Getenv("PATH"))
	env.Setenv("WITH_KEYRING", pathWithKeyring())
	return writeCertificate(env.WorkDir)
}

// serveEcho is an upstream with a tool that returns its arguments, and one that creates
// a file and waits to be cancelled, and then creates another file.
func serveEcho() int {
	server := demo.Server{{
		Definition: `{"name":"echo","inputSchema":{"type":"object","$ref":"#/definitions/x","definitions":{"x":{}}},"x-unknown":12345678901234567890}`,
		Call: func(_ context.Context, args []byte, _ func(int, int, string)) (any, error) {
			if bytes.Contains(args, []byte(`"fail"`)) {
				return nil, fmt.Errorf("told to fail\x1b[2J with %s", os.Getenv("TOKEN"))
			}
			if bytes.Contains(args, []byte(`"crash"`)) {
				fmt.Fprintln(os.Stderr, "cannot reach "+os.Getenv("TOKEN"))
				os.Exit(3)
			}
			return json.RawMessage(args), nil
		},
	}, {
		Definition: `{"name":"hang","inputSchema":{"type":"object"}}`,
		Call: func(ctx context.Context, _ []byte, progress func(int, int, string)) (any, error) {
			progress(1, 2, "hanging")
			if err := os.WriteFile("hangs", []byte("1"), 0o600); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, os.WriteFile("cancelled", []byte(context.Cause(ctx).Error()), 0o600)
		},
	}}
	options := clients.Options{Backend: echoServer{server}, Name: "echo", Version: "0", Log: slog.New(slog.DiscardHandler)}
	if clients.ServeStdio(context.Background(), os.Stdin, os.Stdout, options) != nil {
		return 1
	}
	return 0
}

// echoServer has the tools of a Server, and a few resources and prompts.
type echoServer struct{ demo.Server }

// BeginSession implements clients.Backend.
func (s echoServer) BeginSession(context.Context, route.Session) (route.InitializeResult, error) {
	return route.InitializeResult{Capabilities: []byte(`{"tools":{},"resources":{},"prompts":{}}`)}, nil
}

// Discover implements clients.Backend.
func (s echoServer) Discover(session route.Session) route.InitializeResult {
	w, _ := s.BeginSession(context.Background(), session)
	return w
}

// Handle implements clients.Backend.
func (s echoServer) Handle(ctx context.Context, call route.Call) wire.Reply {
	switch call.Method {
	case wire.Resources.ListMethod():
		return wire.Reply{Result: []byte(`{"resources":[{"uri":"echo://a","name":"a"},{"uri":"echo://b","name":"b"}]}`)}
	case wire.Templates.ListMethod():
		return wire.Reply{Result: []byte(`{"resourceTemplates":[{"uriTemplate":"echo://{x}","name":"x"}]}`)}
	case wire.Prompts.ListMethod():
		return wire.Reply{Result: []byte(`{"prompts":[{"name":"say it again"},{"name":"shout"}]}`)}
	}
	return s.Server.Handle(ctx, call)
}

// garbage is a server that does not write JSON-RPC.
func garbage() {
	fmt.Println("Welcome to the server!")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// stubborn is a server that neither answers nor ends when it should. It writes its
// process id to a file.
func stubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := os.WriteFile(os.Args[1], fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		os.Exit(1)
	}
	time.Sleep(time.Hour)
}

// interrupt runs a command, sends it SIGINT when a file exists, and returns its exit
// code.
func interrupt(file string, args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err := awaitFile(file)
	if err == nil {
		err = cmd.Process.Signal(os.Interrupt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// awaitFile waits for a file that is not empty.
func awaitFile(name string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(name)); err != nil {
		return err
	}
	timeout := time.After(time.Minute)
	for {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 {
			return nil
		}
		select {
		case <-watcher.Events:
		case err := <-watcher.Errors:
			return err
		case <-timeout:
			return fmt.Errorf("there is no %s", name)
		}
	}
}

// checkExitCode is a command of scripts: it runs a command, which must end with that exit code.
func checkExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND ...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// checkGone is a command of scripts: none of the processes whose ids are in the files may exist.
func checkGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: gone FILE ...")
	}
	for _, name := range args {
		pid, err := strconv.Atoi(ts.ReadFile(name))
		ts.Check(err)
		p, err := os.FindProcess(pid)
		if err == nil && p.Signal(syscall.Signal(0)) == nil {
			ts.Fatalf("%s: process %d is still there", name, pid)
		}
	}
}
