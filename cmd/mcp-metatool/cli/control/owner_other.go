//go:build !unix

package control

import "io/fs"

// ours cannot be determined on this system, where the folders of a user's profile are
// private.
func ours(fs.FileInfo) bool { return true }
