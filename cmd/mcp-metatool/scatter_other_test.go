//go:build !linux

package main

// scatter is for tests of Linux.
func scatter([]string) int { return serveEcho() }
