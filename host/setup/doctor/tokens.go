package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

const (
	// chatText is the limit of a description in OpenAI's chat API
	// (github.com/getsentry/sentry-mcp/issues/106), codeText where Claude Code cuts
	// descriptions and instructions (github.com/anthropics/claude-code/issues/41593).
	chatText, codeText = 1024, 2048
	// manyTools is the limit of VS Code (github.com/microsoft/azure-devops-mcp,
	// docs/TROUBLESHOOTING.md) and of OpenAI's API.
	manyTools  = 128
	manyTokens = 20000
)

// tokens looks at the cost of the definitions of tools, and at the length of their texts.
func (e *examination) tokens() {
	own := Cost{Tools: len(e.Own), Tokens: tokensOf(e.Own)}
	e.report.Own = own
	tools, tokens := own.Tools, own.Tokens
	for _, u := range e.enabled() {
		o := e.Observed[u.Name]
		tools += len(o.Tools)
		long := affected{}
		for _, tool := range o.Tools {
			tokens += catalog.Tokens(tool)
			name, _ := wire.GetString(tool, "name")
			text, _ := wire.GetString(tool, "description")
			switch n := utf8.RuneCountInString(text); {
			case n > codeText:
				long.add(name, "%d characters, cut by Claude Code", n)
			case n > chatText:
				long.add(name, "%d characters", n)
			}
		}
		remedy := "ask its authors for shorter texts"
		if len(long.tools) > 0 {
			remedy += ", or set " + long.hide(u.Name)
		}
		if n := utf8.RuneCountInString(o.Text); n > codeText {
			long.add("its instructions", "%d characters, cut by Claude Code", n)
		}
		long.report(e, idTextLong, u.Name, remedy, "long descriptions")
	}
	e.report.Tokens = tokens
	remedy := ""
	if most := slices.MaxFunc(slices.Concat(e.report.Servers, []Server{{}}), func(a, b Server) int { return cmp.Compare(a.Tokens, b.Tokens) }); most.Name != "" {
		remedy = fmt.Sprintf("set expose in [upstream.%s], whose tools cost most (%d tokens); agents find the others with search_tools", most.Name, most.Tokens)
	}
	if tools > manyTools {
		e.find(idToolsMany, "", remedy, "agents see %d tools, and some hosts accept at most %d", tools, manyTools)
	}
	if tokens > manyTokens {
		e.find(idTokensMany, "", remedy, "the definitions of all tools cost about %d tokens", tokens)
	}
}

func tokensOf(tools [][]byte) (n int) {
	for _, tool := range tools {
		n += catalog.Tokens(tool)
	}
	return n
}
