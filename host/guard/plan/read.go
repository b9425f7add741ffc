package plan

import (
	"bytes"
	"context"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// File is a plan as kept and passed on.
type File struct {
	Plan Plan `json:"plan"`
	// Digest is Plan.Digest: the subject of an approval.
	Digest string `json:"digest"`
	// Answers are the answers of the steps of the earlier plans and of the plan itself, in their
	// order; empty for answers that are not known or not in the file. An answer is used only if its
	// digest is as in the plan.
	Answers []Answer `json:"answers,omitempty"`
	// Principal is who has asked for the plan.
	Principal string `json:"principal,omitempty"`
	// Seal proves that the plan was made with the store whose key sealed the plan.
	Seal string `json:"seal,omitempty"`

	owner string // the owner, see quota
}

// MaxFile is the largest plan that is read, in bytes.
const MaxFile = 64 << 20

// maxSteps limits the steps of a plan and of the earlier plans.
const maxSteps = 20_000

// ErrInvalid is matched by errors.Is if a file is no plan.
var ErrInvalid = errors.New("not a plan")

// ReadFile reads a plan from a file, which anybody may have written.
func ReadFile(ctx context.Context, path string) (*File, error) {
	text, err := regular.Read(ctx, path, MaxFile)
	if err != nil {
		return nil, err
	}
	f, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Parse reads a plan. The result has the claimed digest, and every part has the right form; whether
// the plan can be applied is another matter. The error matches ErrInvalid.
func Parse(text []byte) (*File, error) {
	f := new(File)
	var compact bytes.Buffer // calls and digests have no white space
	if err := stdjson.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := json.Unmarshal(compact.Bytes(), f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if digest := f.Plan.Digest(); digest != f.Digest {
		return nil, fmt.Errorf("%w: it was edited: its digest is %s, and it says %s (make a new plan)", ErrInvalid, digest, clipDigest(f.Digest))
	}
	return f, nil
}

// clipDigest shortens the digest that a file claims.
func clipDigest(s string) string {
	if isDigest(s) {
		return s
	}
	return "something else"
}

func (f *File) check() error {
	p := &f.Plan
	switch {
	case p.Version < 1 || p.Version > Version:
		return fmt.Errorf("version %d; this program reads version 1 to %d", p.Version, Version)
	case !isID(p.ID) || p.After != "" && !isID(p.After):
		return errors.New("id is not the id of a plan")
	case !isDigest(p.ToolDigest) || !isDigest(p.Guest):
		return errors.New("toolDigest or guest is not a digest")
	case (p.Tool == "") == (p.Code == ""):
		return errors.New("it has tool and code, or neither")
	case !wire.IsObject(p.Params) || p.Meta != nil && !wire.IsObject(p.Meta):
		return errors.New("params or meta is not an object")
	case p.Created.IsZero() || !p.Expires.After(p.Created):
		return errors.New("created and expires are not in that order")
	case p.Expires.Sub(p.Created) > keptAfter: // the plan's claim would be forgotten before
		return fmt.Errorf("it is good for more than %v", keptAfter)
	case len(p.Before)+len(p.Steps) > maxSteps || len(f.Answers) > maxSteps || len(p.Permissions) > maxSteps:
		return fmt.Errorf("more than %d steps, answers or permissions", maxSteps)
	}
	for _, raw := range [][]byte{p.Params, p.Meta} {
		if err := badJSON(raw); err != nil {
			return fmt.Errorf("params or meta: %w", err)
		}
	}
	if _, err := time.ParseDuration(p.Limits.Timeout); err != nil {
		return errors.New("limits.timeout is not a duration")
	}
	for _, permission := range p.Permissions {
		if permission.Tool == "" || !isDigest(permission.Digest) {
			return errors.New("a permission without tool or digest")
		}
	}
	for _, a := range f.Answers {
		if a.Value != nil && a.Error != nil {
			return errors.New("an answer with value and error")
		}
	}
	return p.checkSteps()
}

func (p *Plan) checkSteps() error {
	last := 0
	for i, s := range p.all() {
		if err := s.check(i < len(p.Before), last); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if s.Do == Write {
			last++
		}
	}
	if err := badRefs(p.Result, last); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// check checks a step of an earlier plan or of this plan; last is the number of writes before the
// step.
func (s *Step) check(before bool, last int) error {
	call := s.Do != Commit
	switch s.Do {
	case Read, Write, Undo, Commit:
	default:
		return fmt.Errorf("do is %q", clip(string(s.Do)))
	}
	switch {
	case call && (s.Server == "" || s.Tool == "" || s.Script == ""):
		return errors.New("no script, server or tool")
	case s.Server == abi.Composites:
		return errors.New("a saved tool is no step")
	case call && !wire.IsObject(s.Arguments), s.Meta != nil && !wire.IsObject(s.Meta):
		return errors.New("arguments or meta is not an object")
	case s.Do == Write && s.Write != last+1, s.Do != Write && s.Write != 0:
		return fmt.Errorf("the number of the write is %d", s.Write)
	case s.Answer != "" && !isDigest(s.Answer):
		return errors.New("answer is not a digest")
	case (s.Do == Read || s.Do == Write && before) != (s.Answer != ""):
		return errors.New("answer is there and must not be, or is missing")
	}
	if s.Do == Read {
		last = 0 // a read has no references
	}
	for _, raw := range [][]byte{s.Arguments, s.Meta} {
		if err := badRefs(raw, last); err != nil {
			return err
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// isDigest reports whether text is a SHA-256 in lower-case hexadecimal.
func isDigest(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == 64 && strings.ToLower(text) == text
}

// isID reports whether text can be the id of a plan, and so the name of a file.
func isID(text string) bool {
	for _, c := range text {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 36
}

// JSON returns the content of the file: indented, with a newline at its end.
func (f *File) JSON() []byte {
	var b bytes.Buffer
	if err := stdjson.Indent(&b, wire.Marshal(f), "", "  "); err != nil {
		panic("plan: " + err.Error()) // the plan has just been encoded
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// WithoutAnswers returns the file for passing on: without the answers of tools, unless answers are
// wanted, and without the principal.
func (f *File) WithoutAnswers(unless bool) *File {
	other := *f
	other.Principal = ""
	if !unless {
		other.Answers = nil
	}
	return &other
}
