package pins

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// TestAccept checks that exactly what was found is pinned, that what cannot be pinned is
// returned, and that lists which were empty are pinned, too.
func TestAccept(t *testing.T) {
	settings := Settings{
		Servers: []ServerSettings{{"a", "", Enforce}},
		Secret:  func(d []byte) bool { return bytes.Contains(d, []byte("hunter2")) },
	}
	l := New()
	if err := l.Set("a", Lists{wire.Tools: []byte(`[{"name":"x"},{"name":"secret"},{"name":"gone"}]`)}); err != nil {
		t.Fatal(err)
	}
	offer := Offer{
		Handshake: []byte(`{"serverInfo":{"name":"a"},"instructions":"hunter2"}`),
		Lists: map[wire.Surface][][]byte{wire.Prompts: nil, wire.Tools: {
			[]byte(`{"name":"x","description":"new"}`), []byte(`{"name":"secret","description":"hunter2"}`),
			[]byte(`{"name":"twice","a":1,"a":2}`), []byte(`{"name":"fresh"}`),
		}},
	}
	found := Inspect(l, settings, "a", offer).Findings
	Record(l, "a", offer)
	var left []string
	for _, f := range Accept(l, settings, found) {
		if f.Reason != Unpinnable || f.Err == nil || strings.Contains(f.Text(), "hunter2") {
			t.Error(f.Text())
		}
		left = append(left, f.Target())
	}
	if want := []string{"a", "a.secret", "a.twice"}; !slices.Equal(left, want) {
		t.Errorf("left out: %q, want %q", left, want)
	}
	text, err := l.Encode()
	if err != nil || bytes.Contains(text, []byte("hunter2")) || l.HasItem("a", "gone") || !l.HasItem("a", "fresh") || l.HasItem("a", "twice") {
		t.Errorf("%v: %s", err, text)
	}
	again := Inspect(l, settings, "a", offer)
	if again.Matches != 2 || len(again.Findings) != 3 { // what was left out
		t.Errorf("%d match, %d do not", again.Matches, len(again.Findings))
	}
	offer.Lists[wire.Prompts] = [][]byte{[]byte(`{"name":"p"}`)}
	found = Inspect(l, settings, "a", offer).Findings
	if !slices.ContainsFunc(found, func(f *Finding) bool { return f.Name == "p" && f.Reason == Unknown && f.Pinned() == nil }) {
		t.Error("a prompt of a server that had none when it was accepted is not new")
	}
}

// TestPinnedBesideEachOther checks which of two pinned tools with similar names may be used, if the
// similarity was not accepted: the tool of the first server.
func TestPinnedBesideEachOther(t *testing.T) {
	path := lockPath(t)
	l := New()
	for server, list := range map[string]string{"a": `[{"name":"x","description":""}]`, "b": `[{"name":"X","description":""}]`} {
		if err := l.Set(server, Lists{wire.Tools: []byte(list)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Write(regular.Place{Name: path}); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, path)
	p.want(p.offers("a", "x"))
	p.want(p.offers("b", "X"), "X shadows a.x!")
}

// TestLargeLists checks that a server cannot make the file as large as it likes.
func TestLargeLists(t *testing.T) {
	p := newProxy(t, lockPath(t))
	var tools []string
	for i := range 10 {
		tools = append(tools, fmt.Sprintf("t%d:%s", i, strings.Repeat("x", maxList/8)))
	}
	if got := p.offers("a", tools...); len(got) < 2 || len(got) > 4 || !strings.HasSuffix(got[0], " new!") {
		t.Errorf("%q", got)
	}
}
