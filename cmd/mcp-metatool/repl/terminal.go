package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// terminal reads lines from the user. All output to the screen must go through the terminal, which
// is in raw mode until close.
type terminal struct {
	*term.Terminal
	in, out  *os.File
	before   *term.State
	keys     *keys
	unwatch  func() bool
	complete func(before string) (add string, choice []string)
	turn     sync.Mutex // of the readers of typed text: for a line, or for an answer
}

const (
	promptFirst = ">>> "
	promptMore  = "... "
)

// takeTerminal puts a terminal into raw mode. Reading ends when ctx does. The history of
// lines is kept in dir.
func takeTerminal(ctx context.Context, in, out *os.File, dir string) (*terminal, error) {
	history, err := openHistory(dir)
	if err != nil {
		return nil, err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("repl: terminal: %w", err)
	}
	k := newKeys()
	t := &terminal{in: in, out: out, before: before, keys: k, unwatch: context.AfterFunc(ctx, k.close)}
	t.Terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, out}, promptFirst)
	t.History = history
	t.AutoCompleteCallback = t.key
	t.SetBracketedPasteMode(true) // TABs in pasted text complete nothing
	go k.pump(in)                 // a blocked read ends with the process
	return t, nil
}

// Screen returns the file that the terminal writes to.
func (t *terminal) Screen() *os.File { return t.out }

// close restores the terminal.
func (t *terminal) close() {
	t.unwatch()
	t.keys.close()
	t.SetBracketedPasteMode(false)
	_ = term.Restore(int(t.in.Fd()), t.before) // the terminal may be closed
}

// readLine reads a line; more says that the line continues an input.
func (t *terminal) readLine(more bool) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		_ = t.SetSize(width, height)
	}
	t.SetPrompt(promptFirst)
	if more {
		t.SetPrompt(promptMore)
	}
	line, err := t.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if t.keys.wasInterrupted() {
		fmt.Fprintln(t, "^C")
		return "", errInterrupted
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(t)
	}
	return line, err
}

// answer shows a prompt and returns the next typed line. Text typed or pasted before the prompt is
// not an answer, but is read later as input. The error is io.EOF at the end of the input, or the
// cause of ctx.
func (t *terminal) answer(ctx context.Context, prompt string) (string, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	t.keys.setAside()
	reader := term.NewTerminal(struct { // without history and completion
		io.Reader
		io.Writer
	}{t.keys, t.out}, prompt)
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		_ = reader.SetSize(width, height)
	}
	dropped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(dropped)
		t.keys.drop()
	})
	line, err := reader.ReadLine() // pasted text has an error
	if !stop() {
		<-dropped
		line, err = "", context.Cause(ctx)
	}
	t.keys.takeBack(err == nil)
	return line, err
}

// running returns a context that Ctrl-C cancels with errInterrupted until the caller calls done.
func (t *terminal) running(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.keys.onInterrupt(func() { cancel(errInterrupted) })
	return ctx, func() {
		t.keys.onInterrupt(nil)
		cancel(nil)
		t.turn.Lock() // a cancelled question ends its line
		defer t.turn.Unlock()
	}
}

// key completes the line when TAB is pressed; at the beginning of a line, TAB indents.
func (t *terminal) key(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	before := line[:pos]
	add, choice := "    ", []string(nil)
	if strings.TrimSpace(before) != "" {
		add, choice = t.complete(before)
	}
	if choice != nil {
		const most = 60
		list := strings.Join(choice[:min(len(choice), most)], "  ")
		if len(choice) > most {
			list += fmt.Sprintf("  and %d more", len(choice)-most)
		}
		fmt.Fprintln(t, display.Text(list))
	}
	add = display.Text(add)
	return before + add + line[pos:], pos + len(add), true
}

// keys holds the typed bytes that have not been read. Ctrl-C is removed: it cancels the running
// input, or discards the line.
type keys struct {
	mu          sync.Mutex
	change      *sync.Cond
	typed       []byte
	aside       []byte // typed before a question
	closed      bool
	interrupted bool   // the line was discarded
	cancel      func() // of the running input, or nil
}

// maxTyped bounds the text typed ahead; more text stays in the buffer of the system.
const maxTyped = 64 << 10

func newKeys() *keys {
	k := &keys{}
	k.change = sync.NewCond(&k.mu)
	return k
}

// pump reads keys from a terminal to its end.
func (k *keys) pump(in io.Reader) {
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		if !k.add(buf[:n]) {
			return
		}
		if err != nil {
			k.close()
			return
		}
	}
}

const (
	ctrlC = 3
	// dropLine goes to the end of the line, deletes the line and ends it.
	dropLine = "\x05\x15\r"
)

// add adds typed keys, and reports whether more keys are wanted.
func (k *keys) add(typed []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range typed {
		for len(k.typed) >= maxTyped && !k.closed {
			k.change.Wait()
		}
		switch {
		case k.closed:
			return false
		case c != ctrlC:
			k.typed = append(k.typed, c)
		case k.cancel != nil:
			k.typed, k.aside = nil, nil
			k.cancel()
		default:
			k.typed, k.interrupted = []byte(dropLine), true
		}
		k.change.Broadcast()
	}
	return true
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && !k.closed {
		k.change.Wait()
	}
	if len(k.typed) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.typed)
	if end := bytes.IndexByte(k.typed[:n], '\r'); end >= 0 { // text after a line is for the reader of the next line
		n = end + 1
	}
	k.typed = k.typed[n:]
	k.change.Broadcast()
	return n, nil
}

// setAside keeps typed text from being read until takeBack is called.
func (k *keys) setAside() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.aside, k.typed = k.typed, nil
}

// takeBack ends setAside; keep says that text typed meanwhile is read, too.
func (k *keys) takeBack(keep bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !keep {
		k.typed = nil
	}
	k.aside, k.typed = nil, append(k.aside, k.typed...)
	k.change.Broadcast()
}

// drop discards the line that is being typed.
func (k *keys) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.typed = []byte(dropLine)
	k.change.Broadcast()
}

func (k *keys) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.change.Broadcast()
}

// onInterrupt makes Ctrl-C call cancel; nil: Ctrl-C discards the line.
func (k *keys) onInterrupt(cancel func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = cancel
}

// wasInterrupted reports whether the line was discarded, and resets the state.
func (k *keys) wasInterrupted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.interrupted
	k.interrupted = false
	return was
}

// history holds the typed lines, the newest last, in a file that only the user can read.
type history struct {
	file  string
	lines []string
	err   error // of the last write; the lines are kept in memory nevertheless
}

var _ term.History = (*history)(nil)

const (
	historyName  = "repl_history"
	historyLines = 1000
	historyBytes = 4 << 20 // of a history file, when read
)

// openHistory reads the history in dir, and makes a missing dir.
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
