package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// linesOf returns the lines of all files, without newlines.
func linesOf(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for line, err := range f.Each(t.Context(), dir) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
	}
	return lines
}

// chainOf checks the chains of all runs, and the order of what has ended, with nothing but the digests.
// It returns how many links there are, and the last one.
func chainOf(t *testing.T, lines []string) (links int, at seal.Link) {
	t.Helper()
	heads := map[string]seal.Digest{}
	for _, line := range lines {
		p, err := seal.Cut([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		f, err := readFields([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		run, head := f.text("run"), seal.Event(p.Body)
		if before, ok := heads[run]; ok && f.text("prev") != before.String() {
			t.Fatalf("this does not follow %s:\n%s", before, line)
		}
		heads[run] = head
		if p.Link.Number == 0 {
			continue
		}
		if at.Number == 0 {
			at = seal.Link{Chain: p.Link.Chain}
		}
		if at = at.Next(head, p.Seal); at != p.Link {
			t.Fatalf("link %d is %s, want %s", links+1, p.Link, at)
		}
		links++
	}
	return links, at
}

func TestSealedRun(t *testing.T) {
	dir, key := t.TempDir(), seal.NewPrivate()
	l := openLog(t, dir, LogOptions{Signer: key})
	outer := begin(t, l, Begin{Definition: tools.Definition{Name: "outer"}, Guest: "abc"})
	call := outer.OpenCall(abi.ToolCall{}, "tools", "inner")
	inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Guest: "abc", Parent: &Parent{Run: outer.ID(), Call: 1}})
	inner.Log(abi.LogInfo, "in")
	inner.Close(Outcome{Result: []byte("1")})
	below := inner.Record()
	outer.Log(abi.LogInfo, "out")
	call.Close(Answer{Value: []byte("1"), Run: &below})
	outer.Close(Outcome{Result: []byte("1"), Fuel: 7})
	rec := outer.Record()
	if rec.Seal == nil || below.Seal != nil || below.Head == "" {
		t.Fatalf("seals %v and %v", rec.Seal, below.Seal)
	}
	head, err := seal.ParseDigest(rec.Head)
	if err != nil || rec.Seal.Events != 5 || rec.Seal.Outcome != OK || rec.Seal.Guest != "abc" || rec.Seal.After.Number != 0 {
		t.Errorf("%v, %+v", err, rec.Seal)
	}
	if err := rec.Seal.Check(rec.ID, head, key.Public()); err != nil {
		t.Error(err)
	}
	found, err := Find(t.Context(), dir, rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if found.Head != rec.Head || *found.Seal != *rec.Seal || found.Calls[0].Answer.Run.Head != below.Head {
		t.Errorf("read: %s %+v, want %s %+v", found.Head, found.Seal, rec.Head, rec.Seal)
	}
	lines := linesOf(t, dir)
	if n, _ := chainOf(t, lines); n != 2 {
		t.Errorf("%d links", n)
	}
	if !strings.Contains(strings.Join(lines, "\n"), `"below":"`+below.Head+`"`) {
		t.Error("the answer does not name the run below")
	}
}

// TestOrderGoesOn checks that the order goes on in the next file, and in the next process, and that
// calls that are written together have their places.
func TestOrderGoesOn(t *testing.T) {
	dir, key, now := t.TempDir(), seal.NewPrivate(), newClock()
	for range 3 {
		l := OpenLog(dir, LogOptions{Signer: key, Now: now.now, Log: quiet(), MaxSize: 4000})
		record(t, l, "a")
		written := make(chan struct{}, 5)
		for range 5 {
			if !l.ProxiedAsync(Proxied{Start: now.now(), Server: "s", Tool: "t"}, func() { written <- struct{}{} }) {
				t.Fatal("refused")
			}
		}
		for range 5 {
			<-written
		}
		now.set(now.now().Add(13 * time.Hour))
		record(t, l, "b")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lines := linesOf(t, dir)
	n, at := chainOf(t, lines)
	if n < 3*7 || at.Number != uint64(n) {
		t.Errorf("%d links, the last is %s", n, at)
	}
	last, err := seal.Cut([]byte(lines[len(lines)-1]))
	if err != nil || last.Seal == nil || last.Seal.Outcome != seal.Checkpoint || last.Seal.After.Number != at.Number-1 {
		t.Errorf("the last line is no checkpoint about the rest: %v\n%s", err, lines[len(lines)-1])
	}
}

// TestCheckpointNamesOthers checks that a checkpoint names other writers and removed files.
func TestCheckpointNamesOthers(t *testing.T) {
	dir, now := t.TempDir(), newClock()
	first := openLog(t, dir, LogOptions{Now: now.now, MaxAge: 24 * time.Hour})
	record(t, first, "a")
	second := openLog(t, dir, LogOptions{Now: now.now, MaxAge: 24 * time.Hour})
	record(t, second, "b")
	now.set(now.now().Add(96 * time.Hour))
	record(t, first, "c")
	lines := linesOf(t, dir)
	last := ""
	for _, line := range lines {
		if IsCheckpoint([]byte(line)) && strings.Contains(line, `"removed"`) {
			last = line
		}
	}
	if !strings.Contains(last, `"others":["`) || strings.Count(last, `{"file":"journal-2026-11-21`) != 2 || strings.Count(last, `/2/`) != 4 {
		t.Errorf("checkpoint %s", last)
	}
}

// failingSigner fails, or waits for its context.
type failingSigner struct{ wait bool }

var errNoHSM = errors.New("the HSM is away")

func (f failingSigner) Sign(ctx context.Context, _ seal.Statement) (*seal.Seal, error) {
	if f.wait {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, errNoHSM
}

func TestUnsignedRun(t *testing.T) {
	for _, required := range []bool{false, true} {
		dir := t.TempDir()
		l := openLog(t, dir, LogOptions{Signer: failingSigner{}, SignRequired: required})
		r := begin(t, l, Begin{})
		r.Close(Outcome{})
		rec := r.Record()
		if rec.Seal != nil || rec.Head == "" {
			t.Errorf("%+v", rec)
		}
		var unsigned *UnsignedError
		if err := r.Unsigned(); errors.As(err, &unsigned) != required || required && !errors.Is(err, errNoHSM) {
			t.Errorf("required %v: %v", required, err)
		}
		if found, err := Find(t.Context(), dir, rec.ID); err != nil || !found.Done || found.Head != rec.Head {
			t.Errorf("%+v, %v", found, err)
		}
		chainOf(t, linesOf(t, dir))
	}
}

// TestSlowSigner checks that others are recorded while a run waits for its signature.
func TestSlowSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or the slow one ends first where the other is slow too
		dir := t.TempDir()
		signing := make(chan struct{})
		l := openLog(t, dir, LogOptions{signTime: 300 * time.Millisecond, Signer: signerFunc(func(ctx context.Context, s seal.Statement) (*seal.Seal, error) {
			if s.Outcome == string(abi.ErrTool) {
				close(signing)
				<-ctx.Done() // for as long as it may take
				return nil, context.Cause(ctx)
			}
			return seal.FromSeed(make([]byte, 32)).Sign(ctx, s)
		})})
		slow := begin(t, l, Begin{})
		ended := make(chan struct{})
		go func() { defer close(ended); slow.Close(Outcome{Error: abi.ErrTool}) }()
		<-signing
		id := record(t, l, "quick")
		select {
		case <-ended:
			t.Error("the slow one has ended")
		default:
		}
		if rec, err := Find(t.Context(), dir, id); err != nil || rec.Seal == nil {
			t.Errorf("%+v, %v", rec, err)
		}
		<-ended
		if rec := slow.Record(); rec.Seal != nil || rec.Head == "" {
			t.Errorf("%+v", rec)
		}
		chainOf(t, linesOf(t, dir))
	})
}

type signerFunc func(context.Context, seal.Statement) (*seal.Seal, error)

func (f signerFunc) Sign(ctx context.Context, s seal.Statement) (*seal.Seal, error) { return f(ctx, s) }

// TestKilledProcess checks that what a process has not signed, as it was killed, is signed with the
// first write of the next one, and that nothing more is written for that if it was.
func TestKilledProcess(t *testing.T) {
	for _, signs := range []bool{true, false} {
		dir := t.TempDir()
		opts := LogOptions{Signer: seal.FromSeed(make([]byte, 32)), Log: quiet()}
		l := OpenLog(dir, opts)
		l.Proxied(Proxied{Start: time.Now(), Server: "s", Tool: "t"})
		if signs {
			record(t, l, "a") // the last thing that ends, and is signed
		}
		l.Configure(LogOptions{Log: quiet()}) // it signs nothing more
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openLog(t, dir, opts)
		l.Proxied(Proxied{Start: time.Now(), Server: "s", Tool: "t"})
		l.marks.Wait()
		last, err := seal.Cut([]byte(linesOf(t, dir)[len(linesOf(t, dir))-1]))
		if err != nil || last.Seal != nil == signs {
			t.Errorf("signed before: %t, now %+v, %v", signs, last.Seal, err)
		}
	}
}

// TestIdleIsSigned checks that the last thing that has ended is signed although nothing is written after
// it, again if the signature could not be made, and once.
func TestIdleIsSigned(t *testing.T) {
	dir, key := t.TempDir(), seal.FromSeed(make([]byte, 32))
	tries, n := make(chan bool, 10), 0
	l := openLog(t, dir, LogOptions{signEvery: time.Millisecond, Signer: signerFunc(func(ctx context.Context, s seal.Statement) (*seal.Seal, error) {
		defer func() { tries <- true }()
		if n++; n == 1 {
			return nil, errNoHSM
		}
		return key.Sign(ctx, s)
	})})
	l.Proxied(Proxied{Start: time.Now(), Server: "s", Tool: "t"})
	for range 2 {
		select {
		case <-tries:
		case <-time.After(testenv.Deadline(time.Minute)):
			t.Fatal("it is not signed")
		}
	}
	l.marks.Wait()
	l.mu.Lock()
	if l.later != nil {
		t.Error("it is signed again later")
	}
	l.mu.Unlock()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, dir)
	if last, err := seal.Cut([]byte(lines[len(lines)-1])); err != nil || last.Seal == nil || len(lines) != 3 || n != 2 {
		t.Errorf("%d tries, %v, the last line of %d is\n%s", n, err, len(lines), lines[len(lines)-1])
	}
}

// TestLostEvents checks that the chain has what was written, and nothing else.
func TestLostEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	now := newClock()
	l := openLog(t, dir, LogOptions{Now: now.now, Signer: seal.NewPrivate()})
	r := begin(t, l, Begin{})
	l.mu.Lock()
	l.files.file.Close() // the next write fails
	l.mu.Unlock()
	r.OpenCall(abi.ToolCall{}, "s", "t")
	now.set(now.now().Add(time.Minute))
	r.OpenCall(abi.ToolCall{}, "s", "u")
	r.Close(Outcome{})
	lines := linesOf(t, dir)
	chainOf(t, lines)
	rec, err := Find(t.Context(), dir, r.ID())
	if err != nil || !rec.Incomplete || len(rec.Calls) != 1 || rec.Seal == nil || rec.Seal.Events != 3 {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestTornEnd checks that a file whose last line was cut off is gone on with from the last whole link.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	l := OpenLog(dir, LogOptions{Log: quiet()})
	record(t, l, "a")
	l.Close()
	path := filepath.Join(dir, mustNames(t, dir)[0])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"t":"begin","run":"x","half":`...), 0o600); err != nil {
		t.Fatal(err)
	}
	again := openLog(t, dir, LogOptions{})
	record(t, again, "b")
	var whole []string
	for _, line := range linesOf(t, dir) {
		if strings.HasSuffix(line, "}") {
			whole = append(whole, line)
		}
	}
	if n, at := chainOf(t, whole); n != 4 || at.Number != 4 {
		t.Errorf("%d links, last %s", n, at)
	}
}

func mustNames(t *testing.T, dir string) []string {
	t.Helper()
	files, err := Files(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []string
	for _, f := range files {
		all = append(all, f.Name)
	}
	return all
}

// TestLastLink finds links at all distances from the end of a file.
func TestLastLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	at := seal.NewChain().Next(seal.Event([]byte("x")), nil)
	line := append(seal.AppendLink([]byte(`{"t":"end"`), at), "}\n"...)
	for _, behind := range []int{0, 1, 100, tailPiece - len(line) - 1, tailPiece - len(line), tailPiece - 100, tailPiece - 1, tailPiece, tailPiece + 1, 3 * tailPiece} {
		text := append(bytes.Clone(line), strings.Repeat("y", behind)...)
		if behind > 0 {
			text = append(text, '\n')
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLink(path); got != at {
			t.Errorf("%d bytes behind it: %s", behind, got)
		}
	}
}

// BenchmarkDigests records runs of ten calls and answers of one kilobyte, with and without digests and
// signatures.
func BenchmarkDigests(b *testing.B) {
	answer := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`)
	for _, c := range []struct {
		name string
		opts LogOptions
	}{
		{"off", LogOptions{undigested: true}}, {"digests", LogOptions{}}, {"signed", LogOptions{Signer: seal.NewPrivate()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := openLog(b, b.TempDir(), c.opts)
			for b.Loop() {
				r := begin(b, l, Begin{Definition: tools.Definition{Name: "a"}})
				for range 10 {
					r.OpenCall(abi.ToolCall{}, "s", "t").Close(Answer{Result: answer, Value: []byte("1")})
				}
				r.Close(Outcome{})
			}
		})
	}
}

// BenchmarkProxiedDigests is the same for calls without a script.
func BenchmarkProxiedDigests(b *testing.B) {
	for _, c := range []struct {
		name string
		opts LogOptions
	}{{"off", LogOptions{undigested: true}}, {"on", LogOptions{Signer: seal.NewPrivate()}}} {
		b.Run(c.name, func(b *testing.B) {
			l := openLog(b, b.TempDir(), c.opts)
			for b.Loop() {
				l.Proxied(Proxied{Start: time.Now(), Server: "s", Tool: "t", Client: Client{Session: "c0ffee", Name: "x"}})
			}
		})
	}
}
