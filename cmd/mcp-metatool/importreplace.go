package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// checkReplace returns an error if a file of the host could not be changed, so that this is
// known before the first one is.
func (m *hostImport) checkReplace() error {
	if !m.replace {
		return nil
	}
	for _, l := range m.listings {
		out := m.replaced(l)
		if len(out) == 0 || m.stays(l) {
			continue
		}
		if err := l.File.CheckWrite(m.sys); err != nil {
			return err
		}
		if _, err := without(l, out); err != nil {
			return err
		}
	}
	return nil
}

// stays reports whether a file is not changed because others use it too.
func (m *hostImport) stays(l *clientconfig.Listing) bool {
	return l.File.Shared && m.scope != string(l.File.Scope)
}

// replaceInHost puts mcp-metatool in place of the imported servers, in each file of the
// host. Only the first place gets an entry: the host uses it wherever the others count. The
// entry has the variables of the servers of all places.
func (m *hostImport) replaceInHost(ctx context.Context) error {
	placed := false
	for _, l := range m.listings {
		out := m.replaced(l)
		if len(out) == 0 {
			continue
		}
		if m.stays(l) {
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

// without returns the text of a file without some of its servers.
func without(l *clientconfig.Listing, out []*foundServer) (text []byte, err error) {
	text = l.Data
	for _, f := range out {
		if text, _, err = l.File.Remove(text, f.server.Original); err != nil {
			return nil, fmt.Errorf("%s: %w", l.File.Path, err)
		}
	}
	return text, nil
}

// replaceInFile takes servers out of one file and, unless that is done elsewhere already,
// puts mcp-metatool in.
func (m *hostImport) replaceInFile(ctx context.Context, l *clientconfig.Listing, out []*foundServer, placed bool) error {
	l, err := clientconfig.Read(ctx, m.sys, l.File) // anew: two places can be in one file
	var text []byte
	if err == nil {
		err = l.File.CheckWrite(m.sys)
	}
	if err == nil {
		text, err = without(l, out)
	}
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("import: %w (%s)", err, m.unwritten())}
	}
	if placed {
		m.masked = hostMasker(l).Mask
		question := fmt.Sprintf("Take %s out of %s?", count(len(out), "server"), m.sys.Short(l.File.Path))
		_, err := m.consent.apply(ctx, m.cmd, question, hostFileChange(l, text))
		return err
	}
	c := &connection{
		sys: m.sys, host: m.host, file: l.File, listing: l, config: m.file.Path(), planned: m.planned,
		cmd: m.cmd, consent: m.consent, noVerify: m.noVerify || m.dryRun, variables: m.variables,
	}
	m.give(c)
	if err := c.prepare(); err != nil {
		return err
	}
	err = c.write(ctx, text, fmt.Sprintf("Put mcp-metatool in place of %s in %s?", count(len(out), "server"), m.sys.Short(l.File.Path)))
	m.wrote = c.wrote
	return err
}

// give gives the entry of mcp-metatool what the host gave to the servers of all its files.
func (m *hostImport) give(c *connection) {
	for _, l := range m.listings {
		for _, f := range m.replaced(l) {
			if m.secrets == secretsEnv && m.imports(f) || f.inVariables { // the host's files had them already, so they may stay there
				for _, s := range f.secrets {
					c.env = append(c.env, clientconfig.Setting{Name: s.Variable, Value: s.Value})
				}
			}
			for _, r := range f.server.References {
				if !slices.Contains(c.references, r) {
					c.references = append(c.references, r)
				}
			}
		}
	}
}
