package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

const (
	// maxShown is how many tools a finding names.
	maxShown = 3
	// maxSchema is the size limit of an examined schema, in bytes, and maxDepth the limit of depth.
	maxSchema = 1 << 20
	maxDepth  = 64
)

// affected are the tools of a finding.
type affected struct {
	tools []string // their own names
	texts []string // with the fault of each
}

func (a *affected) add(tool, format string, args ...any) {
	a.tools = append(a.tools, tool)
	a.texts = append(a.texts, fmt.Sprintf("%s (%s)", tool, fmt.Sprintf(format, args...)))
}

// report adds a finding for all tools of a server.
func (a affected) report(e *examination, id, server, remedy, fault string) {
	if len(a.texts) == 0 {
		return
	}
	shown := strings.Join(a.texts[:min(len(a.texts), maxShown)], ", ")
	if len(a.texts) > maxShown {
		shown += fmt.Sprintf(", and %d more", len(a.texts)-maxShown)
	}
	e.find(id, upstreamObject(server), remedy, "%s: %s", fault, shown)
}

// hide returns the setting that hides the tools.
func (a affected) hide(server string) string {
	quoted := make([]string, min(len(a.tools), maxShown))
	for i := range quoted {
		quoted[i] = strconv.Quote(a.tools[i])
	}
	if len(a.tools) > maxShown {
		quoted = append(quoted, "...")
	}
	return fmt.Sprintf("hide = [%s] in [upstream.%s]", strings.Join(quoted, ", "), server)
}

// schemaKinds are the faults of schemas, in this order, with the words for findings.
var schemaKinds = []struct{ id, fault string }{
	{idSchemaType, `input schemas without "type": "object", with which TypeScript clients would refuse the whole list, so they are left out`},
	{idSchemaUnion, "input schemas that the APIs of Claude and OpenAI refuse, with every request"},
	{idSchemaKey, "names of parameters that the API of Claude refuses, with every request"},
	{idSchemaItems, "arrays without items, which VS Code and the API of OpenAI refuse"},
	{idSchemaEmpty, "input schemas without properties, which the API of OpenAI refuses"},
	{idSchemaRef, "input schemas with $ref, which Gemini refuses"},
	{idSchemaFormat, "formats of strings that Gemini refuses"},
	{idSchemaTypeList, "lists of types, which Gemini refuses"},
}

// schemas looks for definitions that hosts refuse.
func (e *examination) schemas() {
	for _, u := range e.enabled() {
		byKind := map[string]*affected{}
		for _, tool := range e.Observed[u.Name].Tools {
			name, _ := wire.GetString(tool, "name")
			for id, where := range inspectSchema(tool) {
				if byKind[id] == nil {
					byKind[id] = &affected{}
				}
				byKind[id].add(name, "%s", where)
			}
		}
		for _, kind := range schemaKinds {
			if a := byKind[kind.id]; a != nil {
				a.report(e, kind.id, u.Name, "update the server, or set "+a.hide(u.Name), kind.fault)
			}
		}
	}
}

// parameter matches the names of parameters that Claude's API accepts
// (github.com/anthropics/claude-code/issues/79418).
var parameter = lazyregexp.New(`^[a-zA-Z0-9_.-]{1,64}$`)

// inspectSchema returns the kinds of faults in the input schema of a tool, each with its first
// place.
func inspectSchema(tool []byte) map[string]string {
	found := map[string]string{}
	raw, _ := wire.Get(tool, "inputSchema")
	var schema map[string]any
	if len(raw) > maxSchema {
		return found // the tokens are counted
	}
	if jsonvalue.Unmarshal(raw, &schema) != nil || schema["type"] != "object" {
		// The schema of the protocol requires the type, and so do clients:
		// github.com/opentokenz/mcpx/issues/28.
		found[idSchemaType] = "at the top"
	}
	// OpenAI: github.com/langchain-ai/langchainjs/issues/9804, for all of these; Claude:
	// github.com/anthropics/claude-code/issues/40075, for the first three.
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if _, ok := schema[keyword]; ok {
			found[idSchemaUnion] = keyword + " at the top"
			break
		}
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok && schema["type"] == "object" { // github.com/openai/openai-agents-python/issues/449
		found[idSchemaEmpty] = "at the top"
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !parameter.MatchString(name) { // only at the top: github.com/decocms/studio/pull/6874
			found[idSchemaKey] = fmt.Sprintf("%q", excerpt(name))
			break
		}
	}
	walk(schema, "", 0, func(at string, s map[string]any) {
		note := func(id, format string, args ...any) {
			if found[id] == "" {
				found[id] = fmt.Sprintf(format, args...) + " at " + place(at)
			}
		}
		if ref, ok := s["$ref"].(string); ok { // github.com/google-gemini/gemini-cli/issues/13326
			note(idSchemaRef, "%s", excerpt(ref))
		}
		// github.com/google-gemini/gemini-cli/issues/2237
		if format, ok := s["format"].(string); ok && s["type"] == "string" && format != "enum" && format != "date-time" {
			note(idSchemaFormat, "%s", excerpt(format))
		}
		// github.com/microsoft/vscode/issues/248810
		if _, ok := s["items"]; !ok && s["type"] == "array" && s["prefixItems"] == nil {
			note(idSchemaItems, "none")
		}
		// github.com/sbroenne/mcp-server-excel/pull/674
		if types, ok := s["type"].([]any); ok {
			note(idSchemaTypeList, "%s", excerpt(strings.TrimSpace(fmt.Sprintln(types...))))
		}
	})
	return found
}

