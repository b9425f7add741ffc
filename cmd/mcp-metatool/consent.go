package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// consent is the flags of verbs that write files of the user, and where they ask.
type consent struct {
	yes, dryRun bool
	asker       *asker // nil: there is nobody to ask
	// masked, if set, replaces secrets in differences.
	masked func(string) string
	// known says that only those are replaced, and not what looks like one.
	known bool
	// wrote are the files that were written so far.
	wrote []string
}

// unwritten says, for the message about an error, which files were written before it.
func (c *consent) unwritten() string {
	switch files := display.EscapeLine(strings.Join(c.wrote, ", ")); len(c.wrote) {
	case 0:
		return "nothing was written"
	case 1:
		return "only " + files + " was written"
	default:
		return "only " + files + " were written"
	}
}

// addFlags adds the flags to cmd.
func (c *consent) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "write without asking")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be written, and write nothing")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
}

// begin finds out whether there is somebody to ask.
func (c *consent) begin(cmd *cobra.Command) { c.asker = findAsker(cmd) }

// apply shows the differences, asks, and writes the files. It reports whether they are as
// they should be now: not after a dry run or a no.
func (c *consent) apply(ctx context.Context, cmd *cobra.Command, question string, files ...change.File) (bool, error) {
	options := change.Options{Yes: c.yes, DryRun: c.dryRun, Out: diffWriter{cmd.OutOrStdout()}, Mask: c.mask, Question: question}
	if c.asker != nil {
		options.Ask = c.asker.confirm
	}
	outcome, backups, err := options.Apply(ctx, files...)
	for _, b := range backups {
		fmt.Fprintf(cmd.ErrOrStderr(), "the old file is kept as %s\n", display.EscapeLine(b))
	}
	if errors.Is(err, change.ErrNobody) {
		err = &exitError{exitUsage, err}
	}
	if err != nil {
		return false, err
	}
	switch outcome {
	case change.Written:
		for _, f := range files {
			c.wrote = append(c.wrote, f.Path)
		}
	case change.Shown:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was written (--dry-run)")
	case change.Declined:
		fmt.Fprintln(cmd.ErrOrStderr(), c.unwritten())
		return false, &exitError{code: exitFailed}
	}
	return outcome != change.Shown, nil
}

// mask replaces secrets in a difference: those that are known, and what looks like one in a
// line, such as one in a comment.
func (c *consent) mask(text string) string {
	if c.masked != nil {
		text = c.masked(text)
	}
	if c.known {
		return text
	}
	return clientconfig.MaskLines(text)
}

// asker asks the person at the terminal. Questions go to standard error, so that standard
// output has the answer of the verb only.
type asker struct {
	in    *os.File
	lines *bufio.Reader
	out   io.Writer
}

// findAsker returns an asker for the person at the terminal; nil if standard input is none.
func findAsker(cmd *cobra.Command) *asker {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isTerminal(in) {
		return nil
	}
	return &asker{in: in, lines: bufio.NewReader(in), out: cmd.ErrOrStderr()}
}

// confirm asks a question with the answers yes and no; anything but y and yes is a no.
func (a *asker) confirm(ctx context.Context, question string) (bool, error) {
	answer, err := a.line(ctx, question+" [y/N] ")
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// line asks for a line of text, which is returned without white space around it. The error
// is io.EOF at the end of the input, or the cause of ctx.
func (a *asker) line(ctx context.Context, prompt string) (string, error) {
	return a.read(ctx, prompt, func() (string, error) {
		text, err := a.lines.ReadString('\n')
		if text != "" {
			err = nil
		}
		return strings.TrimSpace(text), err
	})
}

// secret asks for a line of text that is not shown while it is typed. The error is io.EOF at
// the end of the input, or the cause of ctx.
func (a *asker) secret(ctx context.Context, prompt string) (string, error) {
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

// read shows a prompt and reads the answer. If ctx ends first, the reader stays blocked: it
// ends with the process.
func (a *asker) read(ctx context.Context, prompt string, read func() (string, error)) (string, error) {
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
