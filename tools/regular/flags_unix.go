//go:build unix

package regular

import "syscall"

// noWait are flags with which opening never waits, for example for the writer of a named
// pipe. A terminal does not become our controlling terminal. They have no effect on regular
// files.
const noWait = syscall.O_NONBLOCK | syscall.O_NOCTTY
