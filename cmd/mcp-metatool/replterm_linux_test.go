package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// person types into a program on a terminal and reads its output.
type person struct {
	t      *testing.T
	keys   *os.File
	screen *textLog
}

func (p person) sees(text string) {
	p.t.Helper()
	if err := p.screen.await(text); err != nil {
		p.t.Fatalf("waiting for %q: %v", text, err)
	}
}

func (p person) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		p.t.Fatal(err)
	}
}

// TestReplTerminal checks completion, blocks, Ctrl-C during a call and while typing, questions
// for approval, and the history of an earlier session.
func TestReplTerminal(t *testing.T) {
	startsProgram(t)
	dir := t.TempDir()
	const config = "[store]\ndir = \"store\"\n[upstream.echo]\ncommand = \"echo\"\n[[policy.rule]]\nname = \"echoes\"\ntools = [\"echo.echo\"]\naction = \"ask\"\n"
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	session := func(f func(p person)) {
		master, slave := openTerminal(t)
		p := person{t, master, &textLog{more: make(chan struct{}, 1)}}
		read := make(chan error, 1)
		go func() {
			_, err := io.Copy(p.screen, master) // until the last one who has the terminal ends
			read <- err
		}()
		cmd := exec.Command("mcp-metatool", "repl", "--config", "config.toml")
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		ended := false
		defer func() {
			if !ended {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			<-read
		}()
		p.sees(">>> ")
		f(p)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		ended = true
	}
	asked := func(p person) {
		p.sees("Asked because of the rule `echoes`")
		p.sees("[r]emember ") // what is typed before is no answer
	}
	session(func(p person) {
		p.types("echo.echo({\"n\": 1})\r")
		asked(p)
		p.types("y\r")
		p.sees("\"n\": 1\r\n}\r\n>>> ")
		p.types("echo.echo({\"n\": 2})\ry\r") // the second line is no answer
		asked(p)
		p.types("n\r")
		p.sees("was not approved: denied by ")
		p.sees("undefined: y")
		p.types("echo.echo({\"n\": 3})\r")
		asked(p)
		p.types("ye\x03")
		p.sees("cancelled\r\n>>> ")
		p.types("echo.echo({\"n\": 4})\r")
		asked(p)
		p.types("\x1b[200~y\r\x1b[201~") // pasted
		p.sees("was not approved: denied by ")
		p.types("ech\t.h\t()\r")
		if err := awaitFile(filepath.Join(dir, "hangs")); err != nil {
			t.Fatal(err)
		}
		p.types("\x03")
		p.sees("cancelled\r\n>>> ")
		if err := awaitFile(filepath.Join(dir, "cancelled")); err != nil {
			t.Error(err)
		}
		p.types("x = [1,\r")
		p.sees("... ")
		p.types("what is this\x03")
		p.sees("^C\r\n>>> ")
		p.types("def f(n):\r\treturn n * 2\r\r")
		p.sees("\r\n>>> ")
		p.types("f(21)\r")
		p.sees("\r\n42\r\n>>> ")
		p.types("math.f\t")
		p.sees(".fabs  .factorial  .floor  .fmod  .frexp  .fsum\r\n")
		p.types("\x05\x15\x04")
	})
	info, err := os.Stat(filepath.Join(dir, "store", "repl_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("history: %v, %v", info, err)
	}
	if lines, err := os.ReadFile(filepath.Join(dir, "store", "repl_history")); err != nil || bytes.Contains(lines, []byte("\nn\n")) || !bytes.Contains(lines, []byte("\ny\n")) {
		t.Errorf("history, %v:\n%s", err, lines)
	}
	session(func(p person) {
		p.types("f = lambda n: n + 1\r")
		p.sees("\r\n>>> ")
		p.types("\x1b[A\x1b[A\r") // the line before the last one
		p.sees("\r\n22\r\n>>> ")
		p.types(".quit\r")
	})
}
