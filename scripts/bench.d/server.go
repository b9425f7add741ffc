package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// maxLine bounds a message in bytes.
const maxLine = 1 << 20

// serveEcho is an MCP server with the one tool "echo", over lines.
func serveEcho(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion json.RawMessage `json:"protocolVersion"`
				Arguments       struct {
					Message json.RawMessage `json:"message"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("message from the client: %w", err)
		}
		if m.ID == nil {
			continue
		}
		result := "{}"
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":` + string(m.Params.ProtocolVersion) + `,"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":` + string(m.Params.Arguments.Message) + `}]}`
		}
		if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result); err != nil {
			return err
		}
	}
	return lines.Err()
}
