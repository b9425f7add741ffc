package main

import (
	"fmt"
	"io"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// namesReport is the output of servers --names: the public names of the tools and
// prompts of the upstreams.
type namesReport struct {
	Names    []nameReport `json:"names"`    // in the order of the lists
	Problems []string     `json:"problems"` // collisions of names
}

// nameReport is one name in the output of servers --names --json.
type nameReport struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // tool, prompt
	Server string `json:"server"`
	Own    string `json:"ownName"`
	// Shortened says that Name is not simply the prefix and Own, but ends in a hash.
	Shortened bool `json:"shortened"`
}

func newNamesReport(cfg *config.Config, names []catalog.Name, problems []string) namesReport {
	masker := cfg.NewMasker()
	report := namesReport{Names: []nameReport{}, Problems: maskAll(masker, problems)}
	for _, n := range names {
		kind := "tool"
		if n.Surface == wire.Prompts {
			kind = "prompt"
		}
		report.Names = append(report.Names, nameReport{
			Name: masker.Mask(n.Public), Kind: kind, Server: n.Server, Own: masker.Mask(n.Own), Shortened: n.Hashed,
		})
	}
	return report
}

// write prints a table.
func (r namesReport) write(w io.Writer) error {
	if len(r.Names) == 0 {
		if _, err := fmt.Fprintln(w, "agents see no tool or prompt of an upstream server"); err != nil {
			return err
		}
		return writeProblems(w, r.Problems)
	}
	t := newTable(w)
	t.head("NAME", "KIND", "SERVER", "OWN NAME", "NOTE")
	for _, n := range r.Names {
		note := ""
		if n.Shortened {
			note = "made to fit: 64 letters, digits, _ and -"
		}
		t.row(n.Name, n.Kind, n.Server, n.Own, note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	return writeProblems(w, r.Problems)
}
