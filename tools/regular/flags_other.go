//go:build !unix

package regular

// noWait has no flags on these systems. The check before opening recognises other kinds of
// files.
const noWait = 0
