package units

import (
	"math"
	"testing"
	"time"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		in   string
		want uint64
		bad  bool
	}{
		{in: "0", want: 0},
		{in: "123", want: 123},
		{in: "5B", want: 5},
		{in: "1kb", want: 1 << 10},
		{in: "128MB", want: 128 << 20},
		{in: "128MiB", want: 128 << 20},
		{in: "128 mib", want: 128 << 20},
		{in: "1GB", want: 1 << 30},
		{in: "4GiB", want: 4 << 30},
		{in: "99999999999999999999", want: math.MaxUint64},
		{in: "18446744073709551615GB", want: math.MaxUint64},
		{in: "", bad: true},
		{in: "MB", bad: true},
		{in: "-1", bad: true},
		{in: "1.5GB", bad: true},
		{in: "1TB", bad: true},
		{in: "1 2", bad: true},
		{in: "12MB ", bad: true},
	}
	for _, test := range tests {
		got, err := ParseSize(test.in)
		if (err != nil) != test.bad || got != test.want {
			t.Errorf("ParseSize(%q) = %d, %v", test.in, got, err)
		}
	}
}

func TestFormat(t *testing.T) {
	sizes := map[uint64]string{0: "0 bytes", 1000: "1000 bytes", 1 << 10: "1KiB", 3 << 20: "3MiB", 4 << 30: "4GiB", 1<<30 + 1<<20: "1025MiB"}
	for n, want := range sizes {
		if got := FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
	durations := map[time.Duration]string{
		0: "0s", time.Second: "1s", 10 * time.Minute: "10m", time.Hour: "1h", 10 * time.Hour: "10h",
		time.Hour + time.Second: "1h0m1s", 90 * time.Second: "1m30s", 20 * time.Minute: "20m",
	}
	for d, want := range durations {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"30s": 30 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond, "-1s": -time.Second} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"30":   `has no unit (write "30s", or "30ms" for milliseconds)`,
		"fast": `is not a duration (write "30s", "1m30s" or "500ms")`,
		"":     `is not a duration (write "30s", "1m30s" or "500ms")`,
	} {
		if got, err := ParseDuration(in); err == nil || err.Error() != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
}
