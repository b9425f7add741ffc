package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// bench is a run of the benchmark.
type bench struct {
	binary, everything string
	calls, starts      int
	rounds             int

	self string // this program
	dir  string // temporary
}

// times are measurements in any order.
type times []time.Duration

// percentile returns the smallest value at or above p percent of the values (nearest rank).
func (t times) percentile(p int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// kind is a kind of call.
type kind struct {
	client       client
	params, want string
	times        times
}

// pair is a call through the binary and the direct call to compare with.
type pair struct {
	name            string
	through, direct *kind
}

// measureCalls returns a row for each kind of call through the binary, and a rate for each kind
// that can also be called directly.
func (b *bench) measureCalls(ctx context.Context) (rows []row, rates []rate, err error) {
	p, err := b.open(ctx)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return nil, nil, err
	}
	// A call is compared with a call to the same server over the same transport of the client,
	// without the binary between them.
	overStdio, overHTTP := echoing(p.echo, "echo"), echoing(p.echoHTTP, "echo")
	pairs := []pair{
		{stdioToStdio, echoing(p.proxy, "echo__echo"), overStdio},
		{httpToStdio, echoing(p.proxyHTTP, "echo__echo"), overHTTP},
		{httpToHTTP, echoing(p.proxyHTTP, "remote__echo"), overHTTP},
	}
	kinds := []*kind{overStdio, overHTTP}
	if p.node != nil {
		node := echoing(p.node, "echo")
		pairs = append(pairs, pair{"echo, server-everything, stdio->stdio", echoing(p.proxy, "everything__echo"), node})
		kinds = append(kinds, node)
	}
	for _, p := range pairs {
		kinds = append(kinds, p.through)
	}
	composites, err := b.composites(p.proxy)
	if err != nil {
		return nil, nil, err
	}
	// Composite calls load the machine, so they are measured separately, and compared with a
	// proxied call that takes turns with them.
	proxied := echoing(p.proxy, "echo__echo")
	for _, group := range [][]*kind{kinds, append(composites, proxied)} {
		if err := b.takeTurns(group); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range pairs {
		rows = append(rows, row{name: p.name, times: p.through.times, base: p.direct.times})
	}
	rows = append(rows, row{name: proxiedEcho, times: proxied.times})
	for i, c := range scripts {
		rows = append(rows, row{name: c.name, times: composites[i].times})
	}
	rates, err = measureRates(pairs)
	return rows, rates, err
}

// echoing returns the kind of call of an echo tool.
func echoing(c client, tool string) *kind {
	const hello = `hello, 17 bytes..`
	return &kind{client: c, params: `{"name":"` + tool + `","arguments":{"message":"` + hello + `"}}`, want: hello}
}

// Names of rows with a goal.
const (
	stdioToStdio  = "echo, Go server, stdio->stdio"
	httpToStdio   = "echo, Go server, HTTP->stdio"
	httpToHTTP    = "echo, Go server, HTTP->HTTP"
	proxiedEcho   = "echo, stdio->stdio, in turn with composites"
	compositeNone = "composite without calls"
	compositeTen  = "composite, 10 calls of the Go server"
)

// scripts are the called composite tools. Composite calls need the binary, so they are compared
// with a proxied call.
var scripts = []struct{ name, tool, code string }{
	{compositeNone, "bench_none", `return params["message"]`},
	{"composite, 1 call of the Go server", "bench_one", `return echo.echo(message = params["message"])`},
	{compositeTen, "bench_ten",
		"out = \"\"\nfor i in range(10):\n    out = echo.echo(message = params[\"message\"])\nreturn out"},
}

// composites saves the composite tools.
func (b *bench) composites(proxied client) ([]*kind, error) {
	var kinds []*kind
	for _, s := range scripts {
		definition, err := json.Marshal(map[string]any{"name": "save_tool", "arguments": map[string]any{
			"name": s.tool, "description": s.name, "code": s.code,
			"inputSchema": map[string]any{"type": "object"},
		}})
		if err != nil {
			return nil, err
		}
		if err := call(proxied, string(definition), s.tool); err != nil {
			return nil, err
		}
		kinds = append(kinds, &kind{client: proxied, want: "hello", params: `{"name":"` + s.tool + `","arguments":{"message":"hello"}}`})
	}
	return kinds, nil
}

// takeTurns makes all calls of all kinds, one of each in every round, so that other load on the
// machine affects all kinds alike. The order changes from round to round, because a call affects
// the caches for the next call.
func (b *bench) takeTurns(kinds []*kind) error {
	warmup := max(b.calls/10, 20)
	order := slices.Clone(kinds)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range warmup + b.calls {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, k := range order {
			began := time.Now()
			if err := call(k.client, k.params, k.want); err != nil {
				return err
			}
			if i >= warmup {
				k.times = append(k.times, time.Since(began))
			}
		}
	}
	return nil
}

// measureStarts compares the start of the binary with the start of a server alone.
func (b *bench) measureStarts(ctx context.Context) ([]row, error) {
	config, err := b.configure("")
	if err != nil {
		return nil, err
	}
	serve := []string{b.binary, "serve", "--config", config}
	commands := []struct {
		row   string // "" if only for comparison
		cache string
		argv  []string
		times times
	}{
		{"", "", []string{b.self, serverVerb}, nil},
		{"mcp-metatool, nothing cached", "cold", serve, nil},
		{"mcp-metatool, guest compiled before", "calls", serve, nil},
		{"server-everything alone", "", []string{"node", b.everything}, nil},
	}
	for range b.starts {
		for i := range commands {
			cmd := &commands[i]
			if cmd.argv[1] == "" {
				continue
			}
			if cmd.cache == "cold" {
				if err := os.RemoveAll(filepath.Join(b.dir, cmd.cache)); err != nil {
					return nil, err
				}
			}
			c, took, err := start(ctx, b.env(cmd.cache), cmd.argv[0], cmd.argv[1:]...)
			if err != nil {
				return nil, err
			}
			cmd.times = append(cmd.times, took)
			if err := c.close(); err != nil {
				return nil, err
			}
		}
	}
	var rows []row
	for _, cmd := range commands {
		if cmd.row != "" && len(cmd.times) > 0 {
			rows = append(rows, row{name: cmd.row, times: cmd.times, base: commands[0].times})
		}
	}
	return rows, nil
}

const (
	concurrency = 64 // calls at once
	rateRounds  = 3  // of each kind
	rateTime    = 400 * time.Millisecond
)

// rate has the calls per second in each round, through the binary and made
// directly.
type rate struct {
	name            string
	through, direct []float64
}

// measureRates measures in rounds, each kind right after the kind to compare with.
func measureRates(pairs []pair) ([]rate, error) {
	rates := make([]rate, len(pairs))
	for round := range rateRounds + 1 {
		for i, p := range pairs {
			direct, err := measureRate(p.direct, rateTime)
			if err != nil {
				return nil, err
			}
			through, err := measureRate(p.through, rateTime)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				continue // the first round warms up
			}
			rates[i].name = p.name
			rates[i].through = append(rates[i].through, through)
			rates[i].direct = append(rates[i].direct, direct)
		}
	}
	return rates, nil
}

