// Command benchproxy compares MCP calls made directly to a server with the same calls made through
// mcp-metatool: the time of a call, the calls per second, the allocations of a call, and the time
// from start to the first answer. goals.add has the figures to reach. scripts/bench builds and runs
// the command.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// Verbs that make this program the server.
const (
	serverVerb     = "echo-server"      // over standard input and output
	httpServerVerb = "echo-http-server" // over streamable HTTP
)

func main() {
	if len(os.Args) == 2 {
		var err error
		switch os.Args[1] {
		case serverVerb:
			err = serveEcho(os.Stdin, os.Stdout)
		case httpServerVerb:
			err = serveEchoHTTP(os.Stderr)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		if os.Args[1] == serverVerb || os.Args[1] == httpServerVerb {
			return
		}
	}
	var b bench
	flag.StringVar(&b.binary, "binary", "mcp-metatool", "the `FILE` to measure")
	flag.StringVar(&b.everything, "everything", "", "main `FILE` of the npm package server-everything; without it only the echo server of this program is used")
	flag.IntVar(&b.calls, "calls", 3000, "calls of each kind")
	flag.IntVar(&b.rounds, "rounds", 3, "how often calls are measured, by new processes each time")
	flag.IntVar(&b.starts, "starts", 15, "starts of each kind")
	flag.Parse()
	if flag.NArg() > 0 || b.calls < 1 || b.starts < 1 || b.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := b.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, out io.Writer) (err error) {
	b.dir, err = os.MkdirTemp("", "mcp-metatool-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d CPUs, %s/%s, %d rounds of %d calls of each kind, %d starts, kinds taking turns\n\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, b.rounds, b.calls, b.starts)
	var calls []row
	var rates []rate
	var goals goals
	for range b.rounds {
		oneRound, oneRates, err := b.measureCalls(ctx)
		if err != nil {
			return err
		}
		goals.add(oneRound, oneRates)
		calls, rates = joinRows(calls, oneRound), joinRates(rates, oneRates)
	}
	sizes, err := b.measureAllocations(ctx)
	if err != nil {
		return err
	}
	starts, err := b.measureStarts(ctx)
	if err != nil {
		return err
	}
	goals.print(out)
	table(out, "call", calls)
	rateTable(out, rates)
	sizeTable(out, sizes)
	table(out, "start of the process to the answer to initialize", starts)
	return nil
}

// row is a line of a table: a measurement and, if any, the measurement to compare with.
type row struct {
	name        string
	times, base times
}

// joinRows adds the times of more to all. Both have the same rows, unless all is empty.
func joinRows(all, more []row) []row {
	if all == nil {
		return more
	}
	for i := range all {
		all[i].times, all[i].base = append(all[i].times, more[i].times...), append(all[i].base, more[i].base...)
	}
	return all
}

func table(out io.Writer, title string, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tp50 ms\tp90 ms\tdirect p50\tp90\tratio p50\tp90\tadded p50\t\n", title)
	for _, r := range rows {
		p50, p90 := r.times.percentile(50), r.times.percentile(90)
		fmt.Fprintf(w, "%s\t%s\t%s\t", r.name, ms(p50), ms(p90))
		if len(r.base) == 0 {
			fmt.Fprint(w, "\t\t\t\t\t\n")
			continue
		}
		b50, b90 := r.base.percentile(50), r.base.percentile(90)
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%s\t\n", ms(b50), ms(b90),
			float64(p50)/float64(b50), float64(p90)/float64(b90), ms(p50-b50))
	}
	w.Flush()
	fmt.Fprintln(out)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }

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
