package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// hostileCalls are calls of every verb, in an order in which each has something to
// show. A verb with nil shows no text from others.
var hostileCalls = []struct {
	verb string
	args []string // each a command line
}{
	{"serve", nil}, {"demo", nil}, {"demo-upstream", nil}, {"version", nil}, {"completion", nil}, {"help", nil},
	{"check", []string{""}},
	{"doctor", []string{"", "--json"}},
	{"cache clean", []string{"--dry-run", "--dry-run --json"}},
	{"servers", []string{"--color always", "--json", "--names --color always", "--check"}},
	{"sandbox try", []string{"evil -c boxed.toml --color always", "evil -c boxed.toml --json"}}, {"sandbox learn", []string{"evil", "evil --add --dry-run --color always"}},
	{"pins diff", []string{"evil --color always", "--json"}}, {"pins accept", []string{"--dry-run --color always", "--yes"}},
	{"pins status", []string{"--color always", "--json"}}, {"pins verify", []string{"--color always", "--json"}},
	{"reload", []string{""}},
	{"auth", []string{"evil"}},
	{"secret set", nil}, {"secret remove", nil}, {"secret list", []string{"", "--json"}},
	{"token new", []string{"new --dry-run", "new --print"}}, {"token remove", []string{"evil --dry-run"}}, {"token list", []string{"", "--json", "--color always"}},
	{"tools list", []string{"", "--json", "--color always"}},
	{"tools show", []string{"job --color always", "job --json"}},
	{"tools history", []string{"job", ""}},
	{"tools revert", []string{"job 1"}},
	{"tools export", []string{"--out exported", "job"}},
	{"tools import", []string{"bad.toml --color always", "exported --dry-run"}},
	{"run", []string{
		"evil__get", "evil__get --params {\"a\":\"structured\"}", "evil__get --params {\"a\":\"refuse\"}", "job --raw", "job --params {\"a\":\"fail\"}",
	}},
	{"plan", []string{"job", "job --json", "job --params {\"a\":\"fail\"}"}},
	{"plan show", []string{"last", "last --json"}},
	{"apply", []string{"last --yes", "last --yes --json"}},
	{"lint", []string{"bad.star --connect", "bad.star --color always"}},
	{"repl", []string{"< repl.star"}},
	{"runs list", []string{"--color always", "--json", "--proxied", "--open --color always", "--open --json"}},
	{"fleet status", nil}, {"fleet drain", nil}, {"fleet keys", nil}, {"fleet init", nil}, // need a NATS server: what status prints is escaped in fleetstatus.go
	{"store copy", nil}, // needs a NATS server: what it prints is escaped in printCopy
	{"runs show", []string{"last", "last --calls --color always", "last --json", "last --html -", "last --tree", "last --tree --json", "last --color always"}},
	{"runs stats", []string{"", "--json", "--proxied"}},
	{"runs diff", []string{"last last", "last last --json"}},
	{"runs tail", []string{"-n 5"}}, // until it is interrupted
	{"runs cancel", []string{"DURABLE", "~"}}, {"runs resume", []string{"~", "DURABLE --color always"}},
	{"approvals list", []string{"--color always", "--json"}},
	{"approvals show", []string{"APPROVAL1 --color always", "APPROVAL1 --json"}},
	{"approvals allow", []string{"APPROVAL1 --remember", "APPROVAL2 --json --note \x1b]0;x\x07"}},
	{"approvals deny", []string{"APPROVAL3"}},
	{"approvals forget", []string{"APPROVAL1"}},
	{"policy check", []string{"--policy rules.toml", "--policy rules.toml --json"}},
	{"policy explain", []string{"evil.get --policy rules.toml --color always", "evil.get --policy rules.toml --json"}},
	{"policy test", []string{"--policy rules.toml --all --color always", "--policy rules.toml --all --json"}},
	{"replay", []string{"last --with bad.star --color always"}},
	{"verify", []string{"last", "last --json", "--all", "bad.star"}}, {"runs export", []string{"last", "~"}},
	{"flow labels", []string{"", "--json"}}, {"flow clear", []string{"evil", "~"}}, {"flow trust", []string{"job", "~"}},
	{"smoke", []string{"checks.toml", "checks.toml --format json", "checks.toml --list"}},
	{"smoke init", []string{"--dry-run --all -o new.toml", "--dry-run -o new.toml other -- ./hostile"}},
	{"import", []string{"host.json --dry-run --color always"}},
	{"add", []string{"other --dry-run -- ./hostile"}},
	{"disable", []string{"evil --dry-run --color always"}}, {"enable", []string{"evil --dry-run"}}, {"remove", []string{"evil --dry-run"}},
	{"connect", []string{"--list"}},
	{"disconnect", nil}, {"man", nil}, {"ui", nil}, // a browser shows the page
	{"tools delete", []string{"job"}},
}

