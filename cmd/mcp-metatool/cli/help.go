package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// looks holds the flags of all verbs for the look of the output.
type looks struct {
	stdout, stderr *Screen
	color          colorFlag
	utc            bool
}

// AddLooks adds the flags to root, and makes root print help and errors of usage in our form.
func AddLooks(root *cobra.Command, stdout, stderr *Screen) *looks {
	l := &looks{stdout: stdout, stderr: stderr, color: display.ColorAuto}
	f := root.PersistentFlags()
	f.Var(&l.color, "color", "use colours: `WHEN` is auto (on a terminal, unless NO_COLOR is set), always or never")
	f.BoolVar(&l.utc, "utc", false, "show and read times in UTC instead of the local time zone")
	CompleteFlag(root, "color", OneOf(display.ColorAuto, display.ColorAlways, display.ColorNever))
	root.SetFlagErrorFunc(explainFlag)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		l.apply()
		help(cmd)
	})
	return l
}

// apply applies the flags. The caller must not call apply while other goroutines use times.
func (l *looks) apply() {
	l.stdout.setColor(string(l.color))
	l.stderr.setColor(string(l.color))
	if l.utc {
		time.Local = time.UTC // as if TZ were UTC
	}
}

// explainFlag adds to the error of an unknown flag the flag that was probably meant.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return withHint(err, unknown.GetSpecifiedName(), names, "--")
}

// withHint adds the names that the user probably meant by name, each after a prefix.
func withHint(err error, name string, names []string, prefix string) error {
	near := nearest.Names(name, names)
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w (did you mean %s%s?)", err, prefix, strings.Join(near, ", "+prefix))
}

// OnlyVerbs is the cobra.PositionalArgs of a command without arguments. If the command has verbs,
// the error for another word names the verbs that the user probably meant.
func OnlyVerbs(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
			if slices.Contains(c.SuggestFor, args[0]) {
				return fmt.Errorf("%w (did you mean %s?)", err, c.Name())
			}
		}
	}
	return withHint(err, args[0], names, "")
}

// maxHelp is the greatest width of help text that is easy to read, in columns.
const maxHelp = 100

// help prints the help of a command, as wide as the terminal is.
func help(cmd *cobra.Command) {
	out := cmd.OutOrStdout()
	width := Columns(out)
	if width == 0 || width > maxHelp {
		width = maxHelp
	}
	var b strings.Builder
	title := func(text string) { fmt.Fprintf(&b, "\n%s\n", Paint(out, display.Bold, text)) }
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	b.WriteString(display.Paragraphs(strings.TrimSpace(text), width) + "\n")
	title("Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		title("Examples:")
		fmt.Fprintf(&b, "%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		title("Commands:")
		t := display.Table{Width: width - 2}
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				t.Row(display.Cell{Text: c.Name()}, display.Cell{Text: c.Short})
			}
		}
		_ = t.Write(&indentWriter{&b, "  "}) // to memory
	}
	if cmd.HasAvailableLocalFlags() {
		title("Flags:")
		b.WriteString(cmd.LocalFlags().FlagUsagesWrapped(width))
	}
	if cmd.HasAvailableInheritedFlags() {
		title("Flags of all commands:")
		b.WriteString(cmd.InheritedFlags().FlagUsagesWrapped(width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s [command] --help says more about a command.\n", cmd.CommandPath())
	}
	fmt.Fprint(Raw(out), b.String())
}

// indentWriter writes lines with an indent. Each Write has whole lines.
type indentWriter struct {
	to     *strings.Builder
	indent string
}

// Write implements io.Writer.
func (w *indentWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.to.WriteString(w.indent + line)
	}
	return len(p), nil
}

// release is the version of a release build:
// -ldflags "-X github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli.release=v1.2.3".
var release string

// CurrentVersion returns the version of this build, "(devel)" without a version.
func CurrentVersion() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionText returns the output of the verb version.
func versionText() string {
	return fmt.Sprintf("mcp-metatool %s %s %s/%s\n", CurrentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// AddVersion adds --version to the root command. The flag of cobra would link text/template, and
// with text/template every method of the program (see timeline.Markup).
func AddVersion(root *cobra.Command) {
	version := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*version {
			return run(cmd, args)
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
		return err
	}
}

func versionCommand() *cobra.Command {
	guest := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := versionText()
			if guest {
				text = sandbox.GuestDigest() + "\n"
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&guest, "guest", false, "print only the SHA-256 digest of the guest that runs scripts, which verify compares")
	return cmd
}
