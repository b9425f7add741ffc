package journal

import (
	"cmp"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"os"
	"slices"
	"strconv"
	"time"
)

// fileName is the parsed name of a journal file. The files of the first writer are
// named journal-2026-11-21.jsonl, journal-2026-11-21.1.jsonl and so on. Other writers,
// which write at the same time, add their name after the day:
// journal-2026-11-21-w2.jsonl.
type fileName struct {
	day    string // in UTC
	writer string // "" for the first
	part   int    // 0, 1, ...
}

var fileNames = lazyregexp.New(`^journal-(\d{4}-\d{2}-\d{2})(?:-([a-z0-9]+))?(?:\.(\d{1,9}))?\.jsonl$`)

func (n fileName) String() string {
	s := "journal-" + n.day
	if n.writer != "" {
		s += "-" + n.writer
	}
	if n.part > 0 {
		s += "." + strconv.Itoa(n.part)
	}
	return s + ".jsonl"
}

func parseName(name string) (fileName, bool) {
	m := fileNames.FindStringSubmatch(name)
	if m == nil {
		return fileName{}, false
	}
	part, _ := strconv.Atoi(m[3]) // "" is 0
	return fileName{m[1], m[2], part}, true
}

// compareNames orders names by age, the oldest first.
func compareNames(a, b fileName) int {
	return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.writer, b.writer), cmp.Compare(a.part, b.part))
}

// dayOf returns the day in the name of the file with events of time t.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// listFiles returns the journal files in a directory, oldest first. A missing directory has none.
func listFiles(dir string) ([]fileName, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var files []fileName
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok && !e.IsDir() {
			files = append(files, n)
		}
	}
	slices.SortFunc(files, compareNames)
	return files, nil
}
