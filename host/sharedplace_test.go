package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/store/foldertest"
)

// contentOf returns everything that is kept in a place, as its operator sees it, and of how many
// objects; ready says that there is a session, and that there are the records of runs.
func contentOf(t *testing.T, place fleettest.Place) (all []byte, objects int, ready bool) {
	t.Helper()
	link, is := foldertest.Find(place.URL())
	if !is {
		all, objects = natsBytes(t, place.URL())
		return all, objects, bytes.Contains(all, []byte(".doc."+sessions.Collection+".")) && bytes.Count(all, []byte(".log.")) > 2
	}
	all, objects = folderBytes(t, link.Dir())
	return all, objects, bytes.Contains(all, []byte("documents/"+sessions.Collection+"/")) && bytes.Count(all, []byte("journal/positions/")) > 2
}

// folderBytes returns everything that is in a folder: paths, contents, and the events in the lines
// of the journal.
func folderBytes(t *testing.T, dir string) (all []byte, objects int) {
	t.Helper()
	var text bytes.Buffer
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil // it was replaced
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		objects++
		text.WriteString(filepath.ToSlash(relative) + "\n")
		if filepath.Ext(name) != ".jsonl" {
			text.Write(append(data, '\n'))
			return nil
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); { // of events, as files writes those that it cannot read
			var event struct {
				T, Run string
				Base64 []byte
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.T != "data" {
				text.Write(append(lines.Bytes(), '\n'))
				continue
			}
			text.WriteString(event.Run + "\n")
			text.Write(append(event.Base64, '\n'))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes(), objects
}
