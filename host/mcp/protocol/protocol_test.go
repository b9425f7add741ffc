package protocol

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMethodsOfSchema compares the methods of each revision with those in its schema.
func TestMethodsOfSchema(t *testing.T) {
	text, err := os.ReadFile("testdata/methods.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\r\n", "\n")) {
		if name, method, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			want[name] = append(want[name], method)
		}
	}
	for _, r := range everyRevision() {
		var got []string
		for _, m := range r.Methods() {
			from := map[Party]string{Client: "client", Server: "server"}[m.From]
			kind := map[Kind]string{Request: "request", Notification: "notification"}[m.Kind]
			got = append(got, from+" "+kind+" "+m.Name)
		}
		slices.Sort(got)
		slices.Sort(want[r.String()])
		if !slices.Equal(got, want[r.String()]) {
			t.Errorf("%s:\ngot  %v\nwant %v", r, got, want[r.String()])
		}
		delete(want, r.String())
	}
	for name := range want {
		t.Errorf("revision %s is in testdata/methods.txt and not in the table", name)
	}
}

// everyRevision returns the revisions of both eras, newest first.
func everyRevision() []Revision { return slices.Concat(Stateless.Revisions(), Handshake.Revisions()) }

// TestTable checks that a row adds only what was not there, removes only what was, and
// that every fact has a source.
func TestTable(t *testing.T) {
	var before row
	for _, r := range revisions {
		if before.name >= r.name {
			t.Errorf("%s comes after %s", r.name, before.name)
		}
		if r.era != Handshake && r.era != Stateless {
			t.Errorf("%s: era %d", r.name, r.era)
		}
		for _, f := range r.features {
			if f.source == "" || before.has&(1<<f.Feature) != 0 {
				t.Errorf("%s: feature %d: source %q, or it was there", r.name, f.Feature, f.source)
			}
		}
		for _, f := range r.removedFeatures {
			if f.source == "" || before.has&(1<<f.Feature) == 0 {
				t.Errorf("%s: removed feature %d: source %q, or it was not there", r.name, f.Feature, f.source)
			}
		}
		for _, m := range r.methods {
			if was, ok := find(before.allMethods, m.From, m.Name); m.source == "" || ok && was == m.Method {
				t.Errorf("%s: method %s: source %q, or it was there", r.name, m.Name, m.source)
			}
		}
		for _, m := range r.removedMethods {
			if _, ok := find(before.allMethods, m.From, m.Name); m.source == "" || !ok {
				t.Errorf("%s: removed method %s: source %q, or it was not there", r.name, m.Name, m.source)
			}
		}
		for _, c := range slices.Concat(r.codes, r.removedCodes) {
			if c.source == "" || slices.Contains(before.allCodes, c.code) == slices.Contains(r.codes, c) {
				t.Errorf("%s: code %d: source %q, or nothing changes", r.name, c.code, c.source)
			}
		}
		before = r
	}
}

// TestRemoval checks that what a row removes is missing in its revision and stays in the
// previous one.
func TestRemoval(t *testing.T) {
	old := row{
		features: []featureFact{{Tasks, "x"}, {Icons, "x"}},
		methods:  []methodFact{{Method{Client, Request, MethodPing, ""}, "x"}, {Method{Server, Request, MethodPing, ""}, "x"}},
		codes:    []codeFact{{CodeResourceNotFound, "x"}, {CodeURLElicitationRequired, "x"}},
	}
	old.compute(&none)
	next := row{
		removedFeatures: []featureFact{{Tasks, "x"}},
		removedMethods:  []methodFact{{Method{Client, Request, MethodPing, ""}, "x"}},
		removedCodes:    []codeFact{{CodeResourceNotFound, "x"}},
	}
	next.compute(&old)
	if next.has != 1<<Icons || old.has != 1<<Icons|1<<Tasks {
		t.Errorf("features: %b after %b", next.has, old.has)
	}
	if !slices.Equal(next.allMethods, old.allMethods[1:]) || len(old.allMethods) != 2 {
		t.Errorf("methods: %v after %v", next.allMethods, old.allMethods)
	}
	if !slices.Equal(next.allCodes, old.allCodes[1:]) || len(old.allCodes) != 2 {
		t.Errorf("codes: %v after %v", next.allCodes, old.allCodes)
	}
}

// TestFeatures compares the revisions that have each feature with the changelogs.
func TestFeatures(t *testing.T) {
	const all = "2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28"
	since := func(name string) string { return all[strings.Index(all, name):] }
	until := func(text string) string { return strings.TrimSuffix(text, " 2026-07-28") }
	want := map[Feature]string{
		TextContent: all, ImageContent: all, EmbeddedResources: all,
		AudioContent: since("2025-03-26"), ResourceLinks: since("2025-06-18"),
		ToolAnnotations: since("2025-03-26"), OutputSchema: since("2025-06-18"),
		StructuredContent: since("2025-06-18"), StructuredValues: "2026-07-28",
		Titles: since("2025-06-18"), Icons: since("2025-11-25"),
		FormElicitation: since("2025-06-18"), URLElicitation: since("2025-11-25"),
		SamplingTools: since("2025-11-25"), Tasks: until(since("2025-11-25")),
		CompletionCapability: since("2025-03-26"), CompletionContext: since("2025-06-18"),
		ProgressMessages: since("2025-03-26"),
		Batches:          "2025-03-26", HTTPWithSSE: "2024-11-05",
		StreamableHTTP: since("2025-03-26"), SessionHeader: until(since("2025-03-26")),
		VersionHeader: since("2025-06-18"), ResumableStreams: until(since("2025-03-26")),
		PrimingEvents: until(since("2025-11-25")), Authorization: since("2025-03-26"),
		ProtectedResourceMetadata: since("2025-06-18"),
		StandardHeaders:           "2026-07-28", ResultTypes: "2026-07-28", CacheHints: "2026-07-28",
		InputRequests: "2026-07-28", RequestLogLevel: "2026-07-28",
	}
	for f := range features {
		var have []string
		for _, r := range slices.Backward(everyRevision()) {
			if r.Has(f) {
				have = append(have, r.String())
			}
		}
		if got, ok := want[f]; !ok || strings.Join(have, " ") != got {
			t.Errorf("feature %d is in %v, want %s", f, have, cmp.Or(got, "none"))
		}
	}
}