// TestHostileTerminal checks that no verb writes escape sequences, control characters
// or bidirectional text of a hostile server, tool, script or record to a terminal.
func TestHostileTerminal(t *testing.T) {
	onlyLong(t)
	dir := hostileDir(t)
	waiting := hostileApprovals(t, dir)
	open := hostileDurable(t, dir)
	known := map[string]bool{}
	for _, c := range hostileCalls {
		known[c.verb] = true
		for _, args := range c.args {
			args = strings.ReplaceAll(waiting.Replace(args), "DURABLE", open)
			screen := ownEscapes.Replace(onTerminal(t, dir, append(strings.Fields(c.verb), strings.Fields(args)...)))
			if !strings.Contains(screen, "~") && c.verb == "run" {
				t.Errorf("%s %s shows nothing: %q", c.verb, args, screen)
			}
			if at := strings.IndexFunc(screen, acts); at >= 0 || strings.Contains(screen, "~\r") || !utf8.ValidString(screen) {
				t.Errorf("%s %s writes to the terminal at %d: %.300q", c.verb, args, at, screen[max(0, at-40):])
			}
		}
	}
	for _, verb := range verbs(newRoot(), "") {
		if !known[verb] {
			t.Errorf("%s is not tried (put it into hostileCalls)", verb)
		}
	}
	out, err := runIn(dir, "run", "evil__get").Output()
	if want := "line\nline\t" + nasty + "\n"; err != nil || string(out) != want {
		t.Errorf("into a pipe goes %q, %v; want the bytes as they are", out, err)
	}
}

