// Package secret fetches the secrets that a configuration refers to: from the output of a
// command, from a file, and from the keyring of the user. They are fetched when a server
// is started, and again when it is started anew.
//
//	secret.go   Fetcher and Round: one fetch for all that need the same secret
//	fill.go     puts secrets in place of the references of an upstream
//	command.go  ${cmd:...}
//	file.go     ${file:...}
//	sign.go     a command that signs runs
//	keyring.go  ${keyring:...}, and the commands that change it
//	names.go    the names of the secrets in the keyring, which has no list of them
//
// A value is given to the server, and to the maskers of the configuration, which keep it
// out of logs and records. No other copy is kept, and none is written to a file.
package secret

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const (
	// fetchTime is how long a fetch may take. A person may have to unlock something.
	fetchTime = time.Minute
	// maxValue is the size limit of a secret, in bytes.
	maxValue = 64 << 10
)

// Source fetches secrets. The error names neither the upstream nor its setting, and has no
// part of a value in it.
type Source interface {
	Fetch(ctx context.Context, r config.Reference) (string, error)
}

// Fetcher is a Source that fetches each secret anew, but only once for all that ask for it
// at the same time. It is safe for concurrent use.
type Fetcher struct{ group }

// NewFetcher returns a Fetcher. log gets warnings.
func NewFetcher(log *slog.Logger) *Fetcher {
	return newFetcher(fetcher{log: log, limit: fetchTime}.fetch)
}

func newFetcher(fetch fetchFunc) *Fetcher { return &Fetcher{group{fetch: fetch}} }

// NewRound returns a Source that fetches each secret once. It is for servers that are
// started together, and keeps the values for as long as one of them refers to it.
func (f *Fetcher) NewRound() Source { return &group{fetch: f.Fetch, keep: true} }

type fetchFunc func(ctx context.Context, r config.Reference) (string, error)

// group makes one fetch for all that ask for a reference at the same time, and with keep
// also for those who ask later.
type group struct {
	fetch fetchFunc
	keep  bool

	mu      sync.Mutex
	fetches map[config.Reference]*fetch
}

// fetch is one fetch, which may be over.
type fetch struct {
	done   chan struct{} // closed when it is over
	value  string        // set before done is closed, as err is
	err    error
	asking int // who waits for it; guarded by the mutex of the group
	cancel context.CancelFunc
}

// Fetch implements Source. A fetch ends early when nobody waits for it any more.
func (g *group) Fetch(ctx context.Context, r config.Reference) (string, error) {
	f := g.join(ctx, r)
	select {
	case <-f.done:
		g.leave(r, f)
		return f.value, f.err
	case <-ctx.Done():
		if g.leave(r, f) {
			<-f.done // it has been cancelled
		}
		return "", context.Cause(ctx)
	}
}

// join returns the fetch of a reference, and begins it if there is none. The caller has to
// leave it.
func (g *group) join(ctx context.Context, r config.Reference) *fetch {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.fetches[r]
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx)) // others may need it for longer
		if g.fetches == nil {
			g.fetches = map[config.Reference]*fetch{}
		}
		g.fetches[r] = f
		go func() { // the last one to leave waits for it
			defer close(f.done)
			f.value, f.err = g.fetch(ctx, r)
		}()
	}
	f.asking++
	return f
}

// leave is called when somebody does not wait for a fetch any more. It returns true if
// nobody does; the fetch has been cancelled then.
func (g *group) leave(r config.Reference, f *fetch) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.asking--
	over := false
	select {
	case <-f.done:
		over = true
	default:
	}
	last = f.asking == 0
	if last {
		f.cancel()
	}
	if (over && !g.keep || last && !over) && g.fetches[r] == f {
		delete(g.fetches, r)
	}
	return last
}

// fetcher fetches secrets from where they are.
type fetcher struct {
	log   *slog.Logger
	limit time.Duration
}

// fetch fetches a secret and checks it.
func (f fetcher) fetch(ctx context.Context, r config.Reference) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.limit, fmt.Errorf("no value within %s", units.FormatDuration(f.limit)))
	defer cancel()
	fetchers := map[config.ReferenceKind]fetchFunc{
		config.FromCommand: f.command, config.FromFile: f.file, config.FromKeyring: f.keyring,
	}
	value, err := fetchers[r.Kind](ctx, r)
	if err == nil {
		value, err = check(r, value)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	if len(value) < config.MinSecret {
		f.log.Warn(fmt.Sprintf("a secret of fewer than %d characters is not masked in logs", config.MinSecret), "secret", r.String())
	}
	return value, nil
}

// check returns the value without the line break at its end, which commands and editors add.
func check(r config.Reference, value string) (string, error) {
	if r.Kind != config.FromKeyring {
		value = trimLine(value)
	}
	switch {
	case value == "":
		return "", fmt.Errorf("the value is empty")
	case strings.ContainsRune(value, 0):
		return "", fmt.Errorf("the value has a NUL character")
	}
	return value, nil
}

func trimLine(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
