package compose

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// listener is a client with a revision for script logs.
type listener struct {
	anySession
	revision string
	least    string
	told     []string
}

// anySession is nil: tests call only the methods of listener.
type anySession = route.Session

func (l *listener) Session() route.Session { return l }
func (l *listener) Client() []byte         { return []byte(`{"clientInfo":{"name":"c","version":"1"}}`) }
func (l *listener) ID() string             { return "listener" }
func (l *listener) LogLevel() string       { return "" }
func (l *listener) Principal() string      { return "" }
func (l *listener) TokenName() string      { return "" }
func (l *listener) Revision() protocol.Revision {
	revision, _ := protocol.Lookup(l.revision)
	return revision
}
func (l *listener) Notify(method string, params []byte) {
	l.told = append(l.told, method+" "+string(params))
}
func (l *listener) Listens(_ route.Session, level string) bool {
	return strings.Contains("warning error", level) || l.least == "info"
}

const picture = `{"type":"image","data":"aGVsbG8=","mimeType":"image/png","annotations":{"priority":0.5},"x-unknown":12345678901234567890}`

func TestContent(t *testing.T) {
	var u upstreams
	u.result("s.shot", `{"content":[`+picture+`]}`)
	u.result("s.both", `{"content":[{"type":"image","data":"YQ==","mimeType":"image/png"},{"type":"text","text":"seen"}]}`)
	u.result("s.text", `{"content":[{"type":"text","text":"a b"}]}`)
	c := composer(sandboxtest.Guest(t), &u)
	for code, want := range map[string]string{
		"return content.text('hi')":                                      `[{"type":"text","text":"hi"}]`,
		"return content.image('aGVsbG8=')":                               `[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]`,
		"return content.image(b'hello', 'image/gif')":                    `[{"type":"image","data":"aGVsbG8=","mimeType":"image/gif"}]`,
		"return content.audio('YQ==', mime_type='audio/ogg')":            `[{"type":"audio","data":"YQ==","mimeType":"audio/ogg"}]`,
		"return content.resource('x:1', text='t', mimeType='a/b')":       `[{"type":"resource","resource":{"uri":"x:1","mimeType":"a/b","text":"t"}}]`,
		"return content.resource('x:1', blob=b'a')":                      `[{"type":"resource","resource":{"uri":"x:1","blob":"YQ=="}}]`,
		"return content.link('https://x', title='X')":                    `[{"type":"resource_link","uri":"https://x","name":"https://x","title":"X"}]`,
		"return [content.image('YQ=='), 'a picture', content.text('b')]": `[{"type":"text","text":"a picture"},{"type":"text","text":"b"},{"type":"image","data":"YQ==","mimeType":"image/png"}]`,
		"return [content.image('YQ=='), {'n': 1}, 5]":                    `[{"type":"text","text":"{\"n\":1}"},{"type":"text","text":"5"},{"type":"image","data":"YQ==","mimeType":"image/png"}]`,
		"return s.shot()":                                  `[` + picture + `]`,
		"return ['look'] + s.shot.raw().content":           `[{"type":"text","text":"look"},` + picture + `]`,
		"return s.both()":                                  `[{"type":"text","text":"seen"},{"type":"image","data":"YQ==","mimeType":"image/png"}]`,
		"return s.text.raw().content":                      `[{"type":"text","text":"a b"}]`,
		"return {'type': 'text', 'text': 'x', 'lines': 3}": `[{"type":"text","text":"{\"type\":\"text\",\"text\":\"x\",\"lines\":3}"}]`,
		"return [content.text('a'), {'n': 1}]":             `[{"type":"text","text":"[{\"type\":\"text\",\"text\":\"a\"},{\"n\":1}]"}]`,
		"return [{'type': 'image'}, 'x']":                  `[{"type":"text","text":"[{\"type\":\"image\"},\"x\"]"}]`,
		"return {'shot': s.shot()[0].mimeType}":            `[{"type":"text","text":"{\"shot\":\"image/png\"}"}]`,
		"try:\n    content.image('not base64!')\nexcept Error as e:\n    return e.message":   `[{"type":"text","text":"content.image: the data is text that is not base64"}]`,
		"try:\n    content.image({})\nexcept Error as e:\n    return e.message":              `[{"type":"text","text":"content.image: the data must be base64 text or bytes, got dict"}]`,
		"try:\n    content.resource('x:1')\nexcept Error as e:\n    return len(e.message)>9": `[{"type":"text","text":"true"}]`,
	} {
		reply := c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		if got := get(t, reply, "content"); got != want {
			t.Errorf("%s\ngave %s\nwant %s", code, reply.Result, want)
		}
	}
}

