package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
)

// limitsOf returns all limits of a configuration with an upstream that has a probe.
func limitsOf(c *Config) []limitField {
	return slices.Concat(c.limits(), c.Upstreams[0].limits(), c.Upstreams[0].Probe.limits())
}

// fileWith returns a configuration in TOML with one setting, and with an upstream that
// has a probe.
func fileWith(l *limits.Limit, value string) string {
	setting := fmt.Sprintf("%s = %s\n", l.Key, value)
	sections := map[string]string{"": "", "upstream": "[upstream.u]\ncommand = \"x\"\n", "upstream.probe": "[upstream.u.probe]\ncall = \"x\"\n"}
	if _, ok := sections[l.Section]; !ok {
		sections[l.Section] = "[" + l.Section + "]\n"
	}
	sections[l.Section] += setting
	text := sections[""]
	for name, section := range sections {
		if name != "" && name != "upstream" && name != "upstream.probe" {
			text += section
		}
	}
	return text + sections["upstream"] + sections["upstream.probe"]
}

// inTOML returns a value of a limit in TOML.
func inTOML(l *limits.Limit, value int64) string {
	switch l.Unit {
	case limits.Bytes:
		return fmt.Sprint(value)
	case limits.Duration:
		return fmt.Sprintf("%q", fmt.Sprintf("%dns", value))
	}
	return fmt.Sprint(value)
}

// TestLimits checks that every limit with a key has exactly one field, which has the
// default if the key is not set, and that values within the bounds are accepted and
// others are not.
func TestLimits(t *testing.T) {
	load := func(text string) (*Config, error) {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(testOptions(file, t.TempDir(), nil))
	}
	c, err := load(fileWith(&limits.Limit{Section: "execution", Key: "debug"}, "false"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*limits.Limit]bool{}
	fields := map[any]bool{}
	for _, l := range limitsOf(c) {
		if seen[l.Limit] || fields[l.field] {
			t.Errorf("%s, or its field, is there twice", l.Setting())
		}
		seen[l.Limit], fields[l.field] = true, true
		if l.value() != l.Default {
			t.Errorf("%s is %s by default, want %s", l.Setting(), l.Format(l.value()), l.Format(l.Default))
		}
	}
	for _, l := range limits.All {
		if l.Key == "" {
			continue
		}
		if !seen[l] {
			t.Errorf("%s has no field in Config (see limits.go)", l.Setting())
			continue
		}
		for _, value := range []int64{l.Least, l.Most} {
			c, err := load(fileWith(l, inTOML(l, value)))
			// These two are limited by another one.
			if pair := strings.Contains(fmt.Sprint(err), "max_total: is less than") || strings.Contains(fmt.Sprint(err), "is below timeout"); pair {
				continue
			}
			if err != nil {
				t.Errorf("%s = %s: %v", l.Setting(), l.Format(value), err)
				continue
			}
			for _, f := range limitsOf(c) {
				if f.Limit == l && f.value() != value {
					t.Errorf("%s = %s became %s", l.Setting(), l.Format(value), l.Format(f.value()))
				}
			}
		}
		for _, value := range []int64{l.Least - 1, l.Most + 1} {
			_, err := load(fileWith(l, inTOML(l, value)))
			bounds := fmt.Sprintf("is out of bounds: at least %s, at most %s", l.Format(l.Least), l.Format(l.Most))
			if value < 0 && l.Unit == limits.Bytes {
				bounds = "is not a size"
			}
			if err == nil || !strings.Contains(err.Error(), bounds) || !strings.Contains(err.Error(), l.Key) {
				t.Errorf("%s = %s: got %v, want %s", l.Setting(), inTOML(l, value), err, bounds)
			}
		}
	}
}

// TestDescribeHasEveryLimit checks that Describe shows each limit under its key.
func TestDescribeHasEveryLimit(t *testing.T) {
	c := newConfig()
	c.HTTP.configured = true
	var b strings.Builder
	if err := c.Describe(&b); err != nil {
		t.Fatal(err)
	}
	for _, l := range c.limits() {
		value := l.Derived
		if value == "" {
			value = l.Format(l.Default)
		}
		line := func(line string) bool {
			key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			return key == l.Key && strings.TrimSpace(rest) == value
		}
		if !slices.ContainsFunc(strings.Split(b.String(), "\n"), line) {
			t.Errorf("no line with %s and %s in\n%s", l.Key, value, b.String())
		}
	}
}

// TestLowerToDefaults checks that no limit is above its default afterwards.
func TestLowerToDefaults(t *testing.T) {
	c := newConfig()
	for _, l := range c.limits() {
		l.set(l.Most)
	}
	c.Execution.MaxCalls = 3 // below its default
	c.Execution.LowerToDefaults()
	for _, l := range c.limits() {
		want := l.Most
		switch {
		case l.Limit == limits.Calls:
			want = 3
		case l.Section == "execution" && l.Derived == "" && l.Limit != limits.Queue:
			want = l.Default
		}
		if l.value() != want {
			t.Errorf("%s is %s, want %s", l.Setting(), l.Format(l.value()), l.Format(want))
		}
	}
}
