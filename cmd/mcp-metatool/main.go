// Command mcp-metatool is an MCP server that offers the tools of many other MCP servers, and runs
// composite tools: Starlark scripts in a WebAssembly sandbox that call the tools of the servers.
//
// Each group of verbs is a package in a folder below. Package cli has the parts that groups share; no
// group imports another group.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/fleet"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/man"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/repl"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/runs"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/serve"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/servers"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/setup"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/smoke"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/tools"
)

// groups returns the verbs of each group.
var groups = []func() []*cobra.Command{
	serve.Commands,
	servers.Commands,
	setup.Commands,
	tools.Commands,
	runs.Commands,
	repl.Commands,
	smoke.Commands,
	fleet.Commands,
	demo.Commands,
	man.Commands,
	cli.Commands,
}

func main() { os.Exit(cli.Execute(newRoot(), os.Args[1:])) }

func newRoot() *cobra.Command {
	root := serve.Root()
	for _, group := range groups {
		root.AddCommand(group()...)
	}
	return root
}
