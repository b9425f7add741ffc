//go:build unix

package regular

import "syscall"

// noWait are flags with which opening a file never waits: for the writer of a
// named pipe, for instance. A terminal does not become ours. Regular files do
// not know the difference.
const noWait = syscall.O_NONBLOCK | syscall.O_NOCTTY
