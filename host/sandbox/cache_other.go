//go:build !unix

package sandbox

import "io/fs"

// checkOwner trusts the access rules that the user's profile folder hands down;
// file modes say nothing here.
func checkOwner(string, fs.FileInfo) error { return nil }
