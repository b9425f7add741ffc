package rewrite

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage be collected rarely: tests make many instances, and keep few.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
