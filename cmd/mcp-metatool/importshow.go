package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/clientconfig"
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
				state = "it moves to the entry of mcp-metatool"
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

// replaceInHost puts mcp-metatool in place of the imported servers, in each file of the
// host. Only the first place gets an entry: the host uses it wherever the others count.
func (m *hostImport) replaceInHost(ctx context.Context) error {
	placed := false
	for _, l := range m.listings {
		out := m.replaced(l)
		if len(out) == 0 {
			continue
		}
		if l.File.Shared && m.scope != string(l.File.Scope) {
			fmt.Fprintf(m.cmd.OutOrStdout(), "%s stays as it is, because others may use it too (--scope %s changes it)\n",
				display.EscapeLine(m.sys.Short(l.File.Path)), l.File.Scope)
			continue
		}
		if err := m.replaceInFile(ctx, l, out, placed); err != nil {
			return err
		}
		placed = true
	}
	return nil
}

// replaced returns the servers of a file that are in the configuration now.
func (m *hostImport) replaced(l *clientconfig.Listing) []*foundServer {
	return slices.DeleteFunc(slices.Clone(m.found), func(f *foundServer) bool {
		return f.listing != l || !m.imports(f) && f.State != foundSame
	})
}

// replaceInFile takes servers out of one file and, unless that is done elsewhere already,
// puts mcp-metatool in.
func (m *hostImport) replaceInFile(ctx context.Context, l *clientconfig.Listing, out []*foundServer, placed bool) error {
	if err := l.File.CheckWrite(m.sys); err != nil {
		return &exitError{exitUsage, fmt.Errorf("import: %w", err)}
	}
	l, err := clientconfig.Read(ctx, m.sys, l.File) // anew: two places can be in one file
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("import: %w", err)}
	}
	c := &connection{
		sys: m.sys, host: m.host, file: l.File, listing: l, config: m.file.Path(), planned: m.planned,
		cmd: m.cmd, consent: m.consent, noVerify: m.noVerify || m.dryRun, variables: m.variables,
	}
	for _, f := range out {
		if m.secrets == secretsEnv && m.imports(f) || f.inVariables { // they were in this file already, so they may stay in it
			for _, s := range f.secrets {
				c.env = append(c.env, clientconfig.Setting{Name: s.Variable, Value: s.Value})
			}
		}
		c.references = append(c.references, f.server.References...)
	}
	if err := c.prepare(); err != nil {
		return err
	}
	text := l.Data
	for _, f := range out {
		if text, _, err = l.File.Remove(text, f.server.Original); err != nil {
			return &exitError{exitUsage, fmt.Errorf("import: %s: %w", l.File.Path, err)}
		}
	}
	if placed {
		question := fmt.Sprintf("Take %s out of %s?", count(len(out), "server"), m.sys.Short(l.File.Path))
		_, err := c.consent.apply(ctx, c.cmd, question, hostFileChange(l, text))
		return err
	}
	return c.write(ctx, text, fmt.Sprintf("Put mcp-metatool in place of %s in %s?", count(len(out), "server"), m.sys.Short(l.File.Path)))
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
