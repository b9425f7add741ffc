//go:build !wasip1

package main

import (
	"fmt"
	"os"
)

// main explains the program to users who built the guest for another system.
func main() {
	fmt.Fprintln(os.Stderr, "guest: runs inside the sandbox only (build it with scripts/build-guest)")
	os.Exit(2)
}
