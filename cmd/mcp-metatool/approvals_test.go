package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/approval"
)

// decide waits until a call is in the queue of approvals in the folder "store", and runs
// mcp-metatool approvals with the verb in args[0], the call's id, and the other args.
func decide(args []string) int {
	queue := approval.OpenQueue("store", slog.Default())
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, err := queue.List(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, e := range list {
			if e.State != approval.Open {
				continue
			}
			cmd := exec.Command("mcp-metatool", append([]string{"approvals", args[0], e.ID}, args[1:]...)...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "decide: no call waits")
	return 1
}
