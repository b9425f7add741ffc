package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// show prints the servers that were read.
func (m *hostImport) show(w io.Writer) {
	for i, l := range m.listings {
		if i > 0 {
			fmt.Fprintln(w)
		}
		m.showListing(w, l)
	}
}

func (m *hostImport) showListing(w io.Writer, l *clientconfig.Listing) {
	fmt.Fprintf(w, "%s (%s, scope %s): %s\n", display.EscapeLine(m.sys.Short(l.File.Path)), l.File.Host.Title, l.File.Scope, count(len(l.Servers), "server"))
	for _, f := range m.found {
		if f.listing != l {
			continue
		}
		fmt.Fprintf(w, "  %-12s %s  %s\n", f.State, f.Name, display.EscapeLine(f.Starts))
		for _, d := range f.Differences {
			fmt.Fprintf(w, "    %s: %s here, %s there\n", display.EscapeLine(d.Setting), absent(d.Ours), absent(d.Theirs))
		}
		for _, s := range f.Secrets {
			fmt.Fprintf(w, "    secret in plain text: %s\n", display.EscapeLine(s.Where))
		}
		if l.File.Host.Name == clientconfig.Ours.Name {
			showFetches(w, f.server)
		}
		for _, n := range f.Notes {
			fmt.Fprintf(w, "    note: %s\n", display.EscapeLine(n))
		}
	}
}

func absent(value string) string {
	if value == "" {
		return "nothing"
	}
	return display.EscapeLine(value)
}

// count returns a number with a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// summarize prints what was imported, and which variables have to be set.
func (m *hostImport) summarize(w io.Writer) {
	states := map[string]int{}
	for _, f := range m.found {
		states[f.State]++
	}
	changed := 0
	if m.overwrite {
		changed = states[foundDiffers]
	}
	fmt.Fprintf(w, "imported: %d new, %d changed, %d same\n", states[foundNew], changed, states[foundSame])
	if left := states[foundDiffers] - changed; left > 0 {
		fmt.Fprintf(w, "%s kept as in the configuration (--overwrite takes the host's settings)\n", count(left, "server"))
	}
	m.explainUnset(w)
	if m.secrets != secretsEnv {
		return
	}
	shown := map[string]bool{}
	for _, f := range m.found {
		if !m.imports(f) {
			continue
		}
		for _, s := range f.secrets {
			if shown[s.Variable] {
				continue
			}
			shown[s.Variable] = true
			state := "set it where mcp-metatool is started"
			if m.replace {
				state = "it moves to the entry of mcp-metatool; set it in a shell too if you use mcp-metatool there"
			} else if value, ok := os.LookupEnv(s.Variable); ok && value != s.Value {
				state = "it is set to something else here"
			} else if ok {
				state = "it is set here"
			}
			fmt.Fprintf(w, "variable %s: its value is in %s, %s, %s (%s)\n",
				s.Variable, display.EscapeLine(m.sys.Short(f.File)), f.Name, display.EscapeLine(s.Where), state)
		}
	}
}

// onStderr returns a command with the same input that prints everything to standard error.
func onStderr(cmd *cobra.Command) *cobra.Command {
	c := &cobra.Command{}
	c.SetIn(cmd.InOrStdin())
	c.SetErr(cmd.ErrOrStderr())
	c.SetOut(cmd.ErrOrStderr())
	return c
}

// hostFileChange returns the change of a host's file. A backup is kept.
func hostFileChange(l *clientconfig.Listing, after []byte) change.File {
	f := change.File{Path: l.File.Path, After: after, Backup: true}
	if l.Exists {
		f.Before = l.Data
	}
	if l.File.Shared {
		f.Perm = 0o644
	}
	return f
}

// commandLine returns words as a shell reads them.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = clientconfig.Quote(w)
	}
	return strings.Join(quoted, " ")
}
