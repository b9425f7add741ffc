package journal

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

// signTime is how long the end of a run waits for the signature, perhaps made by an external
// program.
const signTime = 5 * time.Second

// UnsignedError is the error of a run without a required signature.
type UnsignedError struct{ Err error }

func (e *UnsignedError) Error() string {
	return "its record could not be signed, as sign = \"required\" in [journal] demands: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnsignedError) Unwrap() error { return e.Err }

var errNotOnDisk = errors.New("it is not in the journal")

// close signs a run with the last event in the buffer, if requested by a client. The caller holds
// d.mu.
func (d *runLog) close(o *Outcome) {
	c := d.line.chain
	if c == nil || !d.root {
		return
	}
	if d.opts.Signer != nil {
		ended := Record{Done: true, Outcome: *o}
		d.seal, d.unsigned = d.log.sign(&d.opts, cmp.Or(d.opts.signTime, signTime), seal.Statement{
			Run: d.id, Head: c.head, Events: c.events, Outcome: ended.OutcomeName(), Guest: d.guest,
		})
		if d.unsigned != nil {
			d.opts.Log.Error("a run is not signed", "run", d.id, "err", d.unsigned)
		} else {
			d.line.seal(d.seal)
		}
	}
	d.line.ended(c.head, d.seal)
}

// sign signs a run or call that ends now.
func (l *Log) sign(opts *LogOptions, limit time.Duration, s seal.Statement) (*seal.Seal, error) {
	// A run is signed even after the end of the request.
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the signature was not made within "+limit.String()))
	defer cancel()
	l.mu.Lock()
	s.After = l.files.chain
	l.mu.Unlock()
	if s.After.Number == 0 {
		s.After = seal.Link{}
	}
	s.Time = opts.Now()
	made, err := opts.Signer.Sign(ctx, s)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.After.Chain == l.files.chain.Chain && s.After.Number > l.files.signed {
		l.files.signed, l.files.marked = s.After.Number, s.Time
	}
	return made, nil
}

// sealed returns the digest of the last event of an ended run, and the seal, if written.
func (d *runLog) sealed() (head string, s *seal.Seal) {
	if d == nil {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line.chain == nil || !d.ended || d.beginLost || d.endLost {
		return "", nil
	}
	return d.upTo.head.String(), d.seal
}

// Unsigned returns an [*UnsignedError] if the result of an ended run must be withheld, since the
// record is not signed.
func (r *Run) Unsigned() error {
	d := r.disk
	if d == nil || !d.opts.SignRequired || !d.root {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.unsigned != nil:
		return &UnsignedError{d.unsigned}
	case d.beginLost || d.endLost || d.seal == nil:
		return &UnsignedError{errNotOnDisk}
	}
	return nil
}
