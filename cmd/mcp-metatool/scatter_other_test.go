//go:build !linux

package main

// scatter is only used on Linux.
func scatter([]string) int { return serveEcho() }
