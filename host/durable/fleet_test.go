package durable_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store/fleettest"
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

// fleetPoints are the cases of TestKillFleet without -long.
var fleetPoints = []string{"steps after 2", "steps answer 1", "steps after 3", "steps answer 2", "steps after 8", "nested answer 13", "fails answer 5"}

// TestKillFleet is TestKill with the store of a fleet: replicas that share no other folder go on with the runs
// of those that were killed.
func TestKillFleet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process that was killed cannot be told from one that failed")
	}
	t.Parallel()
	url := fleettest.New(t, *long).URL()
	dir := replica(t, url, "")
	cases := killCases()
	if !*long {
		cases = slices.DeleteFunc(cases, func(c killCase) bool { return !slices.Contains(fleetPoints, c.tool+" "+c.point) })
	}
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
