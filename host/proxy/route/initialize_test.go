package route

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestInitializeResult(t *testing.T) {
	g := newRig(t, "a", "b")
	g.ups["a"].server = `{"capabilities":{"resources":{"subscribe":false},"x":{"y":1}},"instructions":"do \"a\"","_meta":{"k":1}}`
	g.ups["b"].server = `{"capabilities":{"resources":{"subscribe":true},"tools":{}},"instructions":" ","_meta":{"k":2,"l":3}}`
	w, err := g.router.BeginSession(t.Context(), &fakeSession{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(w.Capabilities), `{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true,"listChanged":true}}`; got != want {
		t.Errorf("capabilities %s", got)
	}
	if got, want := w.Instructions, "ours\n\nInstructions of server \"a\":\ndo \"a\""; got != want {
		t.Errorf("instructions %q", got)
	}
	if got, want := string(w.Meta), `{"l":3,"io.github.mcp-metatool/upstreams":{"a":{"k":1},"b":{"k":2}}}`; got != want {
		t.Errorf("_meta %s", got)
	}
}

func TestInitializeWaitsForHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, "a", "late")
		g.ups["a"].server, g.ups["a"].shake = "", make(chan struct{})
		g.ups["late"].server, g.ups["late"].shake = "", make(chan struct{})
		time.AfterFunc(DefaultHandshakeWait/2, func() { // by the bubble's clock
			g.ups["a"].mu.Lock()
			g.ups["a"].server = `{"capabilities":{"x":{}},"_meta":{"k":1}}`
			g.ups["a"].mu.Unlock()
			close(g.ups["a"].shake)
		})
		begin := time.Now()
		w, err := g.router.BeginSession(t.Context(), &fakeSession{})
		if err != nil || time.Since(begin) != DefaultHandshakeWait {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		want := `{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{}}`
		if got := string(w.Capabilities); got != want {
			t.Errorf("capabilities %s", got)
		}
		if string(w.Meta) != `{"k":1}` {
			t.Errorf("_meta %s", w.Meta)
		}
	})
}

func TestInitializeOfClientThatDisconnects(t *testing.T) {
	g := newRig(t, "a")
	g.ups["a"].server, g.ups["a"].shake = "", make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := g.router.BeginSession(ctx, &fakeSession{}); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	if len(g.router.clients) != 0 {
		t.Error("the session has begun")
	}
}

func TestInstructionsAreBounded(t *testing.T) {
	g := newRig(t, strings.Fields("a b c d e f g h i j k l")...)
	for _, up := range g.ups {
		up.server = `{"capabilities":{},"instructions":"` + strings.Repeat("ü", maxInstructions) + `"}`
	}
	w, err := g.router.BeginSession(t.Context(), &fakeSession{})
	if n := len(w.Instructions); err != nil || n < maxAllInstructions || n > maxAllInstructions+1000 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if strings.ContainsRune(w.Instructions, '\uFFFD') || !strings.HasSuffix(w.Instructions, "ü [cut]") {
		t.Errorf("ends in %q", w.Instructions[len(w.Instructions)-20:])
	}
}
