package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// heavyTools are the tools of the servers of TestMemoryUnderLoad.
const heavyTools = `{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"ask","inputSchema":{"type":"object"}},{"name":"progress","inputSchema":{"type":"object"}}`

// heavyLists are the numbers of further tools, and the sizes of their descriptions.
var heavyLists = map[string][2]int{"/small": {}, "/heavy": {300, 1000}, "/wide": {4000, 1500}, "/wider": {4000, 2000}, "/long": {6000, 4000}, "/huge": {15000, 4000}}

// heavyServers serves several servers over streamable HTTP, by their paths.
func heavyServers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m, err := wire.Parse(raw)
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		name, _ := wire.GetString(m.Params, "name")
		if name == "ask" || name == "progress" {
			w.Header().Set("Content-Type", "text/event-stream")
			heavyEvents(w, r, m)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		out := bufio.NewWriter(w)
		writeHeavy(out, m, heavyLists[r.URL.Path])
		_ = out.Flush()
	})
}

// heavyEvents asks the client something and waits, or sends progress without end.
func heavyEvents(w http.ResponseWriter, r *http.Request, m wire.Message) {
	flush := http.NewResponseController(w).Flush
	if name, _ := wire.GetString(m.Params, "name"); name == "ask" {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s9,\"method\":\"elicitation/create\",\"params\":{\"message\":\"%s\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n\n",
			m.ID, strings.Repeat("?", 20_000))
		_ = flush()
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%s\"}}\n\n", strings.Repeat("p", 500_000))
	_ = flush()
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}}\n\n", m.ID, strings.Repeat("x", 500_000))
}

// writeHeavy writes the answer to a request, in pieces.
func writeHeavy(w *bufio.Writer, m wire.Message, list [2]int) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, m.ID)
	switch m.Method {
	case "initialize":
		fmt.Fprint(w, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"heavy","version":"1"}}`)
	case "tools/list":
		cursor, _ := wire.GetString(m.Params, "cursor")
		first, _ := strconv.Atoi(cursor)
		last := min(list[0], first+1000)
		fmt.Fprint(w, `{"tools":[`)
		for i := first; i < last; i++ {
			fmt.Fprintf(w, `{"name":"t%d","description":"`, i)
			writeText(w, list[1])
			fmt.Fprint(w, `","inputSchema":{"type":"object"}},`)
		}
		if last < list[0] {
			fmt.Fprintf(w, `{"name":"page%d","inputSchema":{"type":"object"}}],"nextCursor":"%d"}`, last, last)
		} else {
			fmt.Fprint(w, heavyTools+`]}`)
		}
	case "tools/call":
		var args struct{ Bytes int }
		raw, _ := wire.Get(m.Params, "arguments")
		_ = json.Unmarshal(raw, &args)
		fmt.Fprint(w, `{"content":[{"type":"text","text":"`)
		writeText(w, args.Bytes)
		fmt.Fprint(w, `"}]}`)
	default:
		fmt.Fprint(w, `{}`)
	}
	_ = w.WriteByte('}')
}

func writeText(w *bufio.Writer, bytes int) {
	piece := strings.Repeat("x", 4096)
	for ; bytes > 0; bytes -= len(piece) {
		_, _ = w.WriteString(piece[:min(bytes, len(piece))])
	}
}

// serveLargeAnswers is such a server on stdio, which keeps nothing of what it writes.
func serveLargeAnswers() int {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if m, err := wire.Parse(line); err == nil && m.IsRequest() {
			writeHeavy(out, m, [2]int{})
			_ = out.WriteByte('\n')
			if out.Flush() != nil {
				return 0
			}
		}
	}
}
