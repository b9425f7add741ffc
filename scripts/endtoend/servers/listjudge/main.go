// Command listjudge says which clients of Go refuse lists. The input is lines of JSON with the
// members "list" and "item" (raw text). For each line, listjudge prints the clients refusing a
// list with this item alone.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

var methods = map[string]string{
	"tools": "tools/list", "resources": "resources/list", "templates": "resources/templates/list", "prompts": "prompts/list",
}

func main() {
	ctx := context.Background()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var asked struct{ List, Item string }
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		refused := []string{}
		for _, c := range []struct {
			name string
			list func(context.Context, string, io.ReadCloser, io.WriteCloser) (int, error)
		}{{"go-sdk", listGoSDK}, {"mcp-go", listMCPGo}} {
			fromServer, toClient := io.Pipe()
			fromClient, toServer := io.Pipe()
			go serve(fromClient, toClient, asked.List, asked.Item)
			n, err := c.list(ctx, asked.List, fromServer, toServer)
			if err != nil || n != 1 {
				refused = append(refused, c.name)
			}
			toServer.Close()
			fromServer.Close()
		}
		out, _ := json.Marshal(refused)
		fmt.Println(string(out))
	}
}

// serve is a server that lists only item.
func serve(in io.Reader, out io.Writer, list, item string) {
	name := list
	if list == "templates" {
		name = "resourceTemplates"
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"no"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}`
		case methods[list]:
			answer = fmt.Sprintf(`"result":{%q:[%s]}`, name, item)
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
	}
}

func listGoSDK(ctx context.Context, list string, in io.ReadCloser, out io.WriteCloser) (n int, err error) {
	c := gosdk.NewClient(&gosdk.Implementation{Name: "c", Version: "1"}, nil)
	s, err := c.Connect(ctx, &gosdk.IOTransport{Reader: in, Writer: out}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	switch list {
	case "tools":
		got, err := s.ListTools(ctx, nil)
		if err != nil {
			return 0, err
		}
		return len(got.Tools), nil
	case "resources":
		got, err := s.ListResources(ctx, nil)
		if err != nil {
			return 0, err
		}
		return len(got.Resources), nil
	case "templates":
		got, err := s.ListResourceTemplates(ctx, nil)
		if err != nil {
			return 0, err
		}
		return len(got.ResourceTemplates), nil
	}
	got, err := s.ListPrompts(ctx, nil)
	if err != nil {
		return 0, err
	}
	return len(got.Prompts), nil
}

func listMCPGo(ctx context.Context, list string, in io.ReadCloser, out io.WriteCloser) (n int, err error) {
	c := client.NewClient(transport.NewIO(in, out, io.NopCloser(eof{})))
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{ProtocolVersion: "2025-11-25", ClientInfo: mcpgo.Implementation{Name: "c", Version: "1"}}}); err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	switch list {
	case "tools":
		got, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
		if err != nil {
			return 0, err
		}
		return len(got.Tools), nil
	case "resources":
		got, err := c.ListResources(ctx, mcpgo.ListResourcesRequest{})
		if err != nil {
			return 0, err
		}
		return len(got.Resources), nil
	case "templates":
		got, err := c.ListResourceTemplates(ctx, mcpgo.ListResourceTemplatesRequest{})
		if err != nil {
			return 0, err
		}
		return len(got.ResourceTemplates), nil
	}
	got, err := c.ListPrompts(ctx, mcpgo.ListPromptsRequest{})
	if err != nil {
		return 0, err
	}
	return len(got.Prompts), nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