// ownEscapes removes the escape sequences that the program itself writes: colours, and those of the
// line while one waits.
var ownEscapes = strings.NewReplacer("\r\x1b[K", "", "\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "")

// acts matches characters that a terminal interprets instead of showing them. The
// progress bar returns to the beginning of its line.
func acts(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && unicode.Is(unicode.C, r) }

// verbs returns all commands that can be run.
func verbs(cmd *cobra.Command, prefix string) (all []string) {
	for _, c := range cmd.Commands() {
		name := strings.TrimSpace(prefix + " " + c.Name())
		if c.HasSubCommands() {
			all = append(all, verbs(c, name)...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// hostileDir returns a directory with a configuration, a saved tool, and hostile files.
func hostileDir(t *testing.T) string {
	t.Helper()
	if err := home(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "hostile")); err != nil {
		t.Fatal(err)
	}
	quoted := string(wire.Quote(nasty))
	code := "# " + strings.ReplaceAll(nasty, "\r", "") + "\nprint('log', evil.get())\nlog.warn(" + quoted + ")\nprogress(1, 2, " + quoted + ")\n" +
		"if params.get('a'):\n    evil.get(a=params.a)\nreturn {" + quoted + ": [evil.get(), " + quoted + "]}\n"
	def := tools.Definition{
		Name: "job", Description: "does " + nasty, Code: code,
		InputSchema:  json.RawMessage(`{"type":"object","description":` + quoted + `}`),
		OutputSchema: json.RawMessage(`{"type":"object","description":` + quoted + `}`),
		Metadata:     tools.Metadata{Created: time.Now(), Modified: time.Now()},
	}
	saved, err := def.File()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"config.toml":                    fmt.Sprintf("[store]\ndir = \".\"\n[upstream.evil]\ncommand = %q\ncwd = \"data\"\nprobe = { call = \"get\", expect = \"no\" }\n", filepath.Join(dir, "hostile")),
		"boxed.toml":                     fmt.Sprintf("[store]\ndir = \".\"\n[upstream.evil]\ncommand = %q\ncwd = \"data\"\nsandbox = { best_effort = true }\n", filepath.Join(dir, "hostile")),
		"tools/job.json":                 string(saved),
		filepath.Join("data", nastyFile): "",
		"bad.star":                       "x = " + quoted + "\n# \u202e\u009b\ny = evil.nope\nreturn evil.get(" + quoted + "=1)\n",
		"repl.star":                      "evil.get()\nevil.get(a='fail')\n.tools\n.tools gets\n.help\nprint(" + quoted + ")\nx = " + quoted + "\n.vars\n.nope\u202e\n",
		"bad.toml":                       "format = \"mcp-metatool tools 1\"\n[tool.other]\ndescription = " + quoted + "\ninputSchema = '{\"type\": \"object\"}'\ncode = \"return 1 # \\u202e\"\n",
		"checks.toml":                    checksOf(dir, quoted),
		"check\u202eed.star":             "return 1",
		"host.json":                      `{"mcpServers": {"x": {"command": ` + quoted + `, "args": [` + quoted + `], "env": {"A": ` + quoted + `}, "what": ` + quoted + `}}}`,
		"rules.toml":                     "[policy]\n[[policy.rule]]\nname = \"x\"\ntools = [\"evil.*\"]\nwhen = 'args.a == \"x\"'\naction = \"ask\"\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// hostileApprovals puts calls into the queue of approvals. The Replacer puts their ids in place
// of APPROVAL1 and so on.
func hostileApprovals(t *testing.T, dir string) *strings.Replacer {
	t.Helper()
	queue := approval.OpenQueue(dir, slog.New(slog.DiscardHandler))
	defer queue.Close()
	approver := approval.New(approval.Options{
		Queue: queue, Redact: func(raw []byte) []byte { return raw },
		Settings: func() approval.Settings {
			return approval.Settings{By: approval.ByQueue, Wait: approval.Answer, Timeout: time.Hour, MaxWaiting: 9}
		},
	})
	var ids []string
	for n := range 3 {
		made, _ := approver.Approve(t.Context(), route.Asking{
			Request: policy.Request{
				Kind: policy.KindTool, Server: nasty, Name: nasty, Arguments: fmt.Appendf(nil, `{%s:[%[1]s,%d]}`, wire.Quote(nasty), n),
				Definition: []byte(`{"description":` + string(wire.Quote(nasty)) + `}`), Caller: policy.Caller{Client: nasty, Script: nasty},
			},
			Decision: policy.Decision{Action: policy.Ask, Rule: nasty, Reason: nasty},
		})
		if made.ID == "" {
			t.Fatal("the call is not in the queue")
		}
		ids = append(ids, fmt.Sprintf("APPROVAL%d", n+1), made.ID)
	}
	return strings.NewReplacer(ids...)
}

// hostileDurable leaves a durable run in the middle of a call, and returns its id.
func hostileDurable(t *testing.T, dir string) string {
	t.Helper()
	begin := journal.Begin{Params: []byte("{}"), Guest: nasty, Client: journal.Client{Name: nasty}}
	begin.Definition.Name, begin.Definition.Code = nasty, "return 1"
	return leaveRun(t, dir, begin, durable.About{Token: nasty}, journal.CallRecord{Seq: 1, Server: nasty, Tool: nasty})
}

// checksOf returns a file with a check that passes and others that fail.
func checksOf(dir, quoted string) string {
	return fmt.Sprintf(`[store]
dir = "."
[upstream.evil]
command = %q
[[check]]
name = %s
call = "evil__get"
expect.text = "line"
[[check]]
name = "fails"
call = "evil__get"
expect.text = "not this"
[[check]]
name = "script"
code = "print('log', evil.get())\nreturn evil.get(a='fail')"
[[check]]
name = "offer"
server = "evil"
expect.tools = ["nope"]
`, filepath.Join(dir, "hostile"), strings.ReplaceAll(quoted, "\u007f", "\\u007f"))
}

// runIn runs the program in a directory.
func runIn(dir string, args ...string) *exec.Cmd {
	var stdin string
	if at := strings.Index(strings.Join(args, " "), " < "); at > 0 {
		args, stdin = args[:len(args)-2], args[len(args)-1]
	}
	cmd := exec.Command("mcp-metatool", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir, "NO_COLOR=1")
	if stdin != "" {
		cmd.Stdin, _ = os.Open(filepath.Join(dir, stdin)) // nil is an empty input
	}
	return cmd
}

// onTerminal runs the program and returns what it writes to its terminal.
func onTerminal(t *testing.T, dir string, args []string) string {
	t.Helper()
	master, slave := openTerminal(t)
	if _, err := term.MakeRaw(int(slave.Fd())); err != nil { // nothing is added to what is written
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	screen := &textLog{more: make(chan struct{}, 1)}
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(io.MultiWriter(&b, screen), master) // until all who have the terminal have ended
		read <- b.Bytes()
	}()
	cmd := runIn(dir, args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(strings.Join(args, " "), "runs tail") {
		if err := screen.await("TOOK"); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Wait() // some calls fail
	slave.Close()
	text := <-read
	master.Close()
	return string(text)
}
