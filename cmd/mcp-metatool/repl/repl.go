// Package repl has the verb repl, which runs script code line by line. A replState keeps what later
// inputs may use; a terminal edits lines.
package repl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Commands returns the verb repl.
func Commands() []*cobra.Command {
	return []*cobra.Command{replCommand()}
}

func replCommand() *cobra.Command {
	s := &cli.Settings{}
	var approve cli.ApproveFlag
	cmd := &cobra.Command{
		Use:   "repl",
		Short: "Try scripts line by line against the configured servers",
		Long: `Read Starlark line by line, run each input in the sandbox against the configured
servers, and print its value. The calls it makes are real.

A block (def, for, if, try, ...) ends with an empty line, and an open bracket continues
the input. On a terminal, TAB completes names of servers, tools, variables and built-in
functions; Ctrl-C cancels the running input and its calls; quit, exit or Ctrl-D ends.
Without a terminal, standard input is read without prompts, and the exit code is 1 if an
input failed. .help shows the commands.

Each input is a run of its own with the limits of a run. Later inputs can use the names
that it assigns: data is copied (so two names no longer share a list), tools and servers
are kept by name, and functions by their source (a def, or name = lambda, on lines of its
own). Other values are not kept, and a note says so. If an input fails or returns, all
names keep their values, but its calls were made. _ is the last value that was not None.
params is {} until it is assigned.

If policy asks for the approval of a call, you are asked at the terminal. Without one
it is denied; --approve allow allows it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRepl(cmd, s, &approve) },
	}
	s.AddFlags(cmd, slog.LevelWarn)
	approve.AddFlag(cmd)
	return cmd
}

func runRepl(cmd *cobra.Command, s *cli.Settings, approve *cli.ApproveFlag) error {
	cfg, err := s.Load()
	if err != nil {
		return err
	}
	r := &repl{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), read: lineReader(cmd.Context(), cmd.InOrStdin())}
	person := approve.PersonAt(nil, nil, nil)
	if cli.IsTerminal(os.Stdin) && cli.IsTerminal(os.Stdout) {
		t, err := takeTerminal(cmd.Context(), os.Stdin, os.Stdout, cfg.Store.Dir)
		if err != nil {
			return err
		}
		defer t.close()
		t.complete = r.complete
		r.terminal, r.out, r.errs, r.read = t, t, t, t.readLine
		person = approve.PersonAt(t, t.answer, nil)
	}
	s.Masker = cfg.NewMasker()
	s.SetLevel(cfg)
	r.mask = s.Masker.Mask
	log := cli.NewLogger(s.Masker, r.errs, &s.Current, s.FormatOf(cfg))
	cfg.Debug = true // for the backtrace
	opts := cli.HostOptions(log, host.NoClient)
	opts.Person = person
	return cli.WithHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		return cli.WithClient(ctx, h, func(c *host.Client) error {
			r.host, r.client = h, c
			if r.terminal != nil {
				fmt.Fprintf(r.out, "mcp-metatool %s: .help for help, quit or Ctrl-D to leave\n", cli.CurrentVersion())
			}
			if err := r.loop(ctx); err != nil {
				return err
			}
			if r.failed && r.terminal == nil {
				return cli.Failed(nil)
			}
			return nil
		})
	})
}

// repl is a run of repl.
type repl struct {
	host     *host.Host
	client   *host.Client
	mask     func(string) string
	terminal *terminal // nil: none
	out      io.Writer // values and the output of scripts
	errs     io.Writer
	// read returns the next line without its ending, or io.EOF. The error is errInterrupted when
	// the user has discarded the input.
	read func(more bool) (string, error)

	state   replState
	pending []string // lines of an incomplete input
	block   bool     // pending ends with a block
	failed  bool     // an input has failed
	modules map[string][]string
}

// errInterrupted is the error of reading after Ctrl-C.
var errInterrupted = errors.New("interrupted")

// errQuit ends the repl.
var errQuit = errors.New("quit")

// loop runs until the input ends, .quit, or ctx ends.
func (r *repl) loop(ctx context.Context) error {
	for {
		line, err := r.read(len(r.pending) > 0)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errInterrupted):
			r.pending, r.block = nil, false
			continue
		case errors.Is(err, io.EOF):
			return r.flush(ctx)
		case err != nil:
			return fmt.Errorf("repl: %w", err)
		}
		if err := r.line(ctx, line); errors.Is(err, errQuit) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// line handles a line: a command, or a part of an input. A complete input is run.
func (r *repl) line(ctx context.Context, line string) error {
	text := strings.TrimSpace(line)
	if r.block && endsBlock(line) {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	if len(r.pending) == 0 {
		switch {
		case text == "" || text[0] == '#':
			return nil
		case text[0] == '.':
			return r.command(ctx, text)
		case isQuit(text) && !slices.Contains(r.state.names, text[:len("quit")]):
			return errQuit
		}
	}
	r.pending = append(r.pending, line)
	code := strings.Join(r.pending, "\n") + "\n"
	if len(code) > builtin.MaxCode {
		r.pending, r.block = nil, false
		r.fail(fmt.Sprintf("the input is larger than %s", display.Size(builtin.MaxCode)))
		return nil
	}
	l, err := r.host.Inspect(ctx, "input", code)
	if err != nil {
		r.pending, r.block = nil, false
		return r.failWith(ctx, err)
	}
	r.block = l.Block && text != ""
	if l.Open || r.block {
		return nil
	}
	return r.run(ctx, code, l)
}

var blockWord = lazyregexp.New(`^\w+`)

// endsBlock reports whether a line cannot belong to the block before.
func endsBlock(line string) bool {
	if line == "" || strings.ContainsRune(" \t#", rune(line[0])) {
		return false
	}
	switch blockWord.FindString(line) {
	case "else", "elif", "except", "finally":
		return false
	}
	return true
}

// flush runs the pending lines of an input.
func (r *repl) flush(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	code := strings.Join(r.pending, "\n") + "\n"
	l, err := r.host.Inspect(ctx, "input", code)
	if err != nil {
		return r.failWith(ctx, err)
	}
	return r.run(ctx, code, l)
}

// run runs an input. The only error is the end of ctx.
func (r *repl) run(ctx context.Context, code string, l abi.Lint) error {
	r.pending, r.block = nil, false
	p := r.state.program(code, l)
	r.state.inputs++
	result, err := r.eval(ctx, p.code, p.params)
	if err != nil {
		return r.failWith(ctx, err)
	}
	for _, line := range result.Logs {
		fmt.Fprintln(r.out, display.Text(line))
	}
	if result.IsError {
		r.fail(p.locate(r.mask(result.Text)))
		return nil
	}
	done := r.state.update(p, result.Value)
	if done.text != "" {
		fmt.Fprintln(r.out, display.Text(done.text))
	}
	for _, note := range done.notes {
		fmt.Fprintln(r.errs, "note: "+display.Text(note))
	}
	return nil
}

// eval runs a script.
func (r *repl) eval(ctx context.Context, code string, params []byte) (cli.ToolResult, error) {
	arguments := fmt.Appendf(nil, `{"code":%s,"params":%s}`, wire.Quote(code), params)
	view, began := cli.NewProgressView(r.errs, false, ""), time.Now()
	progress := func(params []byte) {
		if time.Since(began) >= time.Second { // a shorter time is not worth showing
			view.Update(params)
		}
	}
	return r.call(ctx, "eval_starlark", arguments, progress)
}

// call calls a tool. On a terminal, Ctrl-C cancels the call.
func (r *repl) call(ctx context.Context, tool string, arguments []byte, progress func([]byte)) (cli.ToolResult, error) {
	if r.terminal != nil {
		var done func()
		ctx, done = r.terminal.running(ctx)
		defer done()
	}
	raw, err := cli.CallTool(ctx, r.client, tool, arguments, progress)
	if err != nil {
		return cli.ToolResult{}, err
	}
	return cli.ReadResult(raw), nil
}

// failWith prints why an input has failed, unless ctx has ended.
func (r *repl) failWith(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, errInterrupted) {
		r.fail("cancelled")
	} else {
		r.fail(r.mask(err.Error()))
	}
	return nil
}

func (r *repl) fail(text string) {
	r.failed = true
	fmt.Fprintln(r.errs, display.Text(text))
}

// isQuit reports whether a line is a way to leave Python.
func isQuit(line string) bool {
	return slices.Contains([]string{"quit", "quit()", "exit", "exit()"}, line)
}

var replCommands = []string{".forget", ".help", ".quit", ".tools"}

const replHelp = `.tools [WORDS]  the tools that scripts can call; with words, those that fit best
.forget         forget all variables and functions
.help           this
quit            leave, as exit, .quit and Ctrl-D do
All else is Starlark: servers are there by name, as in github.search({...}).
`

func (r *repl) command(ctx context.Context, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	switch name {
	case ".quit":
		return errQuit
	case ".help":
		fmt.Fprint(r.out, replHelp)
	case ".forget":
		r.state.forget()
	case ".tools":
		return r.tools(ctx, strings.TrimSpace(rest))
	default:
		r.fail(fmt.Sprintf("there is no command %s (%s)", name, strings.Join(replCommands, ", ")))
	}
	return nil
}

// tools prints the result of search_tools.
func (r *repl) tools(ctx context.Context, query string) error {
	const most = 100
	arguments := fmt.Appendf(nil, `{"query":%s,"limit":%d}`, wire.Quote(query), most)
	result, err := r.call(ctx, "search_tools", arguments, nil)
	if err != nil {
		return r.failWith(ctx, err)
	}
	if result.IsError {
		r.fail(r.mask(result.Text))
		return nil
	}
	list, _ := wire.Get(result.Value, "tools")
	found, _ := wire.Elements(list)
	t := cli.NewTable(r.out)
	shown := 0
	for _, f := range found {
		script, _ := wire.GetString(f, "script")
		description, _ := wire.GetString(f, "description")
		if script != "" {
			t.Add(script, display.Line(description, 90))
			shown++
		}
	}
	if shown == 0 {
		fmt.Fprintln(r.out, "no tools")
	} else if err := t.Flush(); err != nil {
		return err
	}
	if total := 0; len(found) == most {
		if cli.Number(result.Value, "total", &total); total > most {
			fmt.Fprintf(r.out, "and %d more: .tools WORDS finds the best\n", total-most)
		}
	}
	return nil
}

// lineReader reads lines of a file or pipe until ctx ends. A read blocked at the end of ctx cannot
// be interrupted, and ends with the process.
func lineReader(ctx context.Context, in io.Reader) func(bool) (string, error) {
	type read struct {
		line string
		err  error
	}
	lines := make(chan read)
	started := false
	return func(bool) (string, error) {
		if !started {
			started = true
			go func() {
				b := bufio.NewReader(in)
				for {
					line, err := b.ReadString('\n')
					if line != "" {
						err = nil
					}
					select {
					case lines <- read{strings.TrimRight(line, "\r\n"), err}:
					case <-ctx.Done():
						return
					}
					if err != nil {
						return
					}
				}
			}()
		}
		select {
		case l := <-lines:
			return l.line, l.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// completions holds the candidates for names and members.
type completions struct {
	words   []string            // names and keywords
	members map[string][]string // by name: .member or ["member"]
}

// These match, at the end of a line, a word and a name with the beginning of a member, but not
// names of members.
var (
	wordAtEnd   = lazyregexp.New(`(?:^|[^\w.\])"'])([A-Za-z_]\w*)$`)
	memberAtEnd = lazyregexp.New(`(?:^|[^\w.\])"'])([A-Za-z_]\w*)(\.\w*|\["?[^"\]]*)$`)
	commandOnly = lazyregexp.New(`^\.\w*$`)
)

// complete returns the unambiguous continuation of a line, and the choices if several exist. If
// both are empty, the line cannot be completed.
func (c completions) complete(before string) (add string, choice []string) {
	var typed string
	var all []string
	if m := memberAtEnd.FindStringSubmatch(before); m != nil {
		typed, all = m[2], c.members[m[1]]
	} else if m := wordAtEnd.FindStringSubmatch(before); m != nil {
		typed, all = m[1], c.words
	} else if commandOnly.MatchString(before) {
		typed, all = before, replCommands
	}
	var fit []string
	for _, w := range all {
		if typed != "" && strings.HasPrefix(w, typed) {
			fit = append(fit, w)
		}
	}
	slices.Sort(fit)
	fit = slices.Compact(fit)
	if len(fit) == 0 {
		return "", nil
	}
	add = strings.TrimPrefix(commonPrefix(fit[0], fit[len(fit)-1]), typed)
	if add != "" || len(fit) == 1 {
		return add, nil
	}
	return "", fit
}

// commonPrefix returns the common prefix of two texts, in whole characters.
func commonPrefix(a, b string) string {
	n := 0
	for i, c := range a {
		if !strings.HasPrefix(b[min(i, len(b)):], string(c)) {
			break
		}
		n = i + len(string(c))
	}
	return a[:n]
}

// notCompleted are reserved words that no script can use.
var notCompleted = []string{"assert", "async", "await", "class", "del", "global", "import", "is", "load", "nonlocal", "with", "yield"}

// complete completes the line before the cursor.
func (r *repl) complete(before string) (add string, choice []string) {
	c := completions{members: r.host.ScriptNames()}
	for _, w := range abi.ReservedNames() {
		if !slices.Contains(notCompleted, w) {
			c.words = append(c.words, w)
		}
	}
	for server := range c.members {
		c.words = append(c.words, server)
	}
	c.words = append(c.words, r.state.names...)
	for name, members := range r.moduleMembers() {
		c.members[name] = members
	}
	for name, v := range r.state.values {
		c.members[name] = membersOf(v)
	}
	return c.complete(before)
}

// membersOf returns the keys of an object that can be written after a dot.
func membersOf(v replValue) []string {
	if !wire.IsObject([]byte(v.JSON)) {
		return nil
	}
	var object map[string]json.RawMessage
	if jsonvalue.Unmarshal([]byte(v.JSON), &object) != nil {
		return nil
	}
	var keys []string
	for k := range object {
		if k != "" && abi.Ident(k) == k {
			keys = append(keys, "."+k)
		}
	}
	return keys
}

// moduleMembers returns the members of the modules of the language, determined once.
func (r *repl) moduleMembers() map[string][]string {
	if r.modules != nil {
		return r.modules
	}
	const most = 2 * time.Second // while the sandbox is being compiled, the result is empty
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	arguments := []byte(`{"code":"return {\"json\": dir(json), \"math\": dir(math), \"log\": dir(log), \"content\": dir(content)}"}`)
	raw, err := cli.CallTool(ctx, r.client, "eval_starlark", arguments, nil)
	if err != nil {
		return nil
	}
	var names map[string][]string
	if jsonvalue.Unmarshal(cli.ReadResult(raw).Value, &names) != nil {
		return nil
	}
	r.modules = map[string][]string{}
	for module, members := range names {
		for _, m := range members {
			r.modules[module] = append(r.modules[module], "."+m)
		}
	}
	return r.modules
}
