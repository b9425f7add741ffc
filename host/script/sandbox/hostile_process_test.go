package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Figures about the process, from Linux's /proc. On other systems they are unknown,
// and tests that need them are skipped.

// statusOf returns a size in /proc/self/status, in bytes.
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

// residentMemory returns the memory of the process that is in RAM, in bytes.
func residentMemory() (uint64, bool) { return statusOf("VmRSS") }

// peakMemory returns its peak since resetPeak.
func peakMemory() (uint64, bool) { return statusOf("VmHWM") }

// resetPeak resets the peak and returns the current memory.
func resetPeak() (uint64, bool) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, false
	}
	return residentMemory()
}

// mappings returns how many mappings the process has.
func mappings() (int, bool) {
	maps, err := os.ReadFile("/proc/self/maps")
	return bytes.Count(maps, []byte("\n")), err == nil
}

// descriptors returns how many open files the process has.
func descriptors() (int, bool) {
	open, err := os.ReadDir("/proc/self/fd")
	return len(open), err == nil
}
