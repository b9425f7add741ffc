package upstream

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
)

const (
	maxStderrLine = 2048 // bytes of one line that are logged
	keptLines     = 10   // last lines kept for Status
	maxKeptLine   = 180  // bytes of each of them
)

// stderrLog takes what a server writes to stderr to the log, line by line, and
// keeps the last lines.
type stderrLog struct {
	log *slog.Logger
	// allowance is what the server may write; ended is closed when it is gone.
	allowance *allowance
	ended     <-chan struct{}

	mu   sync.Mutex
	last []string
}

// copy reads r to its end. Lines are cut at maxStderrLine; what is no UTF-8 or
// not printable is made so. A server that writes too much is read slowly.
func (s *stderrLog) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxStderrLine)
	for {
		part, err := in.ReadSlice('\n')
		s.allowance.spend(len(part), s.ended, nil)
		line := strings.TrimRight(strings.ToValidUTF8(string(part), "\uFFFD"), "\r\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			part, err = in.ReadSlice('\n')
			s.allowance.spend(len(part), s.ended, nil)
			if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
				line += "..."
			}
		}
		if line = printable(line); line != "" {
			s.log.Info("stderr", "line", line)
			s.keep(line)
		}
		if err != nil {
			return
		}
	}
}

// printable drops control characters, so that a server cannot drive the
// terminal of whoever reads the log or the status.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, line)
}

func (s *stderrLog) keep(line string) {
	if len(line) > maxKeptLine {
		line = strings.ToValidUTF8(line[:maxKeptLine], "") + "..."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, line)
	if len(s.last) > keptLines {
		s.last = append(s.last[:0], s.last[1:]...)
	}
}

func (s *stderrLog) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.last...)
}
