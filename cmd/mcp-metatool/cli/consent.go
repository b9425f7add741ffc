package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Consent holds the flags of verbs that write files of the user, and the asker for questions.
type Consent struct {
	Yes, DryRun bool
	Asker       *Asker // nil: no person can be asked
	// Masked, if set, replaces secrets in differences.
	Masked func(string) string
	// Known limits the replacement to the known secrets: text that only looks like a secret stays.
	Known bool
	// Wrote lists the files that were written so far.
	Wrote []string
}

// Unwritten says, for an error message, which files were written before the error.
func (c *Consent) Unwritten() string {
	switch files := display.EscapeLine(strings.Join(c.Wrote, ", ")); len(c.Wrote) {
	case 0:
		return "nothing was written"
	case 1:
		return "only " + files + " was written"
	default:
		return "only " + files + " were written"
	}
}

// AddFlags adds the flags to cmd.
func (c *Consent) AddFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.Yes, "yes", false, "write without asking")
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "show what would be written, and write nothing")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
}

// Begin finds out whether a person can be asked.
func (c *Consent) Begin(cmd *cobra.Command) { c.Asker = FindAsker(cmd) }

// Apply shows the differences, asks, and writes the files. Apply reports whether the files are now
// as wanted: false after a dry run or a no.
func (c *Consent) Apply(ctx context.Context, cmd *cobra.Command, question string, files ...change.File) (bool, error) {
	options := change.Options{Yes: c.Yes, DryRun: c.DryRun, Out: diffWriter{cmd.OutOrStdout()}, Mask: c.mask, Question: question}
	if c.Asker != nil {
		options.Ask = c.Asker.Confirm
	}
	outcome, backups, err := options.Apply(ctx, files...)
	for _, b := range backups {
		fmt.Fprintf(cmd.ErrOrStderr(), "the old file is kept as %s\n", display.EscapeLine(b))
	}
	if errors.Is(err, change.ErrNobody) {
		err = Usage(err)
	}
	if err != nil {
		return false, err
	}
	switch outcome {
	case change.Written:
		for _, f := range files {
			c.Wrote = append(c.Wrote, f.Path)
		}
	case change.Shown:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was written (--dry-run)")
	case change.Declined:
		fmt.Fprintln(cmd.ErrOrStderr(), c.Unwritten())
		return false, Failed(nil)
	}
	return outcome != change.Shown, nil
}

// mask replaces secrets in a difference: known secrets, and text in a line that looks like a
// secret, such as in a comment.
func (c *Consent) mask(text string) string {
	if c.Masked != nil {
		text = c.Masked(text)
	}
	if c.Known {
		return text
	}
	return clientconfig.MaskLines(text)
}

// Asker asks the person at the terminal. Questions go to standard error, so that standard output
// has only the answer of the verb.
type Asker struct {
	in    *os.File
	lines *bufio.Reader
	out   io.Writer
}

// FindAsker returns an asker for the person at the terminal; nil if standard input is none.
func FindAsker(cmd *cobra.Command) *Asker {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !IsTerminal(in) {
		return nil
	}
	return &Asker{in: in, lines: bufio.NewReader(in), out: cmd.ErrOrStderr()}
}

// Confirm asks a question with the answers yes and no; anything but y and yes is a no.
func (a *Asker) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := a.Line(ctx, question+" [y/N] ")
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Line asks for a line of text and returns the line without white space at both ends. The error is
// io.EOF at the end of the input, or the cause of ctx.
func (a *Asker) Line(ctx context.Context, prompt string) (string, error) {
	return a.read(ctx, prompt, func() (string, error) {
		text, err := a.lines.ReadString('\n')
		if text != "" {
			err = nil
		}
		return strings.TrimSpace(text), err
	})
}

// Secret asks for a line of text that is not shown while the user types. The error is io.EOF at the
// end of the input, or the cause of ctx.
func (a *Asker) Secret(ctx context.Context, prompt string) (string, error) {
	before, err := term.GetState(int(a.in.Fd()))
	if err != nil {
		return "", err
	}
	text, err := a.read(ctx, prompt, func() (string, error) {
		raw, err := term.ReadPassword(int(a.in.Fd()))
		return string(raw), err
	})
	fmt.Fprintln(a.out)
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(int(a.in.Fd()), before))
	}
	return text, err
}

