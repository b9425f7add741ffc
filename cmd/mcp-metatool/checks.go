package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// checksReport is the output of servers --check: whether the upstreams work.
type checksReport struct {
	Healthy bool            `json:"healthy"`
	Servers []health.Report `json:"servers"`
}

func newChecksReport(reports []health.Report) checksReport {
	return checksReport{Healthy: health.Healthy(reports), Servers: append([]health.Report{}, reports...)}
}

// write prints a table, and below it what does not fit into a line.
func (r checksReport) write(w io.Writer) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no upstream servers are configured")
		return err
	}
	t := newTable(w)
	t.head(toAny(health.Columns)...)
	for i := range r.Servers {
		row := toAny(r.Servers[i].Cells())
		for k, cell := range row {
			row[k] = state(cell.(string))
		}
		t.row(row...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, s := range r.Servers {
		if s.Details != nil {
			writeDetails(w, s.Server, strings.Join(s.Details, "\n"))
		}
	}
	return nil
}

func toAny(cells []string) []any {
	row := make([]any, len(cells))
	for i, cell := range cells {
		row[i] = cell
	}
	return row
}
