package smoke

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// mocked runs scripts of checks with mocked answers, without upstreams.
type mocked struct {
	scripts *scripts
	sandbox func() *sandbox.Sandbox
	log     *slog.Logger
	cfg     *config.Config
}

// call runs the script of a check.
func (m *mocked) call(ctx context.Context, c *Check, f *File) (*answer, error) {
	def, err := c.definition(m.scripts.savedTools)
	if err != nil {
		return nil, err
	}
	answers, err := c.Mock.cassette(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.offline:
		return nil, broken(err, "there is no cassette %s (smoke --record writes it, without --offline)", c.Mock.File)
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(err, "there is no cassette %s (smoke --record calls the servers and writes it)", c.Mock.File)
	case err != nil:
		return nil, broken(err, "%v", err)
	}
	box := m.sandbox()
	select { // the time for compiling is not part of the check
	case <-box.Ready():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var made runs
	composer := compose.New(compose.Options{
		Sandbox: box, Catalog: answers, Upstreams: answers, Saved: m.scripts, Log: m.log, AgentTools: builtin.Mentioned,
		Timeout: m.cfg.Execution.Timeout, Limits: host.RunLimits(m.cfg.Execution), Debug: m.cfg.Debug,
		Parallel: m.cfg.Execution.MaxParallel, UndoTimeout: m.cfg.Execution.UndoTimeout, Whole: true, Mocked: true,
		Moment: compose.MockMoment, Observer: &made,
	})
	var run asked
	a, err := runScript(run.within(ctx), c, f, func(ctx context.Context, call route.Call) []byte {
		return composer.CallSaved(ctx, def, call).Result
	})
	a.run = run.record()
	if missing := answers.Unmatched(); err == nil && !a.cancelled && len(missing) > 0 {
		a.unmocked = missing
	}
	return a, err
}

// runScript calls a composite tool without a session.
func runScript(ctx context.Context, c *Check, f *File, call func(ctx context.Context, call route.Call) []byte) (*answer, error) {
	limited, cancel := withTimeout(ctx, c, f)
	defer cancel()
	limited, cancel = c.withCancelAfter(limited)
	defer cancel()
	a := &answer{}
	var mu sync.Mutex // parallel calls of a script report progress concurrently
	begun := time.Now()
	a.result = call(limited, route.Call{Method: protocol.MethodToolsCall, Params: c.request(c.toolName()), Progress: func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		a.progress = append(a.progress, p)
	}})
	a.took = time.Since(begun)
	if limited.Err() == nil {
		return a, nil
	}
	err := c.endError(limited, a, context.Cause(limited))
	if a.cancelled {
		a.stopped = a.took - c.CancelAfter
	}
	return a, err
}

// unmockedText lists the calls without a mock.
func unmockedText(missing []*cassette.UnmatchedError) string {
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "; ")
}
