package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// summary prints the counts and the failed checks.
func (s *soak) summary(w io.Writer) {
	t := &s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	restarts := 0
	var names []string
	for _, u := range s.end.Upstreams {
		restarts += u.Restarts
		names = append(names, fmt.Sprintf("%s %d", u.Name, u.Restarts))
	}
	fmt.Fprintf(w, "\nseed          %d\ntime          %.0f s\n", s.seed, time.Since(t.began).Seconds())
	fmt.Fprintf(w, "sessions      %d\nrequests      %d\n", t.sessions, t.requests)
	fmt.Fprintf(w, "answered      %d, of these %d with isError, %d with a JSON-RPC error\n", t.answered, t.isError, t.refused)
	fmt.Fprintf(w, "cancelled     %d without an answer\nclient gone   %d without an answer\n", t.cancel, t.left)
	fmt.Fprintf(w, "crossed       %d\n", t.crossed)
	fmt.Fprintf(w, "RSS           %s at start, %s at end (heap %s, %s), without compiled scripts (%s, %s)\n",
		megabytes(s.begin.RSS), megabytes(s.end.RSS), megabytes(s.begin.Heap), megabytes(s.end.Heap),
		megabytes(s.begin.Prepared), megabytes(s.end.Prepared))
	fmt.Fprintf(w, "goroutines    %d at start, %d at end\n", s.begin.Goroutines, s.end.Goroutines)
	fmt.Fprintf(w, "descriptors   %d at start, %d at end\n", s.begin.Descriptors, s.end.Descriptors)
	fmt.Fprintf(w, "restarts      %d (%s)\n", restarts, strings.Join(names, ", "))
	total := 0
	for _, n := range t.faults {
		total += n
	}
	fmt.Fprintf(w, "faults        %d\n", total)
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(w, "  %-36s %d\n", kind, t.faults[kind])
	}
	fmt.Fprintln(w, "from the crash of a server with 3 pending calls to the last of their answers, and to serving again:")
	for _, kind := range slices.Sorted(maps.Keys(t.crashes)) {
		answer := func(c crash) time.Duration { return c.answer }
		back := func(c crash) time.Duration { return c.back }
		fmt.Fprintf(w, "  %-12s%d crashes", kind, len(t.crashes[kind]))
		usual, worst := spread(t.crashes[kind], answer)
		fmt.Fprintf(w, "; answers: median %s, worst %s (%s)", ms(usual.answer), ms(worst.answer), worst.label)
		usual, worst = spread(t.crashes[kind], back)
		fmt.Fprintf(w, "; serving: median %s, worst %s (%s, after %d calls", ms(usual.back), ms(worst.back), worst.label, worst.calls)
		if worst.last != "" {
			fmt.Fprintf(w, ", the last: %s", worst.last)
		}
		fmt.Fprintln(w, ")")
	}
	if len(t.failures) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	fmt.Fprintf(w, "FAILED: %d checks\n", len(t.failures)+t.more)
	for _, f := range t.failures {
		fmt.Fprintln(w, "  "+f)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