// TestBlocksAreInContentOnly checks that blocks are only in content: hosts that show
// structuredContent would show the data as text, and not the picture. If a schema requires
// structuredContent, structuredContent describes the blocks.
func TestBlocksAreInContentOnly(t *testing.T) {
	const code = `print('hi')
return ['look', content.image('YWJj' * 20000), content.resource('x:1', text='t'), content.link('x:2')]`
	run := func(schema string, o func(*Options)) (tools.Definition, wire.Reply) {
		def := saved(code)
		if schema != "" {
			def.OutputSchema = []byte(schema)
		}
		reply := composer(sandboxtest.Guest(t), &upstreams{}, o).CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
		if n := strings.Count(string(reply.Result), strings.Repeat("YWJj", 20000)); n != 1 {
			t.Errorf("schema %q: the data is there %d times", schema, n)
		}
		conforms(t, def, reply)
		return def, reply
	}
	_, reply := run("", func(*Options) {})
	if got := get(t, reply, "structuredContent"); got != "" {
		t.Errorf("structuredContent = %.300s", got)
	}
	if got := get(t, reply, "content"); !strings.HasPrefix(got, `[{"type":"text","text":"look"},{"type":"image",`) ||
		!strings.HasSuffix(got, `,{"type":"text","text":"log:\n  hi"}]`) {
		t.Errorf("content = %.100s ... %s", got, got[len(got)-100:])
	}
	const described = `"content":["text, 4 bytes","image, image/png, 60000 bytes","resource x:1, 1 bytes","resource_link x:2"],"logs":["hi"]`
	for _, schema := range []string{"", `{"type":"array"}`} {
		_, reply := run(schema, func(o *Options) { o.Structured = schema == "" })
		if got := get(t, reply, "structuredContent"); !strings.HasPrefix(got, "{"+described) {
			t.Errorf("schema %q: structuredContent = %.300s", schema, got)
		}
		if got := get(t, reply, "content"); strings.Contains(got, "log:") {
			t.Errorf("schema %q: the log is in the content, too", schema)
		}
	}
}

// TestTextBlocks checks blocks of text, with and without a schema.
func TestTextBlocks(t *testing.T) {
	def := saved("return content.text('hi')")
	c := composer(sandboxtest.Guest(t), &upstreams{})
	reply := c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent"); got != "" || get(t, reply, "content") != `[{"type":"text","text":"hi"}]` {
		t.Errorf("result = %s", reply.Result)
	}
	def.OutputSchema = []byte(`{"type":"object","required":["text"]}`)
	reply = c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "result"); got != `{"type":"text","text":"hi"}` {
		t.Errorf("result = %s", reply.Result)
	}
	conforms(t, def, reply)
}

// TestContentOfOldRevisions checks that clients get only content types of their revision.
func TestContentOfOldRevisions(t *testing.T) {
	const code = "return [content.image('YQ=='), content.audio('YWJj'), content.link('x:1', 'one'), content.resource('x:2', text='t')]"
	for revision, want := range map[string]string{
		"2024-11-05": "text text image resource", "2025-03-26": "text image audio resource", "2025-06-18": "image audio resource_link resource", "2025-11-25": "image audio resource_link resource",
	} {
		call := route.Call{Params: params(`{}`), Origin: &listener{revision: revision}}
		reply := composer(sandboxtest.Guest(t), &upstreams{}).CallSaved(t.Context(), saved(code), call)
		blocks, _ := wire.Elements([]byte(get(t, reply, "content")))
		var got []string
		for _, b := range blocks {
			kind, _ := wire.GetString(b, "type")
			got = append(got, kind)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s", revision, get(t, reply, "content"))
		}
		if revision == "2024-11-05" && !strings.Contains(string(blocks[0]), "[audio, audio/wav, 3 bytes: left out") || revision < "2025-06-18" && !strings.Contains(get(t, reply, "content"), `"one: x:1"`) {
			t.Errorf("%s: %s", revision, get(t, reply, "content"))
		}
	}
}

// TestLogsAreForwarded checks that clients get logs on request.
func TestLogsAreForwarded(t *testing.T) {
	run := func(l *listener, code string) {
		c := composer(sandboxtest.Guest(t), &upstreams{}, func(o *Options) { o.Listeners = l; o.Saved = savedScripts{"inner": "log.error('inside')"} })
		c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`), Origin: l})
	}
	l := &listener{}
	run(l, "print('quiet')\nlog.warn('a', 1)\ntools.inner()\nlog.info('quiet')")
	want := `notifications/message {"level":"warning","logger":"job","data":"a 1"}
notifications/message {"level":"error","logger":"inner","data":"inside"}`
	if got := strings.Join(l.told, "\n"); got != want {
		t.Errorf("got %s", got)
	}
	l = &listener{least: "info"}
	run(l, "print('x')")
	if got := fmt.Sprint(l.told); got != `[notifications/message {"level":"info","logger":"job","data":"x"}]` {
		t.Errorf("got %s", got)
	}
	l = &listener{}
	run(l, "for n in range(5000): log.error(n)")
	if len(l.told) != maxForwarded || !strings.Contains(l.told[maxForwarded-1], "too much") {
		t.Errorf("%d messages, the last %s", len(l.told), l.told[len(l.told)-1])
	}
}
