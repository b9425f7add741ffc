package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// BenchmarkBlocked makes many runs wait for a slow tool at once. It reports the memory
// that each of them holds; pages that several share are divided among them (PSS).
func BenchmarkBlocked(b *testing.B) {
	for _, runs := range []int{100, 1000} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			s := realSandbox(b)
			var held float64
			for b.Loop() {
				before := proportional(b)
				blocked := newBlockedScripts(b, s, runs)
				held = max(0, proportional(b)-before) / float64(runs)
				blocked.release()
			}
			b.ReportMetric(held, "B/run")
		})
	}
}

// blockedScripts are scripts that wait for a tool.
type blockedScripts struct {
	b      *testing.B
	answer chan struct{}
	done   chan error
}

func newBlockedScripts(b *testing.B, s *Sandbox, n int) *blockedScripts {
	w := &blockedScripts{b: b, answer: make(chan struct{}), done: make(chan error, n)}
	waiting := make(chan struct{}, n)
	tools := func(_ context.Context, c abi.ToolCall) abi.Answer {
		waiting <- struct{}{}
		<-w.answer
		return abi.Answer{Value: c.Arguments}
	}
	for range n {
		go func() {
			out, err := s.Run(b.Context(), Run{Request: request("return s.echo({'n': 1}).n", "{}"), Caller: &fakeCaller{tools: tools}})
			if err == nil && string(out.Result) != "1" {
				err = fmt.Errorf("result %s, %+v", out.Result, out.Err)
			}
			w.done <- err
		}()
	}
	for range n {
		<-waiting
	}
	return w
}

func (w *blockedScripts) release() {
	close(w.answer)
	for range cap(w.done) {
		if err := <-w.done; err != nil {
			w.b.Error(err)
		}
	}
}

// proportional returns the PSS of this process in bytes (proc_pid_smaps(5)).
func proportional(b *testing.B) float64 {
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		b.Skip("this system does not tell: ", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			var kb float64
			if _, err := fmt.Sscan(text, &kb); err != nil {
				b.Fatal(err)
			}
			return kb * 1024
		}
	}
	b.Fatal("no Pss in smaps_rollup")
	return 0
}
