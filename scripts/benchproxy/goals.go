package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// goal is a figure to reach, with the value in each round.
type goal struct {
	name   string
	reach  float64
	least  bool // the figure should be reach or more; otherwise, or less
	format string
	values []float64
}

// goals are the figures in the order in which they are printed.
type goals []*goal

func (g *goals) value(name, format string, value, reach float64, least bool) {
	i := slices.IndexFunc(*g, func(g *goal) bool { return g.name == name })
	if i < 0 {
		i = len(*g)
		*g = append(*g, &goal{name: name, reach: reach, least: least, format: format})
	}
	(*g)[i].values = append((*g)[i].values, value)
}

// add adds the measurements of a round.
func (g *goals) add(rows []row, rates []rate) {
	p50 := map[string]time.Duration{}
	added := map[string]time.Duration{}
	for _, r := range rows {
		p50[r.name] = r.times.percentile(50)
		added[r.name] = p50[r.name] - r.base.percentile(50)
	}
	against := func(name string) float64 { return float64(p50[name]) / float64(p50[proxiedEcho]) }
	g.value("saved tool without calls, against a proxied echo", "%.2f", against(compositeNone), 2.5, false)
	g.value("saved tool with ten calls, against a proxied echo", "%.1f", against(compositeTen), 14, false)
	for _, name := range []string{stdioToStdio, httpToStdio, httpToHTTP} {
		g.value("added, "+name, "%.3f ms", added[name].Seconds()*1000, 0.06, false)
	}
	for _, r := range rates {
		if r.name == stdioToStdio || r.name == httpToStdio || r.name == httpToHTTP {
			g.value(fmt.Sprintf("throughput of %d at once against direct, %s", concurrency, r.name), "%.2f", r.ratio(), 0.5, true)
		}
	}
}

// print prints the medians of the rounds, and whether they reach the goals.
func (g goals) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "what\tfigure\tof\treach\tverdict\t\n")
	for _, g := range g {
		text := func(v float64) string { return fmt.Sprintf(g.format, v) }
		middle, verdict, bound := median(g.values), "reached", "at most "
		if g.least {
			bound = "at least "
		}
		if g.least && middle < g.reach || !g.least && middle > g.reach {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s to %s\t%s\t%s\t\n", g.name, text(middle),
			text(slices.Min(g.values)), text(slices.Max(g.values)), bound+text(g.reach), verdict)
	}
	w.Flush()
	fmt.Fprintln(out)
}
