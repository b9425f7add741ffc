package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// Receipt is a client's copy of facts about a run, out of reach of later changes on the machine.
type Receipt struct {
	Run  string // id
	Head seal.Digest
	Seal *seal.Seal // nil: the run was not signed
	// result is the whole CallToolResult, raw; nil if only the receipt was kept.
	result []byte
}

// ErrNoReceipt means that a text has no receipt.
var ErrNoReceipt = errors.New("no receipt (want a result of a composite tool, the _meta of the result, or the receipt in _meta)")

// ParseReceipt reads a receipt: a CallToolResult, the response with one, the result's _meta, or the
// receipt in _meta, in any equivalent form of JSON.
func ParseReceipt(text []byte) (*Receipt, error) {
	value := jsontext.Value(text)
	// Answers of servers, which a result has too, can have members twice.
	if !value.IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, fmt.Errorf("%w: it is not JSON in UTF-8", ErrNoReceipt)
	}
	if err := value.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoReceipt, err)
	}
	if err := checkOnce(value); err != nil {
		return nil, fmt.Errorf("%w: it %w", ErrNoReceipt, err)
	}
	r := &Receipt{}
	var raw []byte
	for _, path := range [][]string{{"result"}, nil} {
		whole, _ := wire.Get(value, path...)
		if meta, ok := wire.Get(value, append(path, "_meta", compose.ReceiptKey)...); ok && raw == nil {
			raw, r.result = meta, whole
		}
	}
	if raw == nil {
		raw, _ = wire.Get(value, compose.ReceiptKey)
	}
	if raw == nil {
		raw = value
	}
	if !wire.IsObject(raw) {
		return nil, ErrNoReceipt
	}
	run, ok := wire.GetString(raw, "run")
	if !ok || !isName([]byte(run), 64) {
		return nil, ErrNoReceipt
	}
	r.Run = run
	head, ok := wire.GetString(raw, "head")
	if !ok {
		return nil, fmt.Errorf("the receipt of run %s has no head: the run was not recorded with digests, or the result lacks parts that information flow had not compared", run)
	}
	var err error
	if r.Head, err = seal.ParseDigest(head); err != nil {
		return nil, fmt.Errorf("the receipt of run %s: its head %w", run, err)
	}
	if signed, ok := wire.Get(raw, "seal"); ok {
		if r.Seal, err = seal.Parse(signed); err != nil {
			return nil, fmt.Errorf("the receipt of run %s: %w", run, err)
		}
	}
	return r, nil
}

// checkOnce checks that no parsed object has a member twice.
func checkOnce(value []byte) error {
	for _, path := range [][]string{
		nil, {"result"}, {"_meta"}, {"result", "_meta"}, {"structuredContent"}, {"result", "structuredContent"},
		{compose.ReceiptKey}, {"_meta", compose.ReceiptKey}, {"result", "_meta", compose.ReceiptKey},
	} {
		object, ok := wire.Get(value, path...)
		if !ok || !wire.IsObject(object) {
			continue
		}
		if _, err := members(object); err != nil {
			return err
		}
	}
	return nil
}

// ReceiptReport has the facts proven by a receipt alone, without the record of the run.
type ReceiptReport struct {
	Run      string     `json:"run"`
	Head     string     `json:"head"`
	Verified bool       `json:"verified"` // the signature is valid
	Reason   string     `json:"reason,omitempty"`
	Key      string     `json:"key,omitempty"`
	Signed   *time.Time `json:"signed,omitempty"`
	Outcome  string     `json:"outcome,omitempty"`
	Events   int        `json:"events,omitempty"`
	Guest    string     `json:"guest,omitempty"`
}

// Check checks the signature of the receipt alone.
func (r *Receipt) Check(keys []seal.PublicKey) *ReceiptReport {
	report := &ReceiptReport{Run: r.Run, Head: r.Head.String()}
	if r.Seal == nil {
		report.Reason = "the receipt has no signature: the run was not signed"
		return report
	}
	if err := trusted(r.Seal, r.Run, r.Head, keys); err != nil {
		report.Reason = err.Error()
		return report
	}
	at := r.Seal.Time
	report.Verified, report.Key, report.Signed = true, r.Seal.Key, &at
	report.Outcome, report.Events, report.Guest = r.Seal.Outcome, r.Seal.Events, r.Seal.Guest
	return report
}

