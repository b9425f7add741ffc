package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestFidelity does everything in mcptest.Items directly and through us, and compares
// what client and server saw, token by token. With -v it prints the table.
func TestFidelity(t *testing.T) {
	t.Parallel()
	verdicts, direct := map[string][]string{}, map[config.Transport]map[string][]byte{}
	for _, c := range combinations {
		if direct[c.upstream] == nil {
			direct[c.upstream] = seenDirectly(t, c.upstream, false)
		}
		t.Run(c.String(), func(t *testing.T) {
			for _, item := range compareThrough(t, c, mcptest.ServerOptions{}, direct[c.upstream], false) {
				verdicts[item.name] = append(verdicts[item.name], item.verdict)
			}
		})
	}
	t.Log(fidelityList(verdicts))
}

// TestFidelityOfOtherServers does the same with servers that use the protocol in other
// permitted ways.
func TestFidelityOfOtherServers(t *testing.T) {
	t.Parallel() // it mostly waits
	direct := map[config.Transport]map[string][]byte{
		config.Stdio: seenDirectly(t, config.Stdio, !*long), config.StreamableHTTP: seenDirectly(t, config.StreamableHTTP, !*long),
	}
	for _, other := range []struct {
		name             string
		client, upstream config.Transport
		sw               mcptest.ServerOptions
	}{
		{"connections that break", config.Stdio, config.StreamableHTTP, mcptest.ServerOptions{CutAfter: 100}},
		{"connections that break", config.StreamableHTTP, config.StreamableHTTP, mcptest.ServerOptions{CutAfter: 250}},
		{"JSON answers", config.StreamableHTTP, config.StreamableHTTP, mcptest.ServerOptions{Answers: "auto"}},
		{"no sessions", config.Stdio, config.StreamableHTTP, mcptest.ServerOptions{NoSessions: true}},
		{"strings as ids", config.StreamableHTTP, config.StreamableHTTP, mcptest.ServerOptions{StringIDs: true}},
		{"strings as ids", config.Stdio, config.Stdio, mcptest.ServerOptions{StringIDs: true}},
		{"long pages", config.StreamableHTTP, config.Stdio, mcptest.ServerOptions{PageSize: 1000}},
	} {
		c := combination{other.client, other.upstream}
		t.Run(other.name+"/"+c.String(), func(t *testing.T) { compareThrough(t, c, other.sw, direct[c.upstream], !*long) })
	}
}

// compared is an item with its outcome.
type compared struct{ name, verdict string }

// compareThrough does all items through us and compares what was seen.
func compareThrough(t *testing.T, c combination, sw mcptest.ServerOptions, direct map[string][]byte, fewer bool) (all []compared) {
	w := startProxy(t, c, sw)
	p := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), w.received)
	p.Fewer = fewer
	if name, _ := wire.GetString(p.InitializeResponse.Msg.Result, "serverInfo", "name"); name != Name {
		t.Fatalf("this is not a way through us, but %q", name)
	}
	seen, errs := seenOf(mcptest.Items, p)
	for _, item := range mcptest.Items {
		diff, verdict := mcptest.Diff(direct[item.Name], seen[item.Name]), "same"
		if err := errs[item.Name]; err != nil {
			diff = err.Error()
		}
		if diff != "" {
			verdict = "DIFFERS"
			t.Errorf("%s: %s", item.Name, diff)
		}
		all = append(all, compared{item.Name, verdict})
	}
	return all
}

// seenDirectly does all items without us.
func seenDirectly(t *testing.T, transport config.Transport, fewer bool) map[string][]byte {
	t.Helper()
	up := startRaw(t, transport, mcptest.ServerOptions{})
	p := pair(t, dialRaw(t, up, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), up.received)
	p.Fewer = fewer
	seen, errs := seenOf(mcptest.Items, p)
	for name, err := range errs {
		t.Fatalf("directly over %s: %s: %v", transport, name, err)
	}
	return seen
}

// seenOf does items and returns what was seen.
func seenOf(items []mcptest.Item, p *mcptest.Pair) (seen map[string][]byte, errs map[string]error) {
	seen, errs = map[string][]byte{}, map[string]error{}
	for _, item := range items {
		ctx, cancel := context.WithTimeout(context.Background(), maxWait)
		raw, err := item.Run(ctx, p)
		cancel()
		if seen[item.Name] = raw; err != nil {
			errs[item.Name] = err
		}
	}
	return seen, errs
}

// fidelityList is the table of all items and combinations.
func fidelityList(verdicts map[string][]string) string {
	var b strings.Builder
	b.WriteString("fidelity, against the same conversation without us\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "item\tdirect")
	for _, c := range combinations {
		fmt.Fprintf(w, "\t%s", c)
	}
	fmt.Fprintln(w)
	for _, item := range mcptest.Items {
		fmt.Fprintf(w, "%s\tworks\t%s\n", item.Name, strings.Join(verdicts[item.Name], "\t"))
	}
	w.Flush()
	return b.String()
}
