package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// visitPage is visit for a main function.
func visitPage(args []string) int {
	if err := visit(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// visit runs a command that serves a page, asks the page for the state of the servers,
// with the token and without, and interrupts the command. It prints what it got.
func visit(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Process.Kill()
	attached := slices.Contains(args, "--ui")
	said := out
	if attached {
		said = errs
	} else {
		go io.Copy(os.Stderr, errs)
	}
	lines := bufio.NewScanner(said)
	link := regexp.MustCompile(`http://127\.0\.0\.1:\d+/ui/#token=(\S+)`)
	var found []string
	for found == nil && lines.Scan() {
		text := lines.Text()
		if attached && strings.Contains(text, "the page is at") {
			config := args[slices.Index(args, "--config")+1]
			answer, err := exec.CommandContext(ctx, "mcp-metatool", "ui", "--attach", "--config", config).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, answer)
			}
			fmt.Println(text)
			text = string(answer)
		}
		found = link.FindStringSubmatch(text)
	}
	if found == nil {
		return fmt.Errorf("there is no link: %w", cmd.Wait())
	}
	go io.Copy(io.Discard, said)
	for _, token := range []string{found[1], ""} {
		address, _, _ := strings.Cut(found[0], "#")
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"api/state", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		fmt.Printf("%d %s\n", resp.StatusCode, body)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return cmd.Wait()
}

// TestOpenPage checks the file that leads the browser to the page.
func TestOpenPage(t *testing.T) {
	dir, bin := filepath.Join(t.TempDir(), "store"), t.TempDir()
	t.Setenv("PATH", bin) // without a browser
	done, err := openPage(dir, `http://127.0.0.1:1/ui/#token="x`)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ui.html")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `url=http://127.0.0.1:1/ui/#token=&#34;x"`) {
		t.Errorf("%s, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info, err)
	}
	done()
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there")
	}
}
