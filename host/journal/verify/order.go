package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

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
