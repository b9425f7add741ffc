package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// converse runs an MCP server and exchanges messages with it, according to a file:
//
//	# comment
//	> TEXT         send a line
//	< JSON         wait for a message that contains all of this; skip others
//	! JSON         no such message may arrive before the end, not even a skipped one
//	file NAME      wait until the file exists and is not empty
//	log TEXT       wait until the server's standard error contains this, after the
//	               text of the last log line
//	copy FROM TO   replace the content of a file
//	run CODE ...   run a command, and check its exit code
//	signal NAME    send TERM, INT or HUP
//	close          close the server's input
//	exit CODE      wait for the server's end; the default last line is exit 0
//
// In an expected message, "*" is any value, and the elements of an array must occur in
// this order, possibly among others. Numbers are compared as they are written. Every
// line of the server must be JSON.
func converse(args []string) int {
	script, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := &conversation{messages: make(chan string, 1000), log: textLog{more: make(chan struct{}, 1)}}
	c.cmd = exec.Command(args[1], args[2:]...)
	c.cmd.Stderr = io.MultiWriter(os.Stderr, &c.log)
	c.in, _ = c.cmd.StdinPipe()
	out, _ := c.cmd.StdoutPipe()
	if err := c.cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	watchdog := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer watchdog.Stop()
	go c.read(out)
	for i, line := range strings.Split(string(script)+"\nexit 0", "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := c.step(line); err != nil {
			fmt.Fprintf(os.Stderr, "%s:%d: %s\n%v\n", args[0], i+1, line, err)
			_ = c.cmd.Process.Kill()
			return 1
		}
	}
	return 0
}

type conversation struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	messages chan string // from the server
	seen     []string
	never    []any
	log      textLog
	ended    bool

	signalled bool // so its input stays open
}

// textLog keeps what is written to it, and lets others wait for a text.
type textLog struct {
	more chan struct{} // holds a token once there is more

	mu   sync.Mutex // guards what follows
	text string     // not yet awaited
}

// Write implements io.Writer.
func (l *textLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	select {
	case l.more <- struct{}{}:
	default: // a wake-up is already pending
	}
	return len(p), nil
}

// await waits for a text, and discards everything up to it.
func (l *textLog) await(want string) error {
	late := time.After(time.Minute)
	for {
		l.mu.Lock()
		_, rest, found := strings.Cut(l.text, want)
		if found {
			l.text = rest
		}
		all := l.text
		l.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-l.more:
		case <-late:
			return fmt.Errorf("it did not come; all there was:\n%s", all)
		}
	}
}

func (c *conversation) read(out io.Reader) {
	defer close(c.messages)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		c.messages <- lines.Text()
	}
}

func (c *conversation) step(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case ">":
		_, err := io.WriteString(c.in, rest+"\n")
		return err
	case "<":
		return c.expect(rest)
	case "!":
		want, err := parse(rest)
		c.never = append(c.never, want)
		return err
	case "file":
		return awaitFile(rest)
	case "log":
		return c.log.await(rest)
	case "copy":
		from, to, _ := strings.Cut(rest, " ")
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	case "run":
		code, command, _ := strings.Cut(rest, " ")
		words := strings.Fields(command)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); cmd.ProcessState == nil || strconv.Itoa(cmd.ProcessState.ExitCode()) != code {
			return fmt.Errorf("%v, want exit code %s", err, code)
		}
		return nil
	case "signal":
		c.signalled = rest != "HUP"
		return c.cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[rest])
	case "close":
		return c.in.Close()
	case "exit":
		return c.exit(rest)
	}
	return errors.New("not understood")
}

func (c *conversation) expect(text string) error {
	want, err := parse(text)
	if err != nil {
		return err
	}
	for msg := range c.messages {
		got, err := parse(msg)
		if err != nil {
			return fmt.Errorf("the server wrote %q: %w", msg, err)
		}
		c.seen = append(c.seen, msg)
		if matches(want, got) {
			return nil
		}
	}
	return fmt.Errorf("it did not come; all there was:\n%s", strings.Join(c.seen, "\n"))
}

// exit waits for the end of the server.
func (c *conversation) exit(code string) error {
	if c.ended {
		return nil
	}
	c.ended = true
	if !c.signalled {
		c.in.Close()
	}
	for msg := range c.messages {
		c.seen = append(c.seen, msg)
	}
	_ = c.cmd.Wait()
	if got := strconv.Itoa(c.cmd.ProcessState.ExitCode()); got != code {
		return fmt.Errorf("exit code %s", got)
	}
	for _, msg := range c.seen {
		got, err := parse(msg)
		if err != nil {
			return fmt.Errorf("the server wrote %q: %w", msg, err)
		}
		for _, want := range c.never {
			if matches(want, got) {
				return fmt.Errorf("unwanted: %s", msg)
			}
		}
	}
	return nil
}

func parse(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	return v, err
}

// matches reports whether got contains everything in want.
func matches(want, got any) bool {
	switch want := want.(type) {
	case string:
		return want == "*" || want == got
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, w := range want {
			g, has := object[name]
			ok = ok && has && matches(w, g)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		for _, g := range list {
			if len(want) > 0 && matches(want[0], g) {
				want = want[1:]
			}
		}
		return ok && len(want) == 0
	}
	return want == got
}
