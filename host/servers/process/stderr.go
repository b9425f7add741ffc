package process

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	maxStderrLine = 2048 // logged bytes of a line
	tailLines     = 10   // the number of kept last lines
	maxTailLine   = 180  // kept bytes of each last line
)

// stderrLog logs the stderr of a process, line by line, and keeps the last lines.
type stderrLog struct {
	log    *slog.Logger
	charge func(bytes int, exited <-chan struct{}) // nil: stderr is not limited
	exited <-chan struct{}

	mu   sync.Mutex
	last []string
}

// copy reads r to the end. copy cuts lines at maxStderrLine and makes them printable. copy reads no
// faster than charge allows.
func (s *stderrLog) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxStderrLine)
	for {
		part, err := in.ReadSlice('\n')
		s.spend(len(part))
		line := strings.TrimRight(strings.ToValidUTF8(string(part), "\uFFFD"), "\r\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			part, err = in.ReadSlice('\n')
			s.spend(len(part))
			if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
				line += "..."
			}
		}
		if line = display.Text(line); line != "" {
			s.log.Info("stderr", "line", line)
			s.keep(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *stderrLog) spend(bytes int) {
	if s.charge != nil {
		s.charge(bytes, s.exited)
	}
}

func (s *stderrLog) keep(line string) {
	if len(line) > maxTailLine {
		line = strings.ToValidUTF8(line[:maxTailLine], "") + "..."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, line)
	if len(s.last) > tailLines {
		s.last = append(s.last[:0], s.last[1:]...)
	}
}

func (s *stderrLog) tail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.last...)
}
