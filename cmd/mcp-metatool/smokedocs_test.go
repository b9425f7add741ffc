package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// TestSmokeDocs writes the files of docs/smoke.md, runs its commands, and runs the
// checks of every file. npx is a server that offers what they use of the real one.
func TestSmokeDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	d := &smokeDocs{readme: newReadme(t)}
	for i, b := range readBlocks(t, filepath.Join("..", "..", "docs", "smoke.md")) {
		if err := d.try(b); err != nil {
			t.Fatalf("block %d (%s):\n%s\n%v", i+1, b.language, b.text, err)
		}
	}
	if d.files < 7 || d.commands < 8 {
		t.Errorf("%d files and %d commands", d.files, d.commands)
	}
	for name := range d.unrun {
		if err := d.shell("mcp-metatool smoke " + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type smokeDocs struct {
	*readme
	files, commands int
	unrun           map[string]bool
	output          string // of the last command
}

var (
	fileComment = regexp.MustCompile(`^# (\S+\.\S+)\n`)
	exitComment = regexp.MustCompile(`# exit code (\d)$`)
	smokeTime   = regexp.MustCompile(` \([0-9.]+m?s\)`)
)

func (d *smokeDocs) try(b block) error {
	switch b.language {
	case "toml", "starlark":
		name := fileComment.FindStringSubmatch(b.text)
		if name == nil {
			return errors.New("the first line does not name the file")
		}
		d.files++
		if strings.HasSuffix(name[1], ".toml") && !strings.HasSuffix(name[1], ".cassette.toml") && name[1] != "config.toml" {
			if d.unrun == nil {
				d.unrun = map[string]bool{}
			}
			d.unrun[name[1]] = true
		}
		return os.WriteFile(filepath.Join(d.dir, name[1]), []byte(b.text), 0o600)
	case "sh":
		for line := range strings.Lines(b.text) {
			if err := d.shell(strings.TrimSpace(line)); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	case "text":
		if got, want := smokeTime.ReplaceAllString(d.output, ""), smokeTime.ReplaceAllString(b.text, ""); got != want {
			return fmt.Errorf("got:\n%s", d.output)
		}
		return nil
	case "yaml":
		return d.workflow(b.text)
	}
	return errors.New("no test knows what to do with it")
}

// workflow runs our commands in a workflow.
func (d *smokeDocs) workflow(text string) error {
	for line := range strings.Lines(text) {
		if _, command, ok := strings.Cut(line, "run: mcp-metatool"); ok {
			if err := d.shell("mcp-metatool" + strings.TrimRight(command, "\n")); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
	}
	return nil
}

// shell runs a command. Its exit code must be 0 unless a comment says otherwise.
func (d *smokeDocs) shell(command string) error {
	want := "0"
	if m := exitComment.FindStringSubmatch(command); m != nil {
		want = m[1]
	}
	d.commands++
	for name := range d.unrun {
		if strings.Contains(command, " "+name) {
			delete(d.unrun, name)
		}
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = d.dir, d.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	d.output = stdout.String()
	if cmd.ProcessState == nil || fmt.Sprint(cmd.ProcessState.ExitCode()) != want {
		return fmt.Errorf("%v, want exit code %s\n%s%s", cmd.ProcessState, want, stdout.Bytes(), stderr.Bytes())
	}
	return nil
}

// tinyImage is a PNG of one pixel.
const tinyImage = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="

// serveEverything is a server with a few of the tools of
// @modelcontextprotocol/server-everything.
func serveEverything() int {
	options := clients.Options{Backend: everything{demo.Server{
		{Definition: everythingTool("echo")}, {Definition: everythingTool("get-sum")},
		{Definition: everythingTool("get-tiny-image")}, {Definition: everythingTool("get-structured-content")},
		{Definition: everythingTool("trigger-long-running-operation")},
	}}, Name: "everything", Version: "0", Log: slog.New(slog.DiscardHandler)}
	if clients.ServeStdio(context.Background(), struct{ io.Reader }{os.Stdin}, os.Stdout, options) != nil {
		return 1
	}
	return 0
}

func everythingTool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

type everything struct{ demo.Server }

// Handle implements clients.Backend.
func (s everything) Handle(ctx context.Context, call route.Call) wire.Reply {
	if call.Method != "tools/call" {
		return s.Server.Handle(ctx, call)
	}
	text := func(format string, args ...any) wire.Reply {
		return wire.Reply{Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Quote(fmt.Sprintf(format, args...)))}
	}
	var args struct {
		Message  string
		A, B     *float64
		Duration float64
		Steps    int
	}
	cli.Number(call.Params, "arguments", &args)
	switch name, _ := wire.GetString(call.Params, "name"); name {
	case "echo":
		return text("Echo: %s", args.Message)
	case "get-sum":
		if args.A == nil || args.B == nil {
			return wire.Reply{Result: route.ErrorResult("Invalid arguments for tool get-sum: b: Required")}
		}
		return text("The sum of %v and %v is %v.", *args.A, *args.B, *args.A+*args.B)
	case "get-tiny-image":
		return wire.Reply{Result: []byte(`{"content":[{"type":"image","mimeType":"image/png","data":"` + tinyImage + `"}]}`)}
	case "get-structured-content":
		return wire.Reply{Result: []byte(`{"content":[],"structuredContent":{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}}`)}
	}
	for step := range args.Steps {
		select {
		case <-time.After(time.Duration(args.Duration / float64(args.Steps) * float64(time.Second))):
		case <-ctx.Done():
			return wire.Reply{}
		}
		if call.Progress != nil {
			call.Progress(wire.Marshal(demo.Progress{Progress: step + 1, Total: args.Steps}))
		}
	}
	return text("Long running operation completed.")
}