func TestLookups(t *testing.T) {
	newest := Handshake.Newest()
	if newest.String() != "2025-11-25" || newest.Era() != Handshake || Handshake.Revisions()[0] != newest || Handshake.Names()[0] != newest.String() {
		t.Errorf("newest: %s of %v", newest, Handshake.Names())
	}
	for _, r := range Handshake.Revisions() {
		if found, ok := Handshake.Lookup(r.String()); !ok || found != r || Handshake.Negotiate(r.String()) != r {
			t.Errorf("%s is found as %s, and negotiated as %s", r, found, Handshake.Negotiate(r.String()))
		}
		if _, ok := Stateless.Lookup(r.String()); ok {
			t.Errorf("%s is of two eras", r)
		}
	}
	for _, name := range []string{"", "2025-11-26", "2026-07-29", "2025-11-25 ", "9"} {
		if r, ok := Lookup(name); ok || !r.IsZero() {
			t.Errorf("%q is found as %s", name, r)
		}
		if r := Handshake.Negotiate(name); r != newest {
			t.Errorf("%q is negotiated as %s", name, r)
		}
	}
	if r := Handshake.Negotiate("2026-07-28"); r != newest {
		t.Errorf("a stateless revision is negotiated as %s", r)
	}
	if r := Stateless.Newest(); r.String() != "2026-07-28" || r.Era() != Stateless || len(Stateless.Revisions()) != 1 {
		t.Errorf("stateless: %s of %v", r, Stateless.Names())
	}
	if r, ok := Stateless.Lookup("2026-07-28"); !ok || r != Stateless.Newest() {
		t.Errorf("2026-07-28 is found as %s", r)
	}
	if _, ok := Handshake.Lookup("2026-07-28"); ok {
		t.Error("2026-07-28 is of two eras")
	}
	var zero Revision
	if !zero.IsZero() || zero.String() != "" || zero.Era() != 0 || zero.Has(TextContent) || len(zero.Methods()) != 0 || len(zero.Codes()) != 0 {
		t.Errorf("the zero revision is %+v", zero.row())
	}
}

// TestCapabilities checks which capability the other party must declare for a request.
func TestCapabilities(t *testing.T) {
	for _, want := range []struct {
		from             Party
		name, capability string
		in               string // the revisions with that capability
	}{
		{Server, MethodCreateMessage, "sampling", "2025-11-25 2025-06-18 2025-03-26 2024-11-05"},
		{Server, MethodElicit, "elicitation", "2025-11-25 2025-06-18"},
		{Server, MethodRootsList, "roots", "2025-11-25 2025-06-18 2025-03-26 2024-11-05"},
		{Server, MethodTasksList, "tasks", "2025-11-25"},
		{Client, MethodComplete, "completions", "2025-11-25 2025-06-18 2025-03-26"},
		{Client, MethodSetLevel, "logging", "2025-11-25 2025-06-18 2025-03-26 2024-11-05"},
		{Client, MethodPing, "", "2025-11-25 2025-06-18 2025-03-26 2024-11-05"},
	} {
		if m, ok := FindMethod(want.from, want.name); !ok || m.Capability != want.capability || m.Kind != Request {
			t.Errorf("%s: %+v", want.name, m)
		}
		var in []string
		for _, r := range Handshake.Revisions() {
			if m, ok := r.Method(want.from, want.name); ok && m.Capability == want.capability {
				in = append(in, r.String())
			}
		}
		if got := strings.Join(in, " "); got != want.in {
			t.Errorf("%s needs %q in %s, want %s", want.name, want.capability, got, want.in)
		}
	}
	if m, ok := FindMethod(Server, MethodInitialize); ok {
		t.Errorf("a server sends %+v", m)
	}
	if m, ok := FindMethod(Client, "tools/none"); ok {
		t.Errorf("found %+v", m)
	}
}

func TestContentFeature(t *testing.T) {
	old, _ := Lookup("2024-11-05")
	for blockType, inOld := range map[string]bool{"text": true, "image": true, "resource": true, "audio": false, "resource_link": false} {
		f, ok := ContentFeature(blockType)
		if !ok || old.Has(f) != inOld || !Handshake.Newest().Has(f) {
			t.Errorf("%s: found %t, in %s %t", blockType, ok, old, old.Has(f))
		}
	}
	if _, ok := ContentFeature("tool_use"); ok {
		t.Error("tool_use is for messages of sampling only")
	}
}

// TestNoAllocations checks that looking up a feature, which happens for each message,
// does not allocate.
func TestNoAllocations(t *testing.T) {
	r := Handshake.Newest()
	if n := testing.AllocsPerRun(100, func() {
		_ = r.Has(Batches)
		_, _ = Lookup(r.String())
		_, _ = FindMethod(Server, MethodElicit)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
