package doctor

import (
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Tokens estimates how many tokens of a model's context a definition of a tool costs: one
// for each four bytes of its name, description and input schema, which is what hosts send.
// Models differ; it is usually right within a third.
func Tokens(definition []byte) int {
	size := 0
	for _, member := range []string{"name", "description", "inputSchema"} {
		raw, _ := wire.Get(definition, member)
		size += len(raw)
	}
	return (size + 3) / 4
}

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

// tokens looks at what the definitions of tools cost, and how long their texts are.
func (e *examination) tokens() {
	tools, tokens := 0, 0
	for _, u := range e.enabled() {
		o := e.Observed[u.Name]
		tools += len(o.Tools)
		long := affected{}
		for _, tool := range o.Tools {
			tokens += Tokens(tool)
			name, _ := wire.GetString(tool, "name")
			text, _ := wire.GetString(tool, "description")
			switch n := utf8.RuneCountInString(text); {
			case n > codeText:
				long.add(name, "%d characters, cut by Claude Code", n)
			case n > chatText:
				long.add(name, "%d characters", n)
			}
		}
		if n := utf8.RuneCountInString(o.Text); n > codeText {
			long.add("its instructions", "%d characters, cut by Claude Code", n)
		}
		long.report(e, idTextLong, u.Name, "shorten the texts in the server; hide the tools that nobody needs (hide)", "long descriptions")
	}
	if tools > manyTools {
		e.find(idToolsMany, "", "show fewer (expose, hide), and let agents find the others with search_tools", "agents see %d tools of servers, and some hosts accept at most %d", tools, manyTools)
	}
	if tokens > manyTokens {
		e.find(idTokensMany, "", "show fewer tools (expose, hide), and let agents find the others with search_tools", "the definitions of all tools cost about %d tokens", tokens)
	}
}
