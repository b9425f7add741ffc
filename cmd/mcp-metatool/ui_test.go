package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// visitPage is visit for a main function.
func visitPage(args []string) int {
	if err := visit(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// tellPage is what a browser in visit does: it tells visit what it was started with.
func tellPage(args []string) int {
	conn, err := net.Dial("tcp", os.Getenv("VISIT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer conn.Close()
	fmt.Fprintln(conn, strings.Join(args, " "))
	return 0
}

// opened runs ui --attach --open with a browser that only tells what it was started with, and
// returns that.
func opened(ctx context.Context, config string) (string, error) {
	bin, err := os.MkdirTemp("", "browser")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(bin)
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec tellpage \"$@\"\n"), 0o700); err != nil {
			return "", err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	cmd := exec.CommandContext(ctx, "mcp-metatool", "ui", "--attach", "--open", "--config", config)
	cmd.Env = append(os.Environ(), "VISIT="+ln.Addr().String(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	conn, err := ln.Accept()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	told, err := io.ReadAll(conn)
	return strings.TrimSpace(string(told)), err
}

// exchange gets the token for the code in a link, twice.
func exchange(ctx context.Context, link string) error {
	address, code, _ := strings.Cut(link, "#code=")
	for range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"api/session", strings.NewReader(`{"code":"`+code+`"}`))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		status, body, err := sendRequest(r)
		if err != nil {
			return err
		}
		fmt.Printf("exchange: %d %s\n", status, body)
	}
	return nil
}

// visit runs a command that serves a page, asks the page for the state of the servers,
// with the token and without, and interrupts the command. It prints what it got.
func visit(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Deadline(2*time.Minute))
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
	attached := slices.Contains(args, "serve")
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
			once, err := opened(ctx, config)
			if err != nil {
				return err
			}
			fmt.Println("opened", once)
			if err := exchange(ctx, once); err != nil {
				return err
			}
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
		status, body, err := sendRequest(r)
		if err != nil {
			return err
		}
		fmt.Printf("%d %s\n", status, body)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return cmd.Wait()
}

// sendRequest makes a request and returns the status and body of the response.
func sendRequest(r *http.Request) (status int, body []byte, err error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
