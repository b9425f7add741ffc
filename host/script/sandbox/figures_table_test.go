package sandbox

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// table collects figures of several rounds.
type table struct{ rows []*figure }

// figure is one row. Smaller is better.
type figure struct {
	what   string
	values []float64 // one for each round
	most   float64   // the goal; 0: none
	format func(float64) string
}

func (t *table) add(what string, value, most float64, format func(float64) string) {
	i := slices.IndexFunc(t.rows, func(f *figure) bool { return f.what == what })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &figure{what: what, most: most, format: format})
	}
	t.rows[i].values = append(t.rows[i].values, value)
}

func (t *table) ratio(what string, a, b time.Duration, most float64) {
	t.add(what, float64(a)/float64(b), most, times)
}

func (t *table) time(what string, d, most time.Duration) {
	t.add(what, float64(d), float64(most), short)
}

func (t *table) bytes(what string, n, most int) { t.add(what, float64(n), float64(most), megabytes) }

// print prints the medians with their goals.
func (t *table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintf(out, "%d CPUs, %s/%s; medians of %d rounds, in which what is compared takes turns\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, *figuresRounds)
	fmt.Fprintln(out, "what\tfigure\tof\treach\tverdict")
	for _, f := range t.rows {
		slices.Sort(f.values)
		middle := f.values[len(f.values)/2]
		reach, verdict := "", ""
		if f.most > 0 {
			reach, verdict = "at most "+f.format(f.most), "reached"
			if middle > f.most {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s to %s\t%s\t%s\n", f.what, f.format(middle), f.format(f.values[0]), f.format(f.values[len(f.values)-1]), reach, verdict)
	}
}

func times(ratio float64) string { return fmt.Sprintf("%.3gx", ratio) }

func megabytes(n float64) string { return fmt.Sprintf("%.3g MB", n/1e6) }

// short rounds to about three digits.
func short(nanoseconds float64) string {
	d := time.Duration(nanoseconds)
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
