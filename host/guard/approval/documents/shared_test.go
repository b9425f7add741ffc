package documents

import (
	"log/slog"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func place(t *testing.T, link *memorytest.Link) *Shared {
	p := InFleet(Options{Store: link.MustOpen(t), ID: store.NewID().String(), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(p.Close)
	return p
}

// TestChangedMeanwhile changes a document in one replica after another has read it, and before the
// other one writes, removes or uses it.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	name := Name{Queue, "one"}
	for verb, change := range map[string]func(Documents, string) error{
		"write":  func(d Documents, _ string) error { return d.Write(name, "slow, once more") },
		"remove": func(d Documents, _ string) error { return d.Remove(name) },
		"use":    func(d Documents, _ string) error { return d.Use(name) },
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			link := memorytest.New(t)
			slow, fast := place(t, link), place(t, link)
			write := func(p *Shared, text string) error {
				return p.Change(t.Context(), func(d Documents) error { return d.Write(name, text) })
			}
			if err := write(slow, "slow"); err != nil {
				t.Fatal(err)
			}
			var read []string
			err := slow.Change(t.Context(), func(d Documents) error {
				var text string
				if err := d.Read(name, &text); err != nil {
					return err
				}
				read = append(read, text)
				if len(read) == 1 {
					if err := write(fast, "fast"); err != nil {
						return err
					}
				}
				return change(d, text)
			})
			if err != nil {
				t.Error(err)
			}
			if len(read) != 2 || read[0] != "slow" || read[1] != "fast" {
				t.Errorf("read %q; a change must begin again with the text that was written meanwhile", read)
			}
		})
	}
}
