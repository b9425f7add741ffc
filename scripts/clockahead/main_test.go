package main

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/scripts/overlay"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestEditsFit checks that this release of Go has the places to edit.
func TestEditsFit(t *testing.T) {
	testenv.Program(t, "go")
	if _, err := overlay.Write(t.TempDir(), "overlay", edits, nil); err != nil {
		t.Error(err)
	}
}

// TestClock checks that the clock and the times of files are ahead of the system's
// under scripts/test-later, and not ahead without it.
func TestClock(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("test-later is for Linux")
	}
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	ahead, _ := strconv.ParseInt(os.Getenv(secondsVar), 10, 64) // "" is 0
	const slack = 300                                           // seconds
	for what, arg := range map[string]string{"the clock": "--date=now", "the time of a file": "--reference=" + path} {
		out, err := exec.Command("date", arg, "+%s").Output()
		if err != nil {
			testenv.Lacks(t, "date", "there is no GNU date: %v", err)
		}
		system, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := time.Now()
		if what != "the clock" {
			got = info.ModTime()
		}
		if off := got.Unix() - system - ahead; math.Abs(float64(off)) > slack {
			t.Errorf("%s is %d s ahead of the system's, want %d s", what, got.Unix()-system, ahead)
		}
	}
}
