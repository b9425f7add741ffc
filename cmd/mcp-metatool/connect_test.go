package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tailscale/hujson"
)

// starthost starts a server of a host's file as a desktop program does, with a short PATH
// and in the home directory, and prints the names of its tools.
func starthost(file, name string) int {
	text, err := os.ReadFile(file)
	if err == nil {
		text, err = hujson.Standardize(text)
	}
	type server struct {
		Command string
		Args    []string
		Env     map[string]string
	}
	var settings struct {
		MCPServers     map[string]server `json:"mcpServers"`
		ContextServers map[string]server `json:"context_servers"`
	}
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	s, ok := settings.MCPServers[name]
	if !ok {
		s = settings.ContextServers[name]
	}
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir = os.Getenv("HOME")
	for _, name := range append([]string{"HOME"}, homeVariables...) {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin")
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message struct {
			ID     int
			Result struct{ Tools []struct{ Name string } }
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		switch message.ID {
		case 1:
			fmt.Fprintln(in, strings.Join([]string{
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
			}, "\n"))
		case 2:
			for _, tool := range message.Result.Tools {
				fmt.Println(tool.Name)
			}
			_ = in.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
