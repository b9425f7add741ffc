package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
)

// decide waits until a call is in the queue of approvals in the folder "store", and runs
// mcp-metatool approvals with the verb in args[0], the call's id, and the other args.
func decide(args []string) int {
	id, err := waitsForApproval("store")
	if err == nil {
		cmd := exec.Command("mcp-metatool", append([]string{"approvals", args[0], id}, args[1:]...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "decide:", err)
		return 1
	}
	return 0
}

// waitsForApproval returns the id of the oldest open call in the queue of a store, when there
// is one.
func waitsForApproval(store string) (id string, err error) {
	queue := approval.OpenQueue(store, slog.Default())
	changes, err := fsnotify.NewWatcher()
	if err != nil {
		return "", err
	}
	defer changes.Close()
	folder := filepath.Join(store, "approvals", "queue")
	if err := errors.Join(os.MkdirAll(folder, 0o700), changes.Add(folder)); err != nil {
		return "", err
	}
	for end := time.After(time.Minute); ; {
		list, err := queue.List(context.Background())
		if err != nil {
			return "", err
		}
		if i := slices.IndexFunc(list, func(e approval.Listed) bool { return e.State == approval.Open }); i >= 0 {
			return list[i].ID, nil
		}
		select {
		case <-changes.Events:
		case <-end:
			return "", errors.New("no call waits")
		}
	}
}
