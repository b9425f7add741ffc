package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// history holds the lines that were typed, the newest last. They are kept in a file
// that only the user can read.
type history struct {
	file  string
	lines []string
	err   error // of the last write; the lines are kept in memory nevertheless
}

var _ term.History = (*history)(nil)

const (
	historyName  = "repl_history"
	historyLines = 1000
	historyBytes = 4 << 20 // of a file that is read
)

// openHistory reads the history in dir, which it creates if necessary.
func openHistory(dir string) (*history, error) {
	if _, err := owner.Check(dir); err != nil {
		return nil, fmt.Errorf("repl: history: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("repl: history: %w", err)
	}
	h := &history{file: filepath.Join(dir, historyName)}
	f, err := regular.Open(h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("repl: history: %w", err)
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil { // of a long file, only the end
		_, err = f.Seek(max(0, end-historyBytes), io.SeekStart)
		if err != nil {
			return nil, fmt.Errorf("repl: history: %w", err)
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, historyBytes))
	if err != nil {
		return nil, fmt.Errorf("repl: history: %w", err)
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	all = slices.DeleteFunc(all, func(line string) bool { return line == "" })
	h.lines = all[max(0, len(all)-historyLines):]
	if len(all) > 2*historyLines {
		h.err = h.write(os.O_TRUNC, strings.Join(h.lines, "\n")+"\n")
	}
	return h, nil
}

// write creates the file if necessary.
func (h *history) write(how int, text string) error {
	f, err := regular.OpenFile(h.file, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Add implements term.History.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > historyLines {
		h.lines = h.lines[1:]
	}
	h.err = h.write(os.O_APPEND, line+"\n")
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History: 0 is the last line.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