// measureRate makes calls from concurrency goroutines, and returns the number of calls per second.
// Each goroutine makes at least one call, so that a slow machine has a rate too.
func measureRate(k *kind, during time.Duration) (float64, error) {
	var done atomic.Int64
	var group errgroup.Group
	began := time.Now()
	for range concurrency {
		group.Go(func() error {
			for {
				if err := call(k.client, k.params, k.want); err != nil {
					return err
				}
				done.Add(1)
				if time.Since(began) >= during {
					return nil
				}
			}
		})
	}
	err := group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// joinRates adds the rates of more to all. Both have the same kinds, unless all is empty.
func joinRates(all, more []rate) []rate {
	if all == nil {
		return more
	}
	for i := range all {
		all[i].through, all[i].direct = append(all[i].through, more[i].through...), append(all[i].direct, more[i].direct...)
	}
	return all
}

// ratio is the ratio of the medians.
func (r rate) ratio() float64 { return median(r.through) / median(r.direct) }

func rateTable(out io.Writer, rates []rate) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "throughput at %d calls at once\tcalls/s\tdirect\tratio\t\n", concurrency)
	for _, r := range rates {
		own, base := median(r.through), median(r.direct)
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t\n", r.name, own, base, r.ratio())
	}
	w.Flush()
	fmt.Fprintln(out)
}

func median(of []float64) float64 {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