// excerpt shortens a text of a server.
func excerpt(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

func place(at string) string {
	if at == "" {
		return "the top"
	}
	return excerpt(strings.TrimPrefix(at, "."))
}

// walk calls visit for a schema and all its subschemas.
func walk(schema map[string]any, at string, depth int, visit func(at string, s map[string]any)) {
	if schema == nil || depth > maxDepth {
		return
	}
	visit(at, schema)
	one := func(v any, at string) {
		if s, ok := v.(map[string]any); ok {
			walk(s, at, depth+1, visit)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"} {
		one(schema[keyword], at+"."+keyword)
	}
	for _, keyword := range []string{"properties", "patternProperties", "$defs", "definitions"} {
		if m, ok := schema[keyword].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				one(m[name], at+"."+name)
			}
		}
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "prefixItems"} {
		if list, ok := schema[keyword].([]any); ok {
			for i, v := range list {
				one(v, fmt.Sprintf("%s.%s[%d]", at, keyword, i))
			}
		}
	}
}

// PublicName is the name of a tool for agents.
type PublicName struct {
	Server, Own, Public string
	Changed             bool // the name is not simply prefix and own name
}

// claudePrefix is Claude Code's prefix for the names of tools if the proxy is registered as
// mcp-metatool; a name may then have 64 characters
// (github.com/mims-harvard/ToolUniverse/issues/65).
const claudePrefix = "mcp__mcp-metatool__"

// maxName is the limit of Claude Code, Claude Desktop and OpenAI's API for the name of a
// tool, in characters.
const maxName = 64

// names looks at the names of tools.
func (e *examination) names() {
	for _, u := range e.enabled() {
		changed, long := affected{}, affected{}
		for _, n := range e.Names {
			if n.Server != u.Name {
				continue
			}
			if n.Changed {
				changed.add(n.Own, "now %s", n.Public)
			}
			if len(claudePrefix)+len(n.Public) > maxName {
				long.add(n.Own, "%d characters: %s%s", len(claudePrefix)+len(n.Public), claudePrefix, n.Public)
			}
		}
		changed.report(e, idNameChanged, u.Name, "nothing has to be done; a shorter prefix may keep the names", "tools have other names for agents")
		long.report(e, idNameLong, u.Name, shorten(u, long), fmt.Sprintf("names of more than %d characters in Claude Code", maxName))
	}
	for _, p := range e.Collisions {
		switch {
		case p.Drifted != "":
			e.find(idPinsDrift, p.Drifted, p.Remedy, "%s", p.Text)
		case p.Odd != "":
			e.find(idItemOdd, upstreamObject(p.Odd), p.Remedy, "%s", p.Text)
		default:
			e.find(idNameCollision, "", p.Remedy, "%s", p.Text)
		}
	}
}

// shorten returns how the names of tools of a server become short enough.
func shorten(u *config.Upstream, long affected) string {
	longest := 0
	for _, own := range long.tools {
		longest = max(longest, len(own))
	}
	if room := maxName - len(claudePrefix) - longest; room >= 0 {
		return fmt.Sprintf("set prefix in [upstream.%s] to one of at most %d characters (now %q)", u.Name, room, u.Prefix)
	}
	// Scripts cannot call tools that hide names.
	return fmt.Sprintf("no prefix is short enough: set expose in [upstream.%s] to the other tools, and save tools with shorter names that call these", u.Name)
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
