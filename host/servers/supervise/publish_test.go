package supervise

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestApplyDoesNotWaitForCatalog checks that an upstream can be replaced, and that other upstreams
// are found, while a list of the replaced upstream is set in the catalog.
func TestApplyDoesNotWaitForCatalog(t *testing.T) {
	t.Parallel()
	replaced, _ := server(t, "replaced", mcptest.ServerOptions{})
	other, _ := server(t, "other", mcptest.ServerOptions{})
	r := start(t, configOf(t), ManyClients)
	setting, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	var blocked atomic.Bool
	r.lists.setting = func(server string) {
		if server == "replaced" && blocked.CompareAndSwap(false, true) {
			close(setting)
			<-released
		}
	}
	if !r.Apply(configOf(t, replaced, other)) {
		t.Fatal("not applied")
	}
	<-setting
	replaced.Timeout += time.Second
	await(t, "Apply", func() {
		if !r.Apply(configOf(t, replaced, other)) {
			t.Error("not applied")
		}
	})
	await(t, "finding an upstream", func() {
		if _, ok := r.For(nil, "other"); !ok {
			t.Error("no upstream")
		}
	})
	release()
	if c, ok := r.For(nil, "replaced"); !ok {
		t.Error("no upstream")
	} else if err := c.Ready(bounded(t)); err != nil {
		t.Error(err)
	}
}

// TestRetiredUpstreamPublishesNothing checks that a list of a retired upstream cannot overwrite a
// list of the replacement.
func TestRetiredUpstreamPublishesNothing(t *testing.T) {
	t.Parallel()
	u, _ := server(t, "u", mcptest.ServerOptions{})
	r := start(t, configOf(t), ManyClients)
	retired, replacement := newManaged(&r.env, &u, nil, r.client), newManaged(&r.env, &u, nil, r.client)
	var order []string // guarded by the lock held by publish
	setting, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		retired.publish(func() {
			close(setting)
			<-released
			order = append(order, "retired")
		})
	})
	<-setting
	await(t, "retire", func() { retired.retire(nil) })
	publishing.Go(func() {
		replacement.publish(func() { order = append(order, "replacement") })
	})
	release()
	publishing.Wait()
	retired.publish(func() { t.Error("a list was set after the upstream was retired") })
	if want := []string{"retired", "replacement"}; !slices.Equal(order, want) {
		t.Errorf("set %q, want %q", order, want)
	}
}
