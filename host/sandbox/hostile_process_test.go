package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// What the process looks like from outside. Linux tells in /proc; elsewhere
// everything here is not known, and the tests that need it are skipped.

// statusOf is a size in /proc/self/status, in bytes.
func statusOf(field string) (uint64, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// residentMemory is the memory of the process that is in RAM.
func residentMemory() (uint64, bool) { return statusOf("VmRSS") }

// peakMemory is the most of it since resetPeak.
func peakMemory() (uint64, bool) { return statusOf("VmHWM") }

// resetPeak forgets the peak so far and gives the memory there is.
func resetPeak() (uint64, bool) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, false
	}
	return residentMemory()
}

// mappings is how many mappings the process has.
func mappings() (int, bool) {
	maps, err := os.ReadFile("/proc/self/maps")
	return bytes.Count(maps, []byte("\n")), err == nil
}

// descriptors is how many files the process has open.
func descriptors() (int, bool) {
	open, err := os.ReadDir("/proc/self/fd")
	return len(open), err == nil
}
