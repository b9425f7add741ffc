package host

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// maxInstructions is the maximum number of words of the instructions, which every
// session pays for.
const maxInstructions = 351

// TestInstructions checks that the instructions are short, that they name existing
// tools, and that their example runs.
func TestInstructions(t *testing.T) {
	t.Parallel()
	instructions := builtin.Instructions(true)
	if n := len(strings.Fields(instructions)); n >= maxInstructions {
		t.Errorf("%d words, want less than %d", n, maxInstructions)
	}
	h, _ := startHost(t, testConfig(t))
	steps := regexp.MustCompile(`(?m)^\d\. .*$`).FindAllString(instructions, -1)
	named := regexp.MustCompile(`[a-z]+_[a-z_]+`).FindAllString(strings.Join(steps, "\n"), -1)
	for _, name := range named {
		if e, ok := h.catalog.Owner(name); !ok || e.Kind != catalog.Builtin {
			t.Errorf("there is no built-in tool %s", name)
		}
	}
	if len(named) < 5 {
		t.Errorf("only %q are named", named)
	}

	_, example, _ := strings.Cut(instructions, "Example:\n")
	answers, err := cassette.New(cassette.Interaction{
		Server: "github", Tool: "list_issues", Params: []byte(`{"owner":"acme","repo":"shop","state":"OPEN"}`),
		Returns: []byte(`{"issues":[{"title":"first"},{"title":"second"}]}`),
	}, cassette.Interaction{
		Server: "github", Tool: "list_issues", Params: []byte(`{"owner":"acme","repo":"gone","state":"OPEN"}`),
		Raises: &cassette.Raise{Message: "Not Found"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := compose.New(compose.Options{Sandbox: h.sandbox, Catalog: answers, Upstreams: answers, Log: h.opts.Log})
	reply := c.Eval(bounded(t), example, []byte(`{"owner":"acme","repos":["shop","gone"]}`), route.Call{Params: []byte(`{}`)})
	if got, _ := wire.Get(reply.Result, "structuredContent", "result"); string(got) != `[{"repo":"shop","titles":["first","second"]}]` {
		t.Errorf("the example gives %s", reply.Result)
	}
}
