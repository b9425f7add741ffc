//go:build !linux

package jetstream

import "testing"

type smallDisk struct{ dir string }

func newSmallDisk(t *testing.T, _ string) *smallDisk {
	t.Helper()
	t.Skip("needs Linux")
	return nil
}

func (d *smallDisk) resize(*testing.T, string) {}
