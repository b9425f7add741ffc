package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/demo"
	"github.com/mcp-metatool/mcp-metatool/host/clients"
)

// serveTracker is an issue tracker whose issues are in the file issues.json. Each write is
// a line in the file done.
func serveTracker() int {
	text := `{"type":"object","properties":{"number":{"type":"integer"},"title":{"type":"string"},"body":{"type":"string"},"labels":{"type":"array"}}}`
	tool := func(name, annotations string, call func(t *tracker, args trackerArgs) (any, error)) demo.Tool {
		return demo.Tool{
			Definition: fmt.Sprintf(`{"name":%q,"inputSchema":%s,"annotations":%s}`, name, text, annotations),
			Call: func(_ context.Context, raw []byte, _ func(int, int, string)) (any, error) {
				t, args := &tracker{}, trackerArgs{}
				stored, err := os.ReadFile("issues.json")
				if err == nil {
					err = errors.Join(json.Unmarshal(stored, t), json.Unmarshal(raw, &args))
				}
				if err != nil {
					return nil, err
				}
				before, _ := json.Marshal(t)
				answer, err := call(t, args)
				after, _ := json.Marshal(t)
				if err != nil || bytes.Equal(before, after) {
					return answer, err
				}
				done, err := os.OpenFile("done", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return nil, err
				}
				_, err = fmt.Fprintf(done, "%s %s\n", name, raw)
				return answer, errors.Join(err, done.Close(), os.WriteFile("issues.json", after, 0o600))
			},
		}
	}
	const read, write = `{"readOnlyHint":true}`, `{"readOnlyHint":false}`
	server := demo.Server{
		tool("get_issue", read, func(t *tracker, args trackerArgs) (any, error) { return t.find(args.Number) }),
		tool("create_issue", write, func(t *tracker, args trackerArgs) (any, error) {
			t.Issues = append(t.Issues, trackerIssue{Number: len(t.Issues) + 1, Title: args.Title, Body: args.Body})
			return len(t.Issues), nil
		}),
		tool("comment", write, func(t *tracker, args trackerArgs) (any, error) {
			issue, err := t.find(args.Number)
			if err == nil {
				issue.Comments = append(issue.Comments, args.Body)
			}
			return issue, err
		}),
		tool("close_issue", write, func(t *tracker, args trackerArgs) (any, error) {
			issue, err := t.find(args.Number)
			if err == nil {
				issue.Closed = true
			}
			return issue, err
		}),
		tool("crash", write, func(t *tracker, args trackerArgs) (any, error) {
			os.Exit(3)
			return nil, nil
		}),
		tool("kill", write, func(t *tracker, args trackerArgs) (any, error) { return nil, killNamed("pid") }),
	}
	options := clients.Options{Backend: server, Name: "tracker", Version: "1", Log: slog.New(slog.DiscardHandler)}
	if clients.ServeStdio(context.Background(), os.Stdin, os.Stdout, options) != nil {
		return 1
	}
	return 0
}

// killNamed kills the process whose id is in a file, at once.
func killNamed(file string) error {
	for range 6000 { // the starter of the process may not have written the id yet
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 && text[len(text)-1] == '\n' {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
			if err != nil {
				return err
			}
			p, err := os.FindProcess(pid)
			if err != nil {
				return err
			}
			return p.Kill()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("no process to kill")
}

type tracker struct {
	Issues []trackerIssue `json:"issues"`
}

type trackerIssue struct {
	Number   int      `json:"number"`
	Title    string   `json:"title"`
	Body     string   `json:"body,omitempty"`
	Comments []string `json:"comments,omitempty"`
	Closed   bool     `json:"closed,omitempty"`
}

type trackerArgs struct {
	Number      int
	Title, Body string
}

func (t *tracker) find(number int) (*trackerIssue, error) {
	i := slices.IndexFunc(t.Issues, func(i trackerIssue) bool { return i.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("there is no issue %d", number)
	}
	return &t.Issues[i], nil
}
