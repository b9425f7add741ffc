package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// TestDeepConfiguration checks that a file of some kilobytes that would take gigabytes to
// decode is refused, with its place.
func TestDeepConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	for _, deep := range []string{"[", "{a=", "a.", "[{a="} {
		text := "debug = true\na = " + strings.Repeat(deep, 50_000)
		if deep == "a." {
			text = "debug = true\n" + strings.Repeat(deep, 50_000) + "a = 1"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(testOptions(file, t.TempDir(), nil))
		var guarded *tomldoc.Error
		var problem *Problem
		if !errors.As(err, &guarded) || !errors.As(err, &problem) || problem.Line != 2 || problem.Column < 100 {
			t.Errorf("%s: %.300v", deep, err)
		}
	}
}
