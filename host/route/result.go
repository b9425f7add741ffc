package route

import "github.com/mcp-metatool/mcp-metatool/host/wire"

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ErrorResult is the CallToolResult of a tool that failed, with one text block.
func ErrorResult(text string) []byte {
	return wire.Marshal(struct {
		Content []textBlock `json:"content"`
		IsError bool        `json:"isError"`
	}{[]textBlock{{"text", text}}, true})
}