// Text returns the report for people, like [Report.Text].
func (r *ReceiptReport) Text() string {
	var b strings.Builder
	if !r.Verified {
		fmt.Fprintf(&b, "receipt of run %s: NOT VERIFIED\n  signature  FAILED: %s\n", r.Run, r.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "receipt of run %s: the signature is valid\n", r.Run)
	fmt.Fprintf(&b, "  signature  by the key %s, at %s by the clock of that machine\n", r.Key, r.Signed.Format(time.RFC3339))
	fmt.Fprintf(&b, "  says       %s, outcome %s, guest %.12s, head %s\n", count(r.Events, "event"), r.Outcome, r.Guest, r.Head)
	b.WriteString("  not proven:\n    - the events of the run, and the result with the receipt: name the run, or the file with the record, too\n")
	return b.String()
}

// receipt compares a client's receipt with a run with a complete chain.
func (o *Options) receipt(r *events, report *Report) error {
	kept := o.Receipt
	if kept == nil {
		return nil
	}
	if kept.Seal != nil {
		if err := trusted(kept.Seal, kept.Run, kept.Head, o.Keys); err != nil {
			return fmt.Errorf("the receipt is no evidence: %w", err)
		}
	}
	last := r.list[len(r.list)-1]
	there := last.parts.Seal
	switch {
	case last.digest != kept.Head:
		return fmt.Errorf("the receipt has the head %s, and the record ends with %s: the record was changed after the result was given", kept.Head, last.digest)
	case kept.Seal == nil && there != nil:
		return errors.New("the receipt is not signed, but the record is: the record was signed after the result was given")
	case kept.Seal != nil && there == nil:
		return errors.New("the receipt is signed, but the record is not: the signature was removed")
	case kept.Seal != nil && !bytes.Equal(kept.Seal.JSON(), there.JSON()):
		return fmt.Errorf("the signature differs from the signature of the record: the record was signed again, at %s", there.Time.Format(time.RFC3339))
	}
	if kept.Seal == nil {
		report.NotProven = append(report.NotProven, "the receipt, which is not signed")
	}
	return nil
}

// result compares the result next to a receipt with the recorded result.
func (o *Options) result(rec *journal.Record, report *Report) error {
	kept := o.Receipt
	if kept == nil {
		return nil
	}
	same := "head and signature are as given to the client"
	if kept.Seal == nil {
		same = "the head is as given to the client"
	}
	switch {
	case kept.result == nil:
		report.NotProven = append(report.NotProven, "the result given to the client: only the receipt was kept")
	case rec.Redacted:
		report.NotProven = append(report.NotProven, "the result given to the client: the record has redacted parts")
	default:
		if err := sameResult(rec, kept.result); err != nil {
			return err
		}
		same += ", and so is the result"
	}
	report.check(Kept, same)
	return nil
}

// sameResult checks that a CallToolResult equals the client's result according to the record.
func sameResult(rec *journal.Record, result []byte) error {
	failed, _ := wire.Get(result, "isError")
	if isError := string(failed) == "true"; isError != (rec.Outcome.Error != "") {
		return fmt.Errorf("the result has isError %t, and the recorded outcome is %q: the result was changed", isError, rec.OutcomeName())
	}
	content, _ := wire.Get(result, "content")
	blocks, err := wire.Elements(content)
	if err != nil {
		return errors.New("the result has no content")
	}
	structured, ok := wire.Get(result, "structuredContent")
	if rec.Outcome.Error != "" {
		got, _ := wire.Get(structured, "error")
		if !ok || !sameJSON(got, rec.Outcome.Failure) {
			return fmt.Errorf("the error in structuredContent differs from the recorded error, %.200s: the result was changed", rec.Outcome.Failure)
		}
		text, _ := wire.GetString(first(blocks), "text")
		if message, _ := wire.GetString(rec.Outcome.Failure, "message"); !strings.Contains(text, message) {
			return errors.New("the text of the error differs from the recorded text: the result was changed")
		}
		return nil
	}
	if got, has := wire.Get(structured, "result"); has && !sameJSON(got, rec.Outcome.Result) {
		return fmt.Errorf("the result differs from the recorded result, %.200s: the result was changed", rec.Outcome.Result)
	}
	want := compose.Content(rec.Outcome.Result)
	for i, block := range want {
		if i < len(blocks) && (sameJSON(blocks[i], block) || sameText(blocks[i], block)) {
			continue
		}
		return fmt.Errorf("block %d of the content differs from the recorded block: the result was changed, or made for a client of another revision", i+1)
	}
	return nil
}

func first(blocks [][]byte) []byte {
	if len(blocks) == 0 {
		return nil
	}
	return blocks[0]
}

// sameText reports whether two blocks are texts of the same JSON value.
func sameText(a, b []byte) bool {
	x, isText := wire.GetString(a, "text")
	y, alsoText := wire.GetString(b, "text")
	return isText && alsoText && jsontext.Value(x).IsValid() && sameJSON([]byte(x), []byte(y))
}

// sameJSON reports whether two JSON values say the same: white space, the order of members, and how
// strings and numbers are written do not matter.
func sameJSON(a, b []byte) bool {
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	form := []jsontext.Options{jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)}
	if x.Compact(form...) != nil || y.Compact(form...) != nil {
		return false
	}
	p, q := jsontext.NewDecoder(bytes.NewReader(x)), jsontext.NewDecoder(bytes.NewReader(y))
	for {
		one, err := p.ReadToken()
		other, err2 := q.ReadToken()
		switch {
		case err != nil || err2 != nil:
			return errors.Is(err, io.EOF) && errors.Is(err2, io.EOF)
		case one.Kind() != other.Kind():
			return false
		case one.String() == other.String():
		case one.Kind() != '0' || !sameNumber(one.String(), other.String()):
			return false
		}
	}
}

// exact is the largest number up to which all integers are numbers of JavaScript, too.
const exact = 1 << 53

func sameNumber(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y && x < exact && x > -exact
}
