package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// FolderOptions choose the checked part of a folder.
type FolderOptions struct {
	Keys []seal.PublicKey // signatures of other keys are refused
	Day  string           // in UTC, as in the names of files; "" for all
}

// FolderReport lists the ended runs and calls of a folder, and missing ones.
type FolderReport struct {
	Verified bool   `json:"verified"`
	Day      string `json:"day,omitempty"`
	Files    int    `json:"files"`
	Runs     int    `json:"runs"`
	Calls    int    `json:"calls"` // without a script
	// Orders are the orders of the writers: processes with the same folder, and other replicas.
	Orders   []OrderReport `json:"orders"`
	Problems []string      `json:"problems,omitempty"`
	Notes    []string      `json:"notes,omitempty"`

	more int // unlisted problems
}

// OrderReport is the order of the runs and calls of a writer.
type OrderReport struct {
	Chain  string `json:"chain"` // id
	First  uint64 `json:"first"` // places
	Last   uint64 `json:"last"`
	Signed uint64 `json:"signed"` // signatures cover everything up to this number
	Copied bool   `json:"copied,omitempty"`
}

func (r *FolderReport) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	} else {
		r.more++
	}
}

func (r *FolderReport) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// folder has the data read from a folder.
type folder struct {
	opts   FolderOptions
	report *FolderReport
	orders map[string]*order
	// tails are the last links of unread files.
	tails map[seal.Link]bool
	// removed has, for each chain, the place up to which files were removed because of age or size,
	// according to signed checkpoints. removedCopies is set if copies from other folders were
	// removed.
	removed       map[string]uint64
	removedCopies bool

	// later are files of days after the requested days. They are read because their checkpoints
	// list removed files, and sign earlier links.
	later    map[string]bool
	nested   map[string]bool // nested runs
	unsigned int             // runs
	older    int             // runs and calls from before the introduction of digests
}

// around is the largest distance from a day to a file with events of the day: runs take two days at
// most.
const around = 48 * time.Hour

// Folder checks the order of all ended runs and calls in the journal in a directory. The error is a
// failure to read, or the cause of ctx.
func Folder(ctx context.Context, dir string, opts FolderOptions) (*FolderReport, error) {
	f := &folder{
		opts: opts, report: &FolderReport{Day: opts.Day}, orders: map[string]*order{}, tails: map[seal.Link]bool{},
		removed: map[string]uint64{}, nested: map[string]bool{}, later: map[string]bool{},
	}
	files, err := journal.Files(dir)
	if err != nil {
		return nil, err
	}
	from, to := "", "9999-99-99"
	if opts.Day != "" {
		day, err := time.Parse(time.DateOnly, opts.Day)
		if err != nil {
			return nil, fmt.Errorf("%q is no day (write it as 2026-11-24)", opts.Day)
		}
		from, to = day.Add(-around).Format(time.DateOnly), day.Add(around).Format(time.DateOnly)
	}
	found := false
	for _, file := range files {
		if file.Day < from {
			if at := file.LastLink(dir); at.Number > 0 {
				f.tails[at] = true
			}
			continue
		}
		found = found || opts.Day == "" || file.Day == opts.Day
		if f.later[file.Name] = file.Day > to; !f.later[file.Name] {
			f.report.Files++
		}
		if err := f.read(ctx, dir, file); err != nil {
			return nil, err
		}
	}
	if !found {
		f.report.problem("the journal has no file of this time: nothing was recorded, or the file was removed (--all shows the missing files, if other files exist)")
	}
	f.check()
	return f.report, nil
}

// problem adds a problem, unless the problem is in a file of a day after the requested days.
func (f *folder) problem(file, format string, args ...any) {
	if !f.later[file] {
		f.report.problem(format, args...)
	}
}

