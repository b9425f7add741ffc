// Package units parses and formats sizes and durations as people write them, in the
// configuration and in saved tools: "128MB", "30s".
package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the suffixes of sizes, in bytes. "MB" and "MiB" are the same: memory is counted in
// powers of two, like WebAssembly pages, so the specification's "128MB" is the default of 128 MiB.
var sizeUnits = map[string]uint64{
	"": 1, "b": 1,
	"kb": 1 << 10, "kib": 1 << 10,
	"mb": 1 << 20, "mib": 1 << 20,
	"gb": 1 << 30, "gib": 1 << 30,
}

var errSize = errors.New(`is not a size (write "128MB", "1GB" or a number of bytes)`)

// ParseSize parses "128MB", "128 MiB", "1GB" or a plain number of bytes. A size too large for a
// uint64 becomes math.MaxUint64. The error message is meant to follow the parsed text.
func ParseSize(s string) (uint64, error) {
	digits := strings.TrimLeft(s, "0123456789")
	n, err := strconv.ParseUint(s[:len(s)-len(digits)], 10, 64)
	unit, ok := sizeUnits[strings.ToLower(strings.TrimLeft(digits, " "))]
	switch {
	case errors.Is(err, strconv.ErrRange) && ok:
		return math.MaxUint64, nil // exceeds every limit, which the caller reports
	case err != nil || !ok:
		return 0, errSize
	case n > math.MaxUint64/unit:
		return math.MaxUint64, nil
	}
	return n * unit, nil
}

// FormatSize formats a size in the largest unit dividing the size.
func FormatSize(n uint64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// ParseDuration parses "30s" or "1m30s". The error message is meant to follow the parsed text.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, errors.New(`has no unit (write "30s", or "30ms" for milliseconds)`)
	}
	return 0, errors.New(`is not a duration (write "30s", "1m30s" or "500ms")`)
}

// FormatDuration is d.String() without zero parts: 24h, not 24h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
