//go:build !windows

package tools

import (
	"fmt"
	"os"
)

func rename(root *os.Root, from, to string) error { return root.Rename(from, to) }

// syncDir makes new and removed names durable.
func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	return nil
}