// read shows a prompt and reads the answer. If ctx ends first, the reader stays blocked until the
// process ends.
func (a *Asker) read(ctx context.Context, prompt string, read func() (string, error)) (string, error) {
	fmt.Fprint(a.out, display.Escape(prompt))
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := read()
		answers <- answer{text, err}
	}()
	select {
	case got := <-answers:
		return got.text, got.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ApproveFlag is --approve: who decides about calls for which policy says "ask".
type ApproveFlag string

// The values of ApproveFlag.
const (
	approveAsk   ApproveFlag = "ask"
	approveAllow ApproveFlag = "allow"
	approveDeny  ApproveFlag = "deny"
)

// AddFlag adds the flag to cmd.
func (f *ApproveFlag) AddFlag(cmd *cobra.Command) {
	*f = approveAsk
	cmd.Flags().Var(f, "approve", "what to do if policy asks for a call: `WHAT` is ask (you, at the terminal), allow or deny")
	CompleteFlag(cmd, "approve", OneOf(string(approveAsk), string(approveAllow), string(approveDeny)))
}

// String implements pflag.Value.
func (f *ApproveFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *ApproveFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *ApproveFlag) Set(text string) error {
	switch v := ApproveFlag(text); v {
	case approveAsk, approveAllow, approveDeny:
		*f = v
		return nil
	}
	return fmt.Errorf("%q is not one of ask, allow, deny", text)
}

// errNoTerminal says that no person can be asked.
var errNoTerminal = errors.New("there is no terminal to ask at (run it at one, or say --approve allow)")

// Person returns who decides, as the flag says. pause, if not nil, is called before a question is
// written to the terminal.
func (f *ApproveFlag) Person(cmd *cobra.Command, pause func()) approval.Person {
	if asker := FindAsker(cmd); asker != nil {
		return f.PersonAt(asker.out, asker.Line, pause)
	}
	return f.PersonAt(nil, nil, nil)
}

// PersonAt is Person with a terminal: questions are written to out, and line shows a prompt and
// returns the answer; the error of line is io.EOF without an answer, or the cause of its context. A
// nil line says that the terminal is missing.
func (f *ApproveFlag) PersonAt(out io.Writer, line func(ctx context.Context, prompt string) (string, error), pause func()) approval.Person {
	if *f != approveAsk {
		verdict := approval.Verdict{Allow: *f == approveAllow, By: "--approve " + string(*f)}
		return func(context.Context, approval.Question) (approval.Verdict, error) { return verdict, nil }
	}
	if line == nil {
		return func(context.Context, approval.Question) (approval.Verdict, error) {
			return approval.Verdict{}, errNoTerminal
		}
	}
	var mu sync.Mutex // serializes the questions
	return func(ctx context.Context, q approval.Question) (approval.Verdict, error) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return approval.Verdict{}, context.Cause(ctx)
		}
		if pause != nil {
			pause()
		}
		fmt.Fprintf(out, "\n%s\n", display.Escape(q.Text()))
		v := approval.Verdict{By: TerminalUser()}
		choices := "[y]es, [N]o"
		if q.RememberFor > 0 {
			choices += ", [r]emember"
		}
		answer, err := line(ctx, "Allow it? "+choices+" ")
		if err != nil {
			answer = ""
		}
		switch strings.ToLower(answer) {
		case "y", "yes":
			v.Allow = true
		case "r", "remember":
			if v.Allow = q.RememberFor > 0; v.Allow {
				v.Remember = approval.ForValue
			}
		}
		if ctx.Err() == nil {
			err = nil // the end of the input is a no
		}
		return v, err
	}
}

// Launch opens an address or a file with the program that the user has chosen for addresses or
// files of the kind. Launch reports whether a program was started.
func Launch(target string) bool {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	browser := exec.Command(command[0], append(command[1:], target)...)
	if browser.Start() != nil {
		return false
	}
	_ = browser.Process.Release() // the program runs on without us
	return true
}

// TerminalUser names the user of this command, for the journal.
func TerminalUser() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return "user " + cmp.Or(display.Line(name, 40), "unknown") + " at the terminal"
}
