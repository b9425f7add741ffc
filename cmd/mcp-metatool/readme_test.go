package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/servers"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestReadme runs, loads or compares every fenced block of README.md and of docs/agents.md,
// which goes on with its example, in order. What one block configures or saves is there for
// the blocks after it.
func TestReadme(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	r := newReadme(t)
	for _, page := range []string{"README.md", "docs/agents.md"} {
		for i, b := range readBlocks(t, filepath.Join("..", "..", filepath.FromSlash(page))) {
			// Not a subtest, because the rest depends on it.
			if err := r.try(b); err != nil {
				t.Fatalf("%s, block %d (%s):\n%s\n%v", page, i+1, b.language, b.text, err)
			}
		}
	}
	want := map[string]int{"host": 2, "registration": 2, "http": 1, "config": 2, "file": 2, "output": 3, "save": 1, "script": 2, "result": 1, "error": 1}
	if !maps.Equal(r.kinds, want) {
		t.Errorf("blocks by kind: %v, want %v", r.kinds, want)
	}
	if r.commands < 19 {
		t.Errorf("only %d commands were run", r.commands)
	}
	text := strings.Join(strings.Fields(readText(t, filepath.Join("..", "..", "README.md"))), " ")
	if m := demoSaves.FindStringSubmatch(r.demo); m == nil || !strings.Contains(text, m[2]+" of answers, and the agent gets "+m[1]+" of text") {
		t.Errorf("README.md does not have the bytes that the demo saves: %q", m)
	}
}

// demoSaves matches the line of the demo with the bytes for the agent and the bytes of all answers.
var demoSaves = regexp.MustCompile(`What came back: (.+) of text, out of (.+) of answers`)

