package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// approveFlag is --approve: who decides about calls for which policy says "ask".
type approveFlag string

// The values of approveFlag.
const (
	approveAsk   approveFlag = "ask"
	approveAllow approveFlag = "allow"
	approveDeny  approveFlag = "deny"
)

// addFlag adds the flag to cmd.
func (f *approveFlag) addFlag(cmd *cobra.Command) {
	*f = approveAsk
	cmd.Flags().Var(f, "approve", "what to do if policy asks for a call: `WHAT` is ask (you, at the terminal), allow or deny")
	completeFlag(cmd, "approve", oneOf(string(approveAsk), string(approveAllow), string(approveDeny)))
}

// String implements pflag.Value.
func (f *approveFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *approveFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *approveFlag) Set(text string) error {
	switch v := approveFlag(text); v {
	case approveAsk, approveAllow, approveDeny:
		*f = v
		return nil
	}
	return fmt.Errorf("%q is not one of ask, allow, deny", text)
}

// errNoTerminal says that nobody can be asked.
var errNoTerminal = errors.New("there is no terminal to ask at (run it at one, or say --approve allow)")

// person returns who decides, as the flag says. pause, if not nil, is called before a question is
// written to the terminal.
func (f *approveFlag) person(cmd *cobra.Command, pause func()) approval.Person {
	if asker := findAsker(cmd); asker != nil {
		return f.personAt(asker.out, asker.line, pause)
	}
	return f.personAt(nil, nil, nil)
}

// personAt is person with a terminal: questions are written to out, and line shows a prompt and
// returns the answer; its error is io.EOF if there is none, or the cause of its context. A nil
// line says that there is no terminal.
func (f *approveFlag) personAt(out io.Writer, line func(ctx context.Context, prompt string) (string, error), pause func()) approval.Person {
	if *f != approveAsk {
		verdict := approval.Verdict{Allow: *f == approveAllow, By: "--approve " + string(*f)}
		return func(context.Context, approval.Question) (approval.Verdict, error) { return verdict, nil }
	}
	if line == nil {
		return func(context.Context, approval.Question) (approval.Verdict, error) {
			return approval.Verdict{}, errNoTerminal
		}
	}
	var mu sync.Mutex // one question at a time
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
		v := approval.Verdict{By: terminalUser()}
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
