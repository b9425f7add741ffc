package servers

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// lists returns a function for Options.OnList, and a channel that gets each list as
// "surface [keys] meta".
func lists(t *testing.T) (chan string, func(List)) {
	c := make(chan string, 20)
	return c, func(l List) {
		if l.Items == nil {
			t.Errorf("%s: nil for an empty list", l.Surface)
		}
		c <- fmt.Sprintf("%s %v %s", l.Surface, keys(l.Surface, l.Items), l.Meta)
	}
}

func TestSurfaces(t *testing.T) {
	t.Parallel()
	const resources, templates = `resources [file:///a file:///b] {"k":2,"first":1e400,"second":[]}`, "resourceTemplates [file:///{x}] "
	const prompts = `prompts [p0] { "n" : 9007199254740993 }`
	for _, tt := range []struct {
		mode string
		want []string
		logs string
	}{
		{"surfaces", []string{"tools [a b] ", resources, templates, prompts}, "second item with the same uri was left out"},
		{"surfaces", []string{"tools [a b] ", resources, templates, prompts}, "item without a uri was left out"},
		{"refuses templates", []string{"tools [a b] ", resources, "resourceTemplates [] ", prompts}, ""},
		{"resources fail", []string{"tools [a b] ", templates, prompts}, "server refused resources/list: no disk (code -32603)"},
		{"ok", []string{"tools [a b] ", "resources [] ", "resourceTemplates [] ", "prompts [] "}, ""},
		{"no tools", []string{"tools [] ", "resources [] ", "resourceTemplates [] ", "prompts [] "}, ""},
	} {
		listed, onList := lists(t)
		f := launchWith(t, here(tt.mode), Options{OnList: onList}, fastTimings)
		<-f.Started()
		if s := f.Status(); s.State != Ready {
			t.Fatalf("%s: status %+v", tt.mode, s)
		}
		close(listed) // all lists come before Started
		var got []string
		for l := range listed {
			got = append(got, l)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q", tt.mode, got)
		}
		if !strings.Contains(f.log.String(), tt.logs) {
			t.Errorf("%s: log %s", tt.mode, f.log.String())
		}
		f.stop(t)
	}
}

// TestListThatNeverComes checks that a server that does not answer the request for a list is used
// without it, that its other lists are read again meanwhile, and that the list is used once it
// comes, or its request fails.
func TestListThatNeverComes(t *testing.T) {
	t.Parallel()
	for _, comes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			listed, onList := lists(t)
			quick := fastTimings
			quick.patience = 3 * time.Second
			begun := time.Now()
			f := launchWith(t, here("resources hang"), Options{OnList: onList}, quick)
			<-f.Started()
			if st, took := f.Status(), time.Since(begun); st.State != Ready || st.Tools != 2 || st.Prompts != 1 || took != quick.patience {
				t.Errorf("after %v: %+v", took, st)
			}
			f.call(t, "change once")
			f.call(t, "more prompts")
			for _, want := range []string{"tools [a b] ", "resourceTemplates ", "prompts [p0] ", "tools [a b] ", "prompts [p0 p1] "} {
				if got := <-listed; !strings.HasPrefix(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
			if comes {
				f.call(t, "answer resources")
				if got := <-listed; got != "resources [file:///late] " {
					t.Error(got)
				}
				return
			}
			time.Sleep(f.spec.Timeout)
			synctest.Wait()
			if st := f.Status(); st.State != Ready || !strings.Contains(st.Err, "no answer to resources/list") {
				t.Errorf("status %+v", st)
			}
			f.call(t, "echo")
		})
	}
}

// TestListsAreReadSideBySide checks that a server that answers no request for a list before it has
// got all of them can be used, and that it gets them in the same order each time.
func TestListsAreReadSideBySide(t *testing.T) {
	t.Parallel()
	for range 20 {
		f := launch(t, here("lists together"))
		<-f.Started()
		if s := f.Status(); s.State != Ready || s.Tools != 2 || s.Resources != 2 || s.Templates != 1 || s.Prompts != 1 {
			t.Fatalf("status %+v", s)
		}
		if got := f.call(t, "first lists"); got != `"tools/list resources/list resources/templates/list prompts/list"` {
			t.Error(got)
		}
		f.stop(t)
	}
}

func TestOnlyTheChangedListIsReadAgain(t *testing.T) {
	t.Parallel()
	listed, onList := lists(t)
	f := launchWith(t, here("surfaces"), Options{OnList: onList}, fastTimings)
	<-f.Started()
	for range 4 {
		<-listed
	}
	f.call(t, "more prompts")
	if got := <-f.notes; got != "notifications/prompts/list_changed" {
		t.Error(got)
	}
	if got := <-listed; !strings.HasPrefix(got, "prompts [p0 p1]") {
		t.Error(got)
	}
	if s := f.Status(); s.Prompts != 2 || s.Resources != 2 || s.Templates != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestMetaIsBounded(t *testing.T) {
	t.Parallel()
	var log mcptest.Buffer
	c := listing{surface: wire.Tools, log: slog.New(slog.NewTextHandler(&log, nil)), keys: make(map[string]bool)}
	big := `{"big":"` + strings.Repeat("x", maxMeta) + `"}`
	for _, meta := range []string{big, `{"more":1}`, `[]`} {
		if _, err := c.add([]byte(`{"tools":[],"_meta":` + meta + `}`)); err != nil {
			t.Error(err)
		}
	}
	if string(c.meta) != big || strings.Count(log.String(), "too large") != 1 { // the _meta of a single page may be as large as the list
		t.Errorf("%d bytes, log %s", len(c.meta), log.String())
	}
	if c.memory() < int64(len(big)) {
		t.Errorf("%d bytes are counted", c.memory())
	}
	c = listing{surface: wire.Tools, most: maxMeta, log: slog.New(slog.DiscardHandler), keys: make(map[string]bool)}
	if _, err := c.add([]byte(`{"tools":[],"_meta":` + big + `}`)); err == nil || err.Error() != `upstream "": its list of tools is larger than 64KiB (raise max_list)` {
		t.Error(err)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ meta, more, want string }{
		{"", `{ "a" : 1 }`, `{ "a" : 1 }`},
		{`{"a":1,"b":{"c":1}}`, `{"z":1,"b":{"d":1.0},"\u0061":2}`, `{"a":2,"b":{"d":1.0},"z":1}`},
		{`{}`, `{}`, `{}`},
	} {
		var meta []byte
		if tt.meta != "" {
			meta = []byte(tt.meta)
		}
		if got := string(merge(meta, []byte(tt.more))); got != tt.want {
			t.Errorf("%s + %s: %s", tt.meta, tt.more, got)
		}
	}
}