// read reads a file.
func (f *folder) read(ctx context.Context, dir string, file journal.File) error {
	linked, n := false, 0
	for line, err := range file.Each(ctx, dir) {
		n++
		var bad *journal.LineError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist): // removed since the listing
			return nil
		case errors.As(err, &bad):
			f.report.note("%s, line %d, has no end: a process died, or writes it now", file.Name, n)
			continue
		case err != nil:
			return err
		}
		linked = f.line(line, file, n, linked) || linked
	}
	return nil
}

// line takes a line. linked is set if an earlier line of the file had a link. The result reports
// whether this line has a link.
func (f *folder) line(line []byte, file journal.File, n int, linked bool) bool {
	kind, run, err := readHead(line)
	if err != nil {
		f.report.note("%s, line %d, is no event: the line was cut off when a process died, or damaged", file.Name, n)
		return false
	}
	switch kind {
	case kindBegin:
		if strings.HasPrefix(string(line[:min(len(line), 256)]), fmt.Sprintf(`{"t":"begin","run":"%s","parent":`, run)) {
			f.nested[run] = true
		}
		return false
	case kindEnd, kindProxied, kindCheckpoint:
	default:
		return false
	}
	e, err := parse(line)
	if err != nil {
		f.problem(file.Name, "%s, line %d: %v", file.Name, n, err)
		return false
	}
	if e.parts.Link.Number == 0 {
		f.unlinked(e, file, n, linked)
		return false
	}
	f.add(e, file, n)
	return true
}

// unlinked takes an end without a link.
func (f *folder) unlinked(e *event, file journal.File, n int, linked bool) {
	switch {
	case f.nested[e.run]:
	case e.kind == kindCheckpoint, e.members["prev"] != nil, linked && !file.Copied:
		f.problem(file.Name, "%s, line %d: %s has ended, and has no place in the order: the line was added or changed", file.Name, n, e.what())
	default:
		f.older++
	}
}

// what names the ended run or call, for people.
func (e *event) what() string {
	switch e.kind {
	case kindEnd:
		return "run " + e.run
	case kindProxied:
		return "call " + e.run
	}
	return "checkpoint " + e.run
}

// add adds an ended run or call to its order.
func (f *folder) add(e *event, file journal.File, n int) {
	o := f.orders[e.parts.Link.Chain]
	if o == nil {
		o = &order{id: e.parts.Link.Chain, copied: true}
		f.orders[o.id] = o
	}
	o.copied = o.copied && file.Copied
	p := place{number: e.parts.Link.Number, link: e.parts.Link.Digest, head: e.digest, kind: e.kind, run: e.run, seal: e.parts.Seal, line: n, file: file.Name}
	if e.kind == kindCheckpoint {
		if last, err := seal.ParseLink(e.text("last")); err == nil {
			p.last = last
		}
		p.others, p.removed = checkpointLists(e)
	}
	o.places = append(o.places, p)
}

// checkpointLists returns the links in a checkpoint: the last links of other writers, and the last
// links of removed files; a zero link stands for a file without links.
func checkpointLists(e *event) (others, removed []seal.Link) {
	list, _ := wire.Elements(e.members["others"])
	for _, raw := range list {
		text, _ := wire.Text(raw)
		if at, err := seal.ParseLink(text); err == nil {
			others = append(others, at)
		}
	}
	list, _ = wire.Elements(e.members["removed"])
	for _, raw := range list {
		text, _ := wire.GetString(raw, "last")
		at, _ := seal.ParseLink(text)
		removed = append(removed, at)
	}
	return others, removed
}

