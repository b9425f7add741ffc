// Package man has the verb man, which writes a manual page for each command.
package man

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Commands returns the verb man.
func Commands() []*cobra.Command {
	return []*cobra.Command{manCommand()}
}

func manCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [COMMAND...]",
		Short: "Print the manual page of a command, or write the pages of all commands",
		Long: `Print the manual page of a command, in the format of man(7). The pages say what --help
says, and packages install them.

The date of the pages is $SOURCE_DATE_EPOCH, in seconds since 1970; without it they have none.`,
		Example: `  mcp-metatool man runs list | man -l -
  mcp-metatool man --dir ~/.local/share/man/man1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return cli.Usage(err)
			}
			if dir != "" {
				return Write(cmd.Root(), dir, date)
			}
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = cli.OnlyVerbs(of, rest)
			}
			if err != nil {
				return cli.Usage(err)
			}
			_, err = fmt.Fprint(cli.Raw(cmd.OutOrStdout()), pageOf(of, date))
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to the folder `DIR`")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if dir != "" {
			return cobra.NoArgs(cmd, args)
		}
		return nil
	}
	return cmd
}

// sourceDate returns the day of SOURCE_DATE_EPOCH, as 2006-01-02; "" for an empty text.
func sourceDate(epoch string) (string, error) {
	if epoch == "" {
		return "", nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH is %q (set it to a number of seconds, or not at all)", epoch)
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

// Write writes the page of each command into a folder, and makes a missing folder.
func Write(root *cobra.Command, dir, date string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var problems []error
	for _, cmd := range Documented(root) {
		problems = append(problems, regular.Write(filepath.Join(dir, Name(cmd)+".1"), []byte(pageOf(cmd, date)), 0o644))
	}
	return errors.Join(problems...)
}

// Documented returns a command and all documented commands below.
func Documented(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, Documented(c)...)
		}
	}
	return all
}

// Name returns the name of a command's page: mcp-metatool-runs-list.
func Name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// pageOf returns the page of a command in the macros of man(7). date may be "".
func pageOf(cmd *cobra.Command, date string) string {
	p := &page{}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	// Escapes would change a date.
	fmt.Fprintf(p, ".TH %q 1 %q %q %q\n", strings.ToUpper(Name(cmd)), date, "mcp-metatool "+cli.CurrentVersion(), "mcp-metatool")
	p.macro("SH", "NAME")
	p.text(Name(cmd) + " - " + cmd.Short)
	p.macro("SH", "SYNOPSIS")
	if cmd.Runnable() {
		p.macro("B", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		if cmd.Runnable() {
			p.macro("br")
		}
		p.macro("B", cmd.CommandPath()+" [command]")
	}
	if long := strings.TrimSpace(cmd.Long); long != "" {
		p.macro("SH", "DESCRIPTION")
		p.paragraphs(long)
	}
	if cmd.HasAvailableSubCommands() {
		p.macro("SH", "COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				p.item(c.Name(), c.Short)
			}
		}
	}
	p.flags("OPTIONS", cmd.LocalFlags())
	p.flags("OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.HasExample() {
		p.macro("SH", "EXAMPLES")
		p.literally(cmd.Example)
	}
	if !cmd.HasParent() {
		p.macro("SH", "EXIT STATUS")
		for _, code := range exitCodes {
			p.item(code.code, code.means)
		}
	}
	p.seeAlso(cmd)
	return p.String()
}

// exitCodes explains the exit codes of all commands.
var exitCodes = []struct{ code, means string }{
	{"0", "Success."},
	{"1", "A check or a tool failed."},
	{"2", "The command line or the configuration is wrong."},
	{"128+n", "Signal n ended the program. serve shuts down in order then, with 0."},
}

// seeAlso writes the section with the names of the pages above, next to and below this page.
func (p *page) seeAlso(cmd *cobra.Command) {
	var names []string
	add := func(c *cobra.Command) {
		if c != cmd {
			names = append(names, Name(c)+"(1)")
		}
	}
	around := cmd
	if cmd.HasParent() {
		around = cmd.Parent()
		add(around)
	}
	if cmd.HasAvailableSubCommands() {
		around = cmd
	}
	for _, c := range around.Commands() {
		if c.IsAvailableCommand() {
			add(c)
		}
	}
	p.macro("SH", "SEE ALSO")
	p.text(strings.Join(names, ", "))
}

// page is a manual page under construction.
type page struct{ strings.Builder }

// macro writes a request with its arguments.
func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, a := range args {
		p.WriteString(` "` + strings.ReplaceAll(Roff.Replace(a), `"`, `\(dq`) + `"`)
	}
	p.WriteString("\n")
}

// text writes a paragraph.
func (p *page) text(words string) {
	for _, line := range display.Wrap(words, 72) {
		p.line(line)
	}
}

// line writes a line of text.
func (p *page) line(line string) {
	line = Roff.Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line // not a request
	}
	p.WriteString(line + "\n")
}

// Roff escapes characters that the formatter would interpret or replace.
var Roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "…", "...")

// paragraphs writes text with the layout of a command's help: lines that begin with white space
// stay unchanged.
func (p *page) paragraphs(text string) {
	for i, paragraph := range strings.Split(display.Paragraphs(text, math.MaxInt), "\n\n") {
		if i > 0 {
			p.macro("PP")
		}
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			p.literally(paragraph)
		} else {
			p.text(paragraph)
		}
	}
}

// literally writes lines as they are.
func (p *page) literally(text string) {
	p.macro("nf")
	for line := range strings.SplitSeq(text, "\n") {
		p.line(line)
	}
	p.macro("fi")
}

// item writes a term and its meaning.
func (p *page) item(term, means string) {
	p.macro("TP")
	p.macro("B", term)
	p.text(means)
}

// flags writes a section with the visible flags, if any.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if value != "" {
			term += " " + value
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		p.item(term, usage)
	})
}
