package durable_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/store/foldertest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// begin starts a process that makes a run, and waits until its server has got some calls. The
// process says how the run ended when wait is called.
func begin(t *testing.T, dir, point string, calls int, ttl time.Duration) (wait func() string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, dir, "steps", `{"of":"0"}`, point)
	cmd.Env = append(os.Environ(), roleEnv+"=proxy", ttlEnv+"="+ttl.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLines(t, dir, calls)
	return func() string {
		_ = cmd.Wait()
		return stderr.String()
	}
}

// answer lets the call be answered at which a process that was begun with "hold N" waits.
func answer(t *testing.T, dir string) {
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitLines waits until the server has got that many calls.
func awaitLines(t *testing.T, dir string, n int) {
	for deadline := time.Now().Add(testenv.Deadline(time.Minute)); ; time.Sleep(5 * time.Millisecond) {
		data, _ := os.ReadFile(filepath.Join(dir, "count"))
		if bytes.Count(data, []byte("\n")) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server got %q", data)
		}
	}
}

// TestStoreAway takes the store away in the middle of a call, with -long for longer than the lease lasts.
// The run waits before its next call, and then goes on where it is: nobody else could take it.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	second := place.Another(t)
	dir := replica(t, place.URL(), "")
	other := replica(t, second.URL(), filepath.Join(dir, "count"))
	const ttl = 5 * time.Second
	stop, _ := goOn(t, other, ttl)
	defer stop()
	wait := begin(t, dir, "hold 1", 1, ttl)
	place.Cut(true)
	second.Cut(true)
	answer(t, dir)
	if link, ok := foldertest.Find(place.URL()); ok {
		link.AwaitRefused(t, "Append")
	} else {
		time.Sleep(testenv.Quiet(ttl + ttl/10))
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "count")); bytes.Count(data, []byte("\n")) != 1 {
		t.Errorf("the server got %q while the store was away", data)
	}
	place.Cut(false)
	second.Cut(false)
	said := wait()
	cfg := configuration(dir, map[string]string{})
	awaitEnd(t, cfg)
	compareKilled(t, dir, []killCase{{"steps", "store away", true, "", "ok [1,2,3]", "add 1, put 2, add 3"}}, cfg, configuration(other, map[string]string{}))
	if !strings.Contains(said, "[1,2,3]") {
		t.Errorf("the client gets %s", said)
	}
}

// TestCutOff cuts the owner of a run off from the store, but not from its server. Another replica
// goes on with the run, and the owner makes no further call.
func TestCutOff(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	dir := replica(t, place.URL(), "")
	other := replica(t, place.Another(t).URL(), filepath.Join(dir, "count"))
	stop, _ := goOn(t, other, proxyTTL)
	defer stop()
	wait := begin(t, dir, "hold 2", 2, proxyTTL) // put 2, which can be repeated
	place.Cut(true)
	answer(t, dir)
	cfg := configuration(other, map[string]string{})
	awaitEnd(t, cfg)
	place.Cut(false)
	if said := wait(); !strings.Contains(said, "another process goes on with the run") {
		t.Errorf("the owner that was cut off says %s", said)
	}
	compareKilled(t, dir, []killCase{{"steps", "cut off", true, "", "ok [1,2,3]", "add 1, put 2, put 2, add 3"}}, cfg)
}
