package host

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

var long = flag.Bool("long", false, "run the tests that take long in full")

// cell is a combination of eras: of the client and of the upstream.
type cell struct{ client, upstream string }

func (c cell) String() string { return c.client + "->" + c.upstream }

// cells are the four combinations.
var cells = []cell{
	{mcptest.EraLegacy, mcptest.EraLegacy}, {mcptest.EraLegacy, mcptest.EraModern},
	{mcptest.EraModern, mcptest.EraLegacy}, {mcptest.EraModern, mcptest.EraModern},
}

// eraTransports are the transports that both eras have.
var eraTransports = []combination{
	{config.Stdio, config.Stdio}, {config.Stdio, config.StreamableHTTP},
	{config.StreamableHTTP, config.Stdio}, {config.StreamableHTTP, config.StreamableHTTP},
}

// TestFidelityOfEras does everything in mcptest.EraItems directly and through us, with
// clients and servers of both eras, and compares what client and server saw, token by
// token. With -v it prints the table.
func TestFidelityOfEras(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	p := pair(t, dialRaw(t, up, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), up.received)
	p.Fewer = !*long
	direct, errs := seenOf(mcptest.EraItems, p)
	for name, err := range errs {
		t.Fatalf("directly: %s: %v", name, err)
	}
	verdicts := map[string][]string{}
	var columns []string
	for _, eras := range cells {
		for _, c := range eraTransports {
			if !*long && (c.client != c.upstream || eras == cells[0]) {
				continue // the others have each transport on both sides; TestFidelity has the first cell
			}
			name := fmt.Sprintf("%s over %s", eras, c)
			t.Run(name, func(t *testing.T) {
				w := startProxy(t, c, mcptest.ServerOptions{Eras: eras.upstream})
				p := eraPair(t, w, eras.client, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest})
				p.Fewer = !*long
				seen, errs := seenOf(mcptest.EraItems, p)
				for _, item := range mcptest.EraItems {
					diff, verdict := mcptest.Diff(direct[item.Name], seen[item.Name]), "same"
					if err := errs[item.Name]; err != nil {
						diff = err.Error()
					}
					if diff != "" {
						verdict = "DIFFERS"
						t.Errorf("%s: %s", item.Name, diff)
					}
					verdicts[item.Name] = append(verdicts[item.Name], verdict)
				}
			})
			columns = append(columns, name)
		}
	}
	t.Log(eraTable(columns, verdicts))
}

// eraPair makes a pair with a client of an era.
func eraPair(t testing.TB, w *testProxy, era string, opts mcptest.ClientOptions) *mcptest.Pair {
	t.Helper()
	c := w.dial(t, opts)
	if era == mcptest.EraLegacy {
		return pair(t, c, w.received)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxWait)
		defer cancel()
		_ = c.Close(ctx)
	})
	return &mcptest.Pair{Client: c, Server: w.received, Modern: true, HTTP: w.client != config.Stdio}
}

// eraTable is the table of all items and combinations, with a row for each combination.
func eraTable(columns []string, verdicts map[string][]string) string {
	var b strings.Builder
	b.WriteString("fidelity between eras, against the same conversation without us\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, item := range mcptest.EraItems {
		for i, verdict := range verdicts[item.Name] {
			fmt.Fprintf(w, "%s\t%s\t%s\n", item.Name, columns[i], verdict)
		}
	}
	w.Flush()
	return b.String()
}
