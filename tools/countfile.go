package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Executions of shared tools are counted in a separate file for this machine. Otherwise, each
// execution would change the tool on every machine.
const (
	countsFile    = ".counts.json"
	maxCountsFile = 16 << 20
)

// countFile is the content of the count file.
type countFile struct {
	info fs.FileInfo // when the file was read
	all  map[string]executions
}

// countEntry is the form of executions in the file.
type countEntry struct {
	Executions int64     `json:"executions"`
	Last       time.Time `json:"last"`
}

// readCounts reads the count file if the file has changed. The caller holds files.
func (s *Store) readCounts(root *os.Root) {
	if s.shared == nil {
		return
	}
	info, err := root.Lstat(countsFile)
	if err != nil {
		s.counts = countFile{}
		return
	}
	if old := s.counts.info; old != nil && os.SameFile(old, info) && old.ModTime().Equal(info.ModTime()) && old.Size() == info.Size() {
		return
	}
	counts := countFile{info, map[string]executions{}}
	var read map[string]countEntry
	data, err := regular.ReadIn(context.Background(), root, countsFile, maxCountsFile)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		s.log.Warn("executions of saved tools are not known, and are counted from now on", "file", countsFile, "error", err)
	}
	for name, c := range read {
		if c.Executions > 0 {
			counts.all[name] = executions{c.Executions, c.Last.UTC()}
		}
	}
	s.counts = counts
}

// flushBeside adds executions to the count file. Executions of deleted tools are dropped.
func (s *Store) flushBeside(root *os.Root, batch map[string]executions) error {
	s.files.Lock()
	defer s.files.Unlock()
	s.readCounts(root)
	next := map[string]countEntry{}
	for name := range s.cache {
		sum := s.counts.all[name]
		x := batch[name]
		m := Metadata{ExecutionCount: sum.n, LastExecuted: sum.last}
		x.addTo(&m)
		if m.ExecutionCount > 0 {
			next[name] = countEntry{m.ExecutionCount, m.LastExecuted}
		}
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = regular.WriteIn(root, countsFile, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", countsFile, err)
	}
	s.readCounts(root)
	for name, x := range batch {
		s.deduct(name, x)
	}
	return nil
}
