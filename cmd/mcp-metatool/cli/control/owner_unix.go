//go:build unix

package control

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a file belongs to the user as whom we run.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
