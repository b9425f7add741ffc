package natstest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// program returns the path of the server, scripts/natsserver. It is in a module of its own, so that
// tests neither link nor, for the most part, compile it. The go command keeps what it has built.
var program = sync.OnceValues(func() (string, error) {
	dir, err := scripts()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-n", "natsserver")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n natsserver in %s: %w: %s", dir, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
})

// scripts returns the folder of the module that has the server.
func scripts() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		at := filepath.Join(dir, "scripts")
		if _, err := os.Stat(filepath.Join(at, "natsserver")); err == nil {
			return at, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("there is no folder scripts/natsserver at or above the present one")
		}
		dir = above
	}
}

type serverProcess struct {
	pid        int
	kill, stop func()
}

func startProcess(t T, settings Settings) *serverProcess {
	t.Helper()
	path, err := program()
	if err != nil {
		test, ok := t.(testing.TB)
		if ok && !strings.Contains(err.Error(), "go mod tidy") { // which is a fault of the repository
			testenv.Lacks(test, "nats-server", "there is no NATS server here: %v", err)
		}
		t.Fatal(err)
	}
	config, err := line(settings)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = in.Write(config)
	var said string
	if err == nil {
		said, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil || said != "ready\n" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the NATS server says %q, %v", said, err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
	}
	stop := func() {
		in.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	}
	return &serverProcess{cmd.Process.Pid, kill, stop}
}

// line returns settings as a line of JSON, which the server's own format includes, but for
// escapes of characters that need none.
func line(settings Settings) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(settings)
	return b.Bytes(), err
}
