package durable_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
)

// replica makes the folder of another replica of a fleet with a store at url. All of them have the
// same server with tools, which counts their calls.
func replica(t *testing.T, url, count string) (dir string) {
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nats"), []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	if count != "" {
		if err := os.Symlink(count, filepath.Join(dir, "count")); err != nil {
			t.Fatal(err)
		}
	}
	saveScripts(t, dir)
	return dir
}

// TestKillFleet is TestKill with JetStream: replicas that share no other folder go on with the runs
// of those that were killed.
func TestKillFleet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process that was killed cannot be told from one that failed")
	}
	if !*long {
		t.Skip("only with -long: TestCutOff does the same for one case")
	}
	t.Parallel()
	url := fleettest.New(t, true).URL()
	dir := replica(t, url, "")
	cases := killCases()
	killAll(t, dir, cases)
	count := filepath.Join(dir, "count")
	first, second := replica(t, url, count), replica(t, url, count)
	one, _ := goOn(t, first, proxyTTL)
	other, _ := goOn(t, second, proxyTTL)
	cfg := configuration(first, map[string]string{})
	awaitEnd(t, cfg)
	one()
	other()
	// The record of a run that was killed after its end is on the disk of that process.
	compareKilled(t, dir, cases, cfg, configuration(second, map[string]string{}), configuration(dir, map[string]string{}))
}
