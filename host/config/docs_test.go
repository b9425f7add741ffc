package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
)

const reference = "../../docs/configuration.md"

// example is a fenced block of TOML or JSON.
var example = regexp.MustCompile("(?ms)^```(toml|json)\n(.*?)^```$")

// TestExamplesOfReference checks that every example of docs/configuration.md loads.
func TestExamplesOfReference(t *testing.T) {
	text := readReference(t)
	examples := example.FindAllStringSubmatchIndex(text, -1)
	if len(examples) < 5 {
		t.Fatalf("only %d examples found in %s", len(examples), reference)
	}
	for _, at := range examples {
		format, body := text[at[2]:at[3]], text[at[4]:at[5]]
		line := 1 + strings.Count(text[:at[4]], "\n")
		t.Run(fmt.Sprintf("line %d", line), func(t *testing.T) {
			opts := testOptions(write(t, filepath.Join(t.TempDir(), "config."+format), body), t.TempDir(), nil)
			opts.Getenv = func(key string) (string, bool) { // all are set except ours
				if strings.HasPrefix(key, "MCP_METATOOL_") {
					return "", false
				}
				return "value-of-" + key, true
			}
			c, err := Load(opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Upstreams) == 0 {
				t.Error("no upstream in it")
			}
		})
	}
}

// TestReferenceHasEveryKey gives each table an unknown key to get the list of its known
// keys, and looks them up in the reference.
func TestReferenceHasEveryKey(t *testing.T) {
	const unknown = "this-is-near-to-nothing"
	text := readReference(t)
	files := map[string]string{
		"c.toml": "X = 1\n[execution]\nX = 1\n[store]\nX = 1\n[http]\nX = 1\n[journal]\nX = 1\n[builtins]\nX = 1\n[plan]\nX = 1\n[telemetry]\nX = 1\n[approval]\nX = 1\n[policy]\nX = 1\n[[policy.rule]]\nname = \"x\"\naction = \"ask\"\nX = 1\n" +
			"[upstream.x]\ncommand = \"x\"\nX = 1\n[upstream.y]\nurl = \"http://x\"\noauth = { X = 1 }\n[upstream.z]\ncommand = \"x\"\nprobe = { call = \"x\", X = 1 }\n",
		"c.json": `{"X": 1, "execution": {"X": 1}, "store": {"X": 1}, "http": {"X": 1}, "journal": {"X": 1}, "builtins": {"X": 1}, "plan": {"X": 1}, "telemetry": {"X": 1}, "approval": {"X": 1}, "policy": {"X": 1, "rule": [{"name": "x", "action": "ask", "X": 1}]}, "upstreamServers": [
			{"name": "x", "command": "x", "X": 1}, {"name": "y", "url": "http://x", "oauth": {"X": 1}},
			{"name": "z", "command": "x", "probe": {"call": "x", "X": 1}}]}`,
	}
	known := regexp.MustCompile(`\(known here: (.*)\)`)
	for name, body := range files {
		file := write(t, filepath.Join(t.TempDir(), name), strings.ReplaceAll(body, "X", unknown))
		_, err := Load(testOptions(file, t.TempDir(), nil))
		var all interface{ Unwrap() []error }
		if !errors.As(err, &all) || len(all.Unwrap()) != 14 {
			t.Fatalf("%s: want fourteen unknown keys, got: %v", name, err)
		}
		for _, problem := range all.Unwrap() {
			match := known.FindStringSubmatch(problem.Error())
			if match == nil {
				t.Fatalf("no list of keys in %q", problem)
			}
			for _, key := range strings.Split(match[1], ", ") {
				if !regexp.MustCompile(`["\x60.\[]` + key + `["\x60.\]]`).MatchString(text) {
					t.Errorf("%s: key %q is not in %s", name, key, reference)
				}
			}
		}
	}
	for _, variable := range []string{EnvConfig, EnvDir, EnvTimeout, EnvDebug} {
		if !strings.Contains(text, "| `"+variable+"` |") {
			t.Errorf("%s is not in %s", variable, reference)
		}
	}
}

// TestReferenceHasTheLimits checks that the tables have the key, the default and the
// bounds of each limit.
func TestReferenceHasTheLimits(t *testing.T) {
	text := readReference(t)
	for _, l := range limits.All {
		if l.Key == "" {
			continue
		}
		write := func(value int64) string { return l.Format(value) }
		switch l.Unit {
		case limits.Bytes:
			units := strings.NewReplacer("KiB", " KB", "MiB", " MB", "GiB", " GB")
			write = func(value int64) string { return units.Replace(l.Format(value)) }
		case limits.Duration:
			write = func(value int64) string { return "`" + strconv.Quote(l.Format(value)) + "`" }
		}
		value := l.Derived
		if value == "" {
			value = "`" + strings.Trim(write(l.Default), "`") + "`"
			if l.Unit == limits.Bytes {
				value = "`" + strconv.Quote(strings.ReplaceAll(write(l.Default), " ", "")) + "`"
			}
		}
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + l.Key + "`[^|]*\\| " + regexp.QuoteMeta(value) + " \\|.*" +
			regexp.QuoteMeta(write(l.Least)+" to "+write(l.Most)) + ".*$")
		if !row.MatchString(text) {
			t.Errorf("%s: no row for %s matches %s", reference, l.Setting(), row)
		}
	}
}

// TestReferenceHasTheDefaults compares the other defaults in the tables with
// those in the code.
func TestReferenceHasTheDefaults(t *testing.T) {
	text := readReference(t)
	c := newConfig()
	for _, row := range []struct{ key, value string }{
		{"restart", `"always"`},
		{"start", `"eager"`},
		{"isolation", `"shared"`},
		{"protocol", `"auto"`},
		{"listen", strconv.Quote(c.HTTP.Listen)},
		{"path", strconv.Quote(c.HTTP.Path)},
		{"test_tool", fmt.Sprint(c.Builtins.On("test_tool"))},
		{"runs", fmt.Sprint(c.Builtins.On("runs"))},
		{"enabled", fmt.Sprint(c.Journal.Enabled)},
		{"required", fmt.Sprint(c.Journal.Required)},
		{"sync", strconv.Quote(string(c.Journal.Sync))},
		{"proxied", strconv.Quote(string(c.Journal.Proxied))},
		{"tool_calls", strconv.Quote(string(c.Execution.ToolCalls))},
	} {
		if want := fmt.Sprintf("| `%s` | `%s` |", row.key, row.value); !strings.Contains(text, want) {
			t.Errorf("no row %s in %s", want, reference)
		}
	}
}

func readReference(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}
