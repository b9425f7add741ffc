package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// hostReport is one place of a host's servers in the output of connect --list --json.
type hostReport struct {
	Host   string             `json:"host"`
	Title  string             `json:"title"`
	Scope  clientconfig.Scope `json:"scope"`
	File   string             `json:"file"`
	Exists bool               `json:"exists"`
	// Connected says that mcp-metatool is among the servers; Entry is its name there, and
	// Command what the host starts.
	Connected bool   `json:"connected"`
	Entry     string `json:"entry,omitempty"`
	Command   string `json:"command,omitempty"`
	// Others is the number of other servers.
	Others int `json:"others"`
	// Problem says why the file cannot be used, or what is wrong with the entry.
	Problem string `json:"problem,omitempty"`
}

// listConnections prints all hosts.
func listConnections(ctx context.Context, w io.Writer, asJSON bool) error {
	sys, err := clientconfig.NewSystem("")
	if err != nil {
		return err
	}
	reports := []hostReport{}
	for _, h := range clientconfig.Hosts() {
		for _, f := range h.Files(sys) {
			reports = append(reports, reportHost(ctx, sys, f))
		}
	}
	if asJSON {
		return writeJSON(w, map[string]any{"hosts": reports})
	}
	t := newTable(w)
	t.head("HOST", "SCOPE", "FILE", "MCP-METATOOL", "OTHER SERVERS", "PROBLEM")
	for _, r := range reports {
		connected, others := "no", fmt.Sprint(r.Others)
		switch {
		case !r.Exists:
			connected, others = "-", "-"
		case r.Connected:
			connected = "yes (" + r.Entry + ")"
		}
		file := sys.Short(r.File)
		if !r.Exists && r.Problem == "" {
			file += " (none)"
		}
		t.row(r.Host, r.Scope, file, connected, others, r.Problem)
	}
	return t.flush()
}

// reportHost examines one place.
func reportHost(ctx context.Context, sys *clientconfig.System, f clientconfig.File) hostReport {
	r := hostReport{Host: f.Host.Name, Title: f.Host.Title, Scope: f.Scope, File: f.Path}
	l, err := clientconfig.Read(ctx, sys, f)
	if err != nil {
		r.Exists, r.Problem = true, err.Error()
		return r
	}
	r.Exists, r.Others = l.Exists, l.Others()
	self := l.Self()
	if self == nil {
		return r
	}
	r.Connected, r.Entry, r.Command = true, self.Original, starts(self)
	binary, err := os.Executable()
	switch info, bad := os.Stat(self.Command); {
	case self.Disabled:
		r.Problem = "it is disabled, so the host does not start it (connect again)"
	case !filepath.IsAbs(self.Command):
		r.Problem = "the command has no full path, so the host may not find it (connect again)"
	case bad != nil:
		r.Problem = "there is no " + self.Command + " (connect again)"
	case clientconfig.Transient(self.Command) != "":
		r.Problem = "its file will be deleted by " + clientconfig.Transient(self.Command) + " (install mcp-metatool, and connect again)"
	case err == nil:
		if own, err := os.Stat(binary); err == nil && !os.SameFile(info, own) {
			r.Problem = "it starts another binary: " + self.Command
		}
	}
	return r
}