// TestCommandsDocs runs the commands of docs/commands.md, with the servers and the tool of
// README.md.
func TestCommandsDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	r := newReadme(t)
	put(t, filepath.Join(r.dir, "config.toml"), "startup_wait = \"1m\"\n") // also on slow machines
	tool := 0
	for _, b := range readBlocks(t, filepath.Join("..", "..", "README.md")) {
		if !strings.Contains(b.text, "[tool.departures]") && !strings.HasPrefix(b.text, "mcp-metatool add ") {
			continue
		}
		tool++
		if err := r.try(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.shell("mcp-metatool tools import departures.toml --yes"); err != nil || tool != 2 {
		t.Fatal(tool, err)
	}
	for i, b := range readBlocks(t, filepath.Join("..", "..", "docs", "commands.md")) {
		if err := r.try(b); err != nil {
			t.Fatalf("block %d (%s):\n%s\n%v", i+1, b.language, b.text, err)
		}
	}
	if r.commands < 25 {
		t.Errorf("only %d commands were run", r.commands)
	}
}

type block struct{ language, text string }

func readBlocks(t *testing.T, name string) []block {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	parts := strings.Split("\n"+string(text), "\n```")
	if len(parts)%2 == 0 {
		t.Fatal("a fence is not closed")
	}
	for i := 1; i < len(parts); i += 2 {
		language, body, _ := strings.Cut(parts[i], "\n")
		blocks = append(blocks, block{language, body + "\n"})
	}
	return blocks
}

type readme struct {
	dir      string
	env      []string
	kinds    map[string]int
	commands int
	url      string // where the HTTP front end was served
	output   string // standard output of the last command
	demo     string // standard output of the demo
}

func newReadme(t *testing.T) *readme {
	t.Helper()
	startsProgram(t)
	dir := t.TempDir()
	return &readme{
		dir:   dir,
		env:   append(os.Environ(), "MCP_METATOOL_DIR="+dir, "GITHUB_TOKEN=ghp_0123456789", "WIKI_TOKEN=wiki_0123456789"),
		kinds: map[string]int{},
	}
}

func (r *readme) try(b block) error {
	switch b.language {
	case "sh":
		for line := range strings.Lines(b.text) {
			if err := r.shell(strings.TrimSpace(line)); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	case "toml":
		return r.toml(b.text)
	case "json":
		return r.json(b.text)
	case "starlark":
		r.kinds["script"]++
		return r.run("eval_starlark", map[string]any{"code": b.text})
	case "text":
		return r.printed(b.text)
	}
	return fmt.Errorf("no test knows what to do with it")
}

// measured is what differs from run to run in what commands print.
var measured = regexp.MustCompile(`[\d.,█ ]+(ms|s)?`)

// printed checks that the last command has printed these lines, in this order, but for
// what was measured.
func (r *readme) printed(text string) error {
	r.kinds["output"]++
	var printed []string
	for line := range strings.Lines(r.output) {
		printed = append(printed, measured.ReplaceAllString(line, ""))
	}
	for line := range strings.Lines(text) {
		i := slices.Index(printed, measured.ReplaceAllString(line, ""))
		if i < 0 {
			return fmt.Errorf("this line is not, or not at this place, in what was printed:\n%s%s", line, r.output)
		}
		printed = printed[i+1:]
	}
	return nil
}

// shell runs a command line. Commands that would need the network or would run this
// test itself are checked in another way.
func (r *readme) shell(line string) error {
	r.commands++
	switch {
	case line == "go test ./...":
		return r.command("go", "list", "-find", "./...")
	case strings.HasPrefix(line, "go install "):
		pkg := strings.TrimPrefix(line, "go install ")
		if !strings.HasPrefix(pkg, "./") {
			return fmt.Errorf("%s is not published", pkg)
		}
		return r.command("go", "list", "-find", pkg)
	case strings.HasPrefix(line, "claude mcp add "):
		_, command, _ := strings.Cut(line, " -- ")
		words := strings.Fields(command)
		return r.register(words[0], words[1:])
	}
	if address, ok := strings.CutPrefix(line, "mcp-metatool serve --http "); ok {
		return r.serve(address)
	}
	if asks.MatchString(line) {
		return r.host(line)
	}
	line = strings.Replace(line, "go run ./cmd/mcp-metatool ", "mcp-metatool ", 1)
	if !strings.HasPrefix(line, "mcp-metatool ") {
		return fmt.Errorf("no test knows how to run it")
	}
	err := r.command("sh", "-c", line)
	if line == "mcp-metatool demo" {
		r.demo = r.output
	}
	var failed *exec.ExitError
	if strings.HasPrefix(line, "mcp-metatool doctor") && errors.As(err, &failed) && failed.ExitCode() == servers.ExitWarned {
		return nil // about the folder of the test's programs, which hosts do not look in
	}
	return err
}

// asks matches a command that asks before it writes.
var asks = regexp.MustCompile(`^mcp-metatool (import|connect) [a-z][a-z-]*( --replace)?$`)

// host runs a command that writes to the files of hosts, in a home directory of its own.
// Claude Desktop has a server there.
func (r *readme) host(line string) error {
	r.kinds["host"]++
	home := filepath.Join(r.dir, "home")
	for _, dir := range []string{".config/Claude", "Library/Application Support/Claude"} {
		dir = filepath.Join(home, filepath.FromSlash(dir))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		servers := `{"mcpServers": {"harbour": {"command": "mcp-metatool", "args": ["demo-upstream", "harbour"]}}}`
		if err := os.WriteFile(filepath.Join(dir, "claude_desktop_config.json"), []byte(servers), 0o600); err != nil {
			return err
		}
	}
	cmd := exec.Command("sh", "-c", line+" --yes")
	cmd.Dir = r.dir
	cmd.Env = append(r.env, "HOME="+home, "XDG_CONFIG_HOME=", "CLAUDE_CONFIG_DIR=", "MCP_METATOOL_DIR=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (r *readme) command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	if cmd.Env = r.env; name == "go" { // whose caches are in the real home
		cmd.Env = ownEnviron
	}
	if cmd.Dir = r.dir; name == "go" {
		cmd.Dir = filepath.Join("..", "..")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if r.output = string(out); err != nil {
		return fmt.Errorf("%w\n%s%s", err, out, &stderr)
	}
	return nil
}

func (r *readme) toml(text string) error {
	var hosts struct {
		Servers map[string]registration `toml:"mcp_servers"`
	}
	if _, err := toml.Decode(text, &hosts); err != nil {
		return err
	}
	if hosts.Servers != nil {
		return r.registerAll(hosts.Servers)
	}
	if name := fileComment.FindStringSubmatch(text); name != nil {
		r.kinds["file"]++
		return os.WriteFile(filepath.Join(r.dir, name[1]), []byte(text), 0o600)
	}
	r.kinds["config"]++
	file := filepath.Join(r.dir, "by-hand.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return r.command("mcp-metatool", "check", "--config", file)
}

// serve starts the HTTP front end on a free port, and ends it when it has printed its
// address.
func (r *readme) serve(address string) error {
	r.kinds["http"]++
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	cmd := exec.Command("mcp-metatool", "serve", "--http", net.JoinHostPort(host, "0"))
	cmd.Env = r.env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var heard strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(&heard, lines.Text())
		if _, at, ok := strings.Cut(lines.Text(), "serving MCP on "); ok {
			url, err := url.Parse(strings.TrimSpace(at))
			if err != nil {
				return err
			}
			url.Host = address
			r.url = url.String()
			break
		}
	}
	err = errors.Join(cmd.Process.Signal(syscall.SIGTERM), lines.Err())
	_, _ = io.Copy(&heard, stderr)
	if err = errors.Join(err, cmd.Wait()); err != nil || r.url == "" {
		return fmt.Errorf("%w\n%s", err, heard.String())
	}
	return nil
}

type registration struct {
	Type    string   `json:"type"`
	URL     string   `json:"url"`
	Command string   `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
}

func (r *readme) json(text string) error {
	var doc struct {
		MCPServers map[string]registration `json:"mcpServers"`
		Servers    map[string]registration `json:"servers"`
		Code       string                  `json:"code"`
		Result     json.RawMessage         `json:"result"`
		Error      json.RawMessage         `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	switch {
	case doc.MCPServers != nil:
		return r.registerAll(doc.MCPServers)
	case doc.Servers != nil:
		return r.registerAll(doc.Servers)
	case doc.Code != "":
		r.kinds["save"]++
		if doc.Code != demo.Code {
			return fmt.Errorf("its code is not that of the demo")
		}
		if err := r.run("save_tool", json.RawMessage(text)); err != nil {
			return err
		}
		// People save it from a file.
		file := filepath.Join(r.dir, "definition.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		return r.command("mcp-metatool", "tools", "import", file, "--yes")
	case doc.Result != nil:
		r.kinds["result"]++
		return r.compare(text, demo.Name, json.RawMessage(demo.Arguments))
	case doc.Error != nil:
		r.kinds["error"]++
		text = strings.Replace(text, demo.Name, "eval_starlark", 1)
		return r.compare(text, "eval_starlark", map[string]any{"code": demo.Bug(), "params": json.RawMessage(demo.Arguments)})
	}
	return fmt.Errorf("no test knows what to do with it")
}

func (r *readme) registerAll(servers map[string]registration) error {
	if len(servers) != 1 {
		return fmt.Errorf("%d servers", len(servers))
	}
	for _, s := range servers {
		if s.URL != "" {
			r.kinds["registration"]++
			if s.Type != "http" || s.URL != r.url {
				return fmt.Errorf("type %q, url %s; want http, %s", s.Type, s.URL, r.url)
			}
			return nil
		}
		if s.Type != "" && s.Type != "stdio" {
			return fmt.Errorf("type %q", s.Type)
		}
		return r.register(s.Command, s.Args)
	}
	return nil
}

// register starts the command that a host would start, without input.
func (r *readme) register(command string, args []string) error {
	r.kinds["registration"]++
	const placeholder = "/path/to/config.toml"
	at := slices.Index(args, placeholder)
	if command != "mcp-metatool" || at < 0 {
		return fmt.Errorf("%s %q: want mcp-metatool with %s", command, args, placeholder)
	}
	file := filepath.Join(r.dir, "registered.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	args = slices.Clone(args)
	args[at] = file
	return r.command(command, args...)
}

// run calls a tool, which must succeed.
func (r *readme) run(tool string, arguments any) error {
	_, err := r.raw(tool, arguments)
	return err
}

func (r *readme) raw(tool string, arguments any) ([]byte, error) {
	cmd := exec.Command("mcp-metatool", "run", tool, "--raw", "--params", "-")
	cmd.Env = r.env
	cmd.Stdin = bytes.NewReader(wire.Marshal(arguments))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("run %s: %w\n%s", tool, err, &stderr)
	}
	return out, err
}

// asAgent calls a tool as agents do; run shows people more.
func (r *readme) asAgent(tool string, arguments any) ([]byte, error) {
	cmd := exec.Command("mcp-metatool", "serve")
	cmd.Env = r.env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Wait() // its answer is what counts
	defer in.Close()
	fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"readme","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%s,"arguments":%s}}
`, wire.Quote(tool), wire.Marshal(arguments))
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if id, _ := wire.Get(lines.Bytes(), "id"); string(id) == "2" {
			result, _ := wire.Get(bytes.Clone(lines.Bytes()), "result")
			return result, nil
		}
	}
	return nil, fmt.Errorf("%s was not answered: %w", tool, lines.Err())
}

// compare calls a tool and checks that its structuredContent contains all of text.
func (r *readme) compare(text, tool string, arguments any) error {
	out, err := r.asAgent(tool, arguments)
	if err != nil {
		return err
	}
	got, ok := wire.Get(out, "structuredContent")
	if !ok {
		return fmt.Errorf("the result has no structuredContent: %s", out)
	}
	wanted, err := parse(text)
	if err != nil {
		return err
	}
	if object := wanted.(map[string]any); object["executionTime"] != nil {
		object["executionTime"] = "*"
	}
	found, err := parse(string(got))
	if err != nil {
		return err
	}
	if !matches(wanted, found) {
		return fmt.Errorf("not in what %s gives:\n%s", tool, cli.IndentJSON(got))
	}
	return nil
}

// TestCommandsPage checks that docs/commands.md has every command.
func TestCommandsPage(t *testing.T) {
	page := readText(t, filepath.Join("..", "..", "docs", "commands.md"))
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			name := strings.TrimPrefix(sub.CommandPath(), "mcp-metatool ")
			switch {
			case sub.Hidden:
			case sub.HasSubCommands():
				check(sub)
			case !regexp.MustCompile("`(mcp-metatool )?\\[?" + name + "\\b").MatchString(page):
				t.Errorf("docs/commands.md does not have %s", name)
			}
		}
	}
	check(newRoot())
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
