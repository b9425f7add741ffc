package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestRunsCancelled checks that what was read until Ctrl-C is not shown as if it were all.
func TestRunsCancelled(t *testing.T) {
	ended := errors.New("ended")
	for _, args := range []string{"stats", "stats --json", "stats --proxied", "list", "list --json", "list --sort took --json", "list --proxied", "diff a b"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ended)
		var out bytes.Buffer
		cmd := runsCommand()
		cmd.SetArgs(append(strings.Fields(args), "--dir", t.TempDir()))
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(ctx); !errors.Is(err, ended) || out.Len() > 0 {
			t.Errorf("runs %s: error %v, output %q", args, err, &out)
		}
	}
}

// TestDiffResult checks the exit codes of runs diff.
func TestDiffResult(t *testing.T) {
	for _, tt := range []struct {
		same bool
		err  error
		want int
	}{{true, nil, 0}, {false, nil, 1}, {false, errors.New("no such run"), 2}, {true, cli.Failed(nil), 2}, {false, cli.Usage(errors.New("--dir")), 2}} {
		var exit *cli.ExitError
		if err := diffResult(t.Context(), tt.same, tt.err); (err == nil) != (tt.want == 0) || err != nil && (!errors.As(err, &exit) || exit.Code != tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestStatsOfDialogues checks that a run which another continues does not count, also if the
// flags do not select that other.
func TestStatsOfDialogues(t *testing.T) {
	dir, began := t.TempDir(), time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	id := func(at time.Time) string {
		ms := fmt.Sprintf("%012x", at.UnixMilli())
		return ms[:8] + "-" + ms[8:] + "-7000-8000-000000000001"
	}
	first := journal.Record{ID: id(began), Done: true, Outcome: journal.Outcome{Asks: true, Result: []byte("1")}}
	first.Start, first.Definition.Name = began, "ask"
	second := journal.Record{ID: id(began.Add(time.Hour)), Done: true, Outcome: journal.Outcome{Result: []byte("2")}}
	second.Start, second.Definition.Name, second.Continues = began.Add(time.Hour), "ask", first.ID
	var file bytes.Buffer
	if err := errors.Join(journal.Encode(&file, first), journal.Encode(&file, second),
		os.WriteFile(filepath.Join(dir, "journal-2026-11-21.jsonl"), file.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                             `"runs": 1,`,
		"--outcome ok":                 `"runs": 1,`,
		"--outcome asks":               "[]\n",
		"--server other":               "[]\n",
		"--until 2026-11-21T10:30:00Z": "[]\n",
		"--since 2026-11-21T10:30:00Z": `"runs": 1,`,
	} {
		var out bytes.Buffer
		cmd := runsCommand()
		cmd.SetArgs(append(strings.Fields("stats --json "+args), "--dir", dir))
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", args, err, &out)
		}
	}
}
