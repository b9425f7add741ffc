package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// scatter is an upstream server that starts processes in its group, outside of it, and
// without a parent. It and each of them connects to the address in BEACON, sends its
// name, and holds the connection as long as it lives.
func scatter(args []string) int {
	what := "server"
	if len(args) > 0 {
		what = args[0]
	}
	start := func(what string, away bool) *exec.Cmd {
		child := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"scatter", what}, SysProcAttr: &syscall.SysProcAttr{Setsid: away}}
		if err := child.Start(); err != nil {
			panic(err)
		}
		return child
	}
	if what == "forker" {
		start("orphan", true)
		return 0
	}
	conn, err := net.Dial("tcp", os.Getenv("BEACON"))
	if err == nil {
		_, err = fmt.Fprintln(conn, what)
	}
	if err != nil {
		panic(err)
	}
	if what == "server" {
		start("child", false)
		start("runaway", true)
		_ = start("forker", false).Wait()
		return serveEcho()
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	_, _ = io.Copy(io.Discard, conn)
	return 0
}

// TestNoProcessIsLeft checks that everything that servers have started ends when the
// program ends, regularly or by kill -9.
func TestNoProcessIsLeft(t *testing.T) {
	startsProgram(t)
	for how, end := range map[string]func(program *os.Process, stdin io.Closer) error{
		"end of input": func(_ *os.Process, stdin io.Closer) error { return stdin.Close() },
		"SIGTERM":      func(program *os.Process, _ io.Closer) error { return program.Signal(syscall.SIGTERM) },
		"kill -9":      func(program *os.Process, _ io.Closer) error { return program.Kill() },
	} {
		t.Run(how, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			dir := t.TempDir()
			config := fmt.Sprintf("[upstream.s]\ncommand = \"scatter\"\nenv = { BEACON = %q }\n", l.Addr())
			if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
			defer cancel()
			context.AfterFunc(ctx, func() { l.Close() }) // or the test would wait for servers that never come
			cmd := exec.CommandContext(ctx, "mcp-metatool", "serve")
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
			var said bytes.Buffer
			cmd.Stderr = &said
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var what []string
			var left []*bufio.Reader
			for range 4 {
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				r := bufio.NewReader(conn)
				name, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				what, left = append(what, strings.TrimSpace(name)), append(left, r)
			}
			if slices.Sort(what); strings.Join(what, " ") != "child orphan runaway server" {
				t.Errorf("started: %v", what)
			}
			if err := end(cmd.Process, stdin); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil && how != "kill -9" {
				t.Errorf("%v\n%s", err, said.String())
			}
			for _, r := range left {
				_, _ = r.ReadByte() // the end of the connection is the end of the process
			}
		})
	}
}