// check checks the orders.
func (f *folder) check() {
	ids := make([]string, 0, len(f.orders))
	for id := range f.orders {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f.orders[id].sort(f)
	}
	for _, id := range ids {
		f.orders[id].seals(f)
	}
	for _, id := range ids {
		f.orders[id].takeRemoved(f)
	}
	for _, id := range ids {
		f.orders[id].follow(f)
	}
	for _, id := range ids {
		f.orders[id].others(f)
	}
	for _, id := range ids {
		o := f.orders[id]
		f.report.Orders = append(f.report.Orders, o.report())
	}
	if f.unsigned > 0 {
		f.report.note("%s not signed", count(f.unsigned, "run"))
	}
	if f.older > 0 {
		f.report.note("%s, from before the introduction of digests, and not checked", count(f.older, "run or call"))
	}
	if len(ids) == 0 && len(f.report.Problems) == 0 {
		f.report.problem("no record has a place in an order: the records are from an earlier version")
	}
	f.report.Verified = len(f.report.Problems) == 0
}

// order has the ended runs and calls of a writer.
type order struct {
	id     string
	copied bool // completely copied from another folder
	places []place
	signed uint64 // see OrderReport
}

// place is the ended run or call at a place of an order.
type place struct {
	number     uint64
	link, head seal.Digest
	kind, run  string
	seal       *seal.Seal
	file       string
	line       int
	// Of a checkpoint:
	last            seal.Link // the previous link
	others, removed []seal.Link
}

func (p *place) at(o *order) string { return fmt.Sprintf("%s/%d", o.id, p.number) }

func (p *place) in() string { return fmt.Sprintf("%s, line %d", p.file, p.line) }

// sort sorts the places. A run or call with a copy is kept once.
func (o *order) sort(f *folder) {
	slices.SortStableFunc(o.places, func(a, b place) int { return cmp.Compare(a.number, b.number) })
	kept := o.places[:0]
	for _, p := range o.places {
		if n := len(kept); n > 0 && kept[n-1].number == p.number {
			if before := kept[n-1]; before.link != p.link || before.head != p.head || before.file == p.file {
				f.problem(p.file, "%s: the place %s is present twice (also in %s): a line was copied or added", p.in(), p.at(o), before.in())
			}
			continue
		}
		kept = append(kept, p)
	}
	o.places = kept
	for i := range o.places {
		switch p := &o.places[i]; {
		case f.later[p.file]:
		case p.kind == kindEnd:
			f.report.Runs++
			if p.seal == nil {
				f.unsigned++
			}
		case p.kind == kindProxied:
			f.report.Calls++
		}
	}
}

// find returns the place with the given number.
func (o *order) find(number uint64) *place {
	i, ok := slices.BinarySearchFunc(o.places, number, func(p place, n uint64) int { return cmp.Compare(p.number, n) })
	if !ok {
		return nil
	}
	return &o.places[i]
}

// seals checks the signatures, and up to where they cover the order.
func (o *order) seals(f *folder) {
	for i := range o.places {
		p := &o.places[i]
		if p.seal == nil {
			continue
		}
		if err := checkSeal(p, f.opts.Keys); err != nil {
			f.problem(p.file, "%s: the signature of %s: %v", p.in(), (&event{kind: p.kind, run: p.run}).what(), err)
			continue
		}
		after := p.seal.After
		if after == (seal.Link{}) {
			continue
		}
		at := o.find(after.Number)
		switch {
		case after.Chain != o.id, after.Number >= p.number:
			f.problem(p.file, "%s: the record is signed as coming after %s/%d, and is at %s: the record was moved", p.in(), after.Chain, after.Number, p.at(o))
		case at != nil && at.link != after.Digest:
			f.problem(p.file, "%s was signed when another record was at %s/%d than now (%s): this record, or an earlier record, was changed, added or removed", p.in(), o.id, after.Number, at.in())
		case after.Number == p.number-1: // the link itself is signed, too
			o.signed = max(o.signed, p.number)
		default:
			o.signed = max(o.signed, after.Number)
		}
	}
}

func checkSeal(p *place, keys []seal.PublicKey) error {
	if (p.seal.Outcome == seal.Checkpoint) != (p.kind == kindCheckpoint) {
		return fmt.Errorf("the signature is about a record of another kind")
	}
	return trusted(p.seal, p.run, p.head, keys)
}

