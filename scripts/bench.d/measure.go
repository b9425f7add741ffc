package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench is one run.
type bench struct {
	binary, everything string
	calls, starts      int

	self string // this program
	dir  string // temporary
}

// times are measurements in any order.
type times []time.Duration

// percentile is the smallest value that p percent are not above (nearest rank).
func (t times) percentile(p int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// kind is one way of making a call.
type kind struct {
	client       *client
	params, want string
	times        times
}

// measureCalls gives a row for each kind of call that goes through the binary.
func (b *bench) measureCalls(ctx context.Context) (rows []row, err error) {
	var clients []*client
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.close())
		}
	}()
	open := func(command string, args ...string) (*client, error) {
		c, _, err := start(ctx, b.env("calls"), command, args...)
		if err == nil {
			clients = append(clients, c)
		}
		return c, err
	}
	config, err := b.configure()
	if err != nil {
		return nil, err
	}
	proxied, err := open(b.binary, "serve", "--config", config)
	if err != nil {
		return nil, err
	}
	echo, err := open(b.self, serverVerb)
	if err != nil {
		return nil, err
	}
	const hello = `hello, 17 bytes..`
	params := func(name string) string {
		return `{"name":"` + name + `","arguments":{"message":"` + hello + `"}}`
	}
	direct := &kind{client: echo, params: params("echo"), want: hello}
	names := []string{"echo, Go server"}
	kinds := []*kind{direct, {client: proxied, params: params("echo__echo"), want: hello}}
	if b.everything != "" {
		node, err := open("node", b.everything)
		if err != nil {
			return nil, err
		}
		names = append(names, "echo, server-everything")
		kinds = append(kinds, &kind{client: node, params: params("echo"), want: hello},
			&kind{client: proxied, params: params("everything__echo"), want: hello})
	}
	composites, err := b.composites(proxied)
	if err != nil {
		return nil, err
	}
	// Composites load the machine, so they are kept out of the comparison.
	for _, group := range [][]*kind{kinds, composites} {
		if err := b.takeTurns(group); err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		rows = append(rows, row{name: name, times: kinds[2*i+1].times, base: kinds[2*i].times})
	}
	for i, c := range scripts {
		rows = append(rows, row{name: c.name, times: composites[i].times})
	}
	return rows, nil
}

// scripts are the composite tools that are called. None has a base: there is no
// such call without the binary.
var scripts = []struct{ name, tool, code string }{
	{"composite without calls", "bench_none", `return params["message"]`},
	{"composite, 1 call of the Go server", "bench_one", `return echo.echo(message = params["message"])`},
	{"composite, 10 calls of the Go server", "bench_ten",
		"out = \"\"\nfor i in range(10):\n    out = echo.echo(message = params[\"message\"])\nreturn out"},
}

// composites saves the composite tools.
func (b *bench) composites(proxied *client) ([]*kind, error) {
	if err := proxied.waitForTool("echo__echo"); err != nil {
		return nil, err
	}
	var kinds []*kind
	for _, s := range scripts {
		definition, err := json.Marshal(map[string]any{"name": "save_tool", "arguments": map[string]any{
			"name": s.tool, "description": s.name, "code": s.code,
			"inputSchema": map[string]any{"type": "object"},
		}})
		if err != nil {
			return nil, err
		}
		if err := proxied.call(string(definition), s.tool); err != nil {
			return nil, err
		}
		kinds = append(kinds, &kind{client: proxied, want: "hello", params: `{"name":"` + s.tool + `","arguments":{"message":"hello"}}`})
	}
	return kinds, nil
}

// takeTurns makes all calls of all kinds, one of each in every round, so that
// whatever else the machine does hits all of them. Who comes after whom changes
// with the round: what a call leaves in the caches matters to the next one.
func (b *bench) takeTurns(kinds []*kind) error {
	warmup := max(b.calls/10, 20)
	order := slices.Clone(kinds)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range warmup + b.calls {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, k := range order {
			began := time.Now()
			if err := k.client.call(k.params, k.want); err != nil {
				return err
			}
			if i >= warmup {
				k.times = append(k.times, time.Since(began))
			}
		}
	}
	return nil
}

// measureStarts compares with the start of a server alone.
func (b *bench) measureStarts(ctx context.Context) ([]row, error) {
	config, err := b.configure()
	if err != nil {
		return nil, err
	}
	serve := []string{b.binary, "serve", "--config", config}
	commands := []struct {
		row   string // "" for what is only compared with
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

// env keeps what the binary caches in a directory of the run.
func (b *bench) env(cache string) []string {
	dir := filepath.Join(b.dir, cache)
	return []string{"XDG_CACHE_HOME=" + dir, "LocalAppData=" + dir, "HOME=" + dir}
}

// configure writes the configuration and gives its path.
func (b *bench) configure() (string, error) {
	text := fmt.Sprintf("[store]\ndir = %q\n[upstream.echo]\ncommand = %q\nargs = [%q]\n",
		filepath.Join(b.dir, "store"), b.self, serverVerb)
	if b.everything != "" {
		text += fmt.Sprintf("[upstream.everything]\ncommand = \"node\"\nargs = [%q]\n", b.everything)
	}
	path := filepath.Join(b.dir, "bench.toml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
