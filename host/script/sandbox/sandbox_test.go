package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// fakeCaller answers tool calls with a function and records what it receives.
type fakeCaller struct {
	tools func(ctx context.Context, c abi.ToolCall) abi.Answer

	mu       sync.Mutex
	calls    []abi.ToolCall
	undo     []abi.ToolCall
	logs     []string
	levels   []abi.LogLevel
	progress []abi.Progress
	// onLog and onProgress, if set, are called with each entry and report. Log
	// returns sendLog.
	onLog      func(string)
	sendLog    func()
	onProgress func(abi.Progress)
}

func (f *fakeCaller) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	f.mu.Lock()
	f.calls = append(f.calls, calls...)
	f.mu.Unlock()
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		answers[i] = f.tools(ctx, c)
	}
	return answers
}

// Undo refuses the tool "refused".
func (f *fakeCaller) Undo(_ context.Context, call abi.ToolCall) *abi.CallError {
	f.mu.Lock()
	defer f.mu.Unlock()
	if call.Tool == "refused" {
		return &abi.CallError{Type: abi.ErrPermission, Server: call.Server, Tool: call.Tool, Message: "no"}
	}
	f.undo = append(f.undo, call)
	return nil
}

func (f *fakeCaller) Commit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undo = nil
}

func (f *fakeCaller) Log(level abi.LogLevel, text string) (send func()) {
	f.mu.Lock()
	f.logs, f.levels = append(f.logs, text), append(f.levels, level)
	f.mu.Unlock()
	if f.onLog != nil {
		f.onLog(text)
	}
	return f.sendLog
}

func (f *fakeCaller) Progress(p abi.Progress) {
	f.mu.Lock()
	f.progress = append(f.progress, p)
	f.mu.Unlock()
	if f.onProgress != nil {
		f.onProgress(p)
	}
}

// metered returns a handmade guest after the rewriting of the build. A guest that
// cannot be rewritten is returned unchanged: the host must refuse it.
func metered(wasm []byte) []byte {
	if out, err := rewrite.Guest(wasm, nil); err == nil {
		return out
	}
	return wasm
}

// newSandbox returns a sandbox that is closed at the end of the test. Its guest need
// not be metered.
func newSandbox(t testing.TB, opts Options) *Sandbox {
	t.Helper()
	if opts.Guest != nil {
		opts.Guest = metered(opts.Guest)
	}
	s := New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// real returns the sandbox with the embedded guest that all tests share, because
// compiling it takes seconds.
var real = sync.OnceValue(func() *Sandbox {
	if os.Getenv(withoutCache) != "" {
		return New(Options{})
	}
	s := New(Options{CacheDir: guestcache.Dir()})
	if <-s.trimmed; s.err == nil && s.base.program.cache != nil { // tests boot it again
		guest, err := os.ReadFile(filepath.Join(s.base.program.cache.dir, skeletonName))
		if err != nil {
			panic(err)
		}
		s.base.program.guest = guest
	}
	return s
})

// committed returns the embedded guest.
func committed(t testing.TB) []byte {
	t.Helper()
	guest, err := unpack()
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// withoutCache is the environment variable of a process that compiles the guest itself.
const withoutCache = "METATOOL_TEST_WITHOUT_CACHE"

func realSandbox(t testing.TB) *Sandbox {
	t.Helper()
	s := real()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}
