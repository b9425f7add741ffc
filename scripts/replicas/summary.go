//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// summary prints the counts and the failed checks.
func (t *trial) summary(out io.Writer) {
	c := t.tally
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(out, "\nseed %d, %.0f s\n\n", t.seed, time.Since(c.began).Seconds())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tsent\tanswered\tas the table of failures says\tLOST\tTWICE\tSESSIONS\t")
	for _, kind := range c.order {
		k := c.kinds[kind]
		n := 0
		for _, e := range k.excused {
			n += e
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", kind, k.sent, k.answered, n, k.lost, k.twice, k.sessions)
	}
	w.Flush()
	fmt.Fprintln(out, "\nfaults:")
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		fmt.Fprintf(out, "  %-18s %d\n", name, c.faults[name])
	}
	fmt.Fprintln(out, "\nwhat was lost as the table of failures says, by fault:")
	for _, kind := range c.order {
		for _, fault := range slices.Sorted(maps.Keys(c.kinds[kind].excused)) {
			fmt.Fprintf(out, "  %5d  %-28s %s\n", c.kinds[kind].excused[fault], kind, fault)
		}
	}
	if len(c.notes) > 0 {
		fmt.Fprintln(out, "\nwhat else was seen:")
	}
	for _, note := range slices.Sorted(maps.Keys(c.notes)) {
		fmt.Fprintf(out, "  %5d  %s\n", c.notes[note], note)
	}
	fmt.Fprintf(out, "\nthe ledger was asked %d times to pay what was paid already\n", t.fleet.ledger.repeated())
	if len(c.failures) == 0 {
		fmt.Fprintln(out, "ok")
		return
	}
	fmt.Fprintf(out, "FAILED: %d checks\n  %s\n", len(c.failures)+c.more, strings.Join(c.failures, "\n  "))
}