// takeRemoved takes the statements of signed checkpoints about removed files.
func (o *order) takeRemoved(f *folder) {
	for i := range o.places {
		p := &o.places[i]
		if len(p.removed) == 0 {
			continue
		}
		if p.number > o.signed && (p.seal == nil || checkSeal(p, f.opts.Keys) != nil) {
			f.report.note("according to %s, which is not signed yet, files were removed", p.in())
			continue
		}
		for _, at := range p.removed {
			if at.Number == 0 {
				f.removedCopies = true
				continue
			}
			f.removed[at.Chain] = max(f.removed[at.Chain], at.Number)
		}
	}
}

// follow checks that each place follows the previous place.
func (o *order) follow(f *folder) {
	at := seal.Link{Chain: o.id}
	for i := range o.places {
		p := &o.places[i]
		known := p.number == at.Number+1
		if !known {
			o.gap(f, at, p)
			if p.last.Chain == o.id && p.last.Number == p.number-1 {
				at, known = p.last, true
			}
		}
		if known && at.Next(p.head, p.seal).Digest != p.link {
			f.problem(p.file, "%s: %s does not follow the record at %s/%d: one of the two was changed, or a record was removed, added or moved", p.in(), (&event{kind: p.kind, run: p.run}).what(), o.id, p.number-1)
		}
		at = seal.Link{Chain: o.id, Number: p.number, Digest: p.link}
	}
}

// gap reports the missing runs and calls before a place.
func (o *order) gap(f *folder, at seal.Link, p *place) {
	first, last := at.Number+1, p.number-1
	before := seal.Link{Chain: o.id, Number: last, Digest: p.last.Digest}
	switch {
	case last <= f.removed[o.id]: // because of the file's age
	case at.Number == 0 && p.last.Number == last && f.tails[before]: // in an unread file
	case at.Number == 0 && o.copied: // the order is complete in the folder of origin
	case first == last:
		f.problem(p.file, "a run, call or checkpoint is missing: %s/%d, before %s%s", o.id, first, p.in(), o.whyMissing())
	default:
		f.problem(p.file, "%d runs, calls or checkpoints are missing: %s/%d to %d, before %s%s", last-first+1, o.id, first, last, p.in(), o.whyMissing())
	}
}

// whyMissing returns a further possible reason for missing runs and calls.
func (o *order) whyMissing() string {
	if !o.copied {
		return ""
	}
	return " (all of this order was copied from another machine: copies that a version without checkpoints has made lack these; verify it where it was recorded)"
}

// others checks the presence of the orders of other writers named in checkpoints.
func (o *order) others(f *folder) {
	for i := range o.places {
		for _, at := range o.places[i].others {
			if at.Number <= f.removed[at.Chain] || f.tails[at] {
				continue
			}
			other := f.orders[at.Chain]
			if other == nil {
				if f.opts.Day == "" {
					f.problem(o.places[i].file, "%s names %s/%d of another writer without any records: the records were removed", o.places[i].in(), at.Chain, at.Number)
				}
				continue
			}
			switch p := other.find(at.Number); {
			case p == nil && other.copied:
			case p == nil && at.Number > other.places[len(other.places)-1].number:
				f.problem(o.places[i].file, "%s names %s/%d of another writer, which is missing: the end of the writer's records was removed", o.places[i].in(), at.Chain, at.Number)
			case p != nil && p.link != at.Digest:
				f.problem(o.places[i].file, "%s names %s/%d of another writer, and another record is at this place now (%s)", o.places[i].in(), at.Chain, at.Number, p.in())
			}
		}
	}
}

func (o *order) report() OrderReport {
	r := OrderReport{Chain: o.id, Signed: o.signed, Copied: o.copied}
	if len(o.places) > 0 {
		r.First, r.Last = o.places[0].number, o.places[len(o.places)-1].number
	}
	return r
}
