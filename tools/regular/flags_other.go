//go:build !unix

package regular

// noWait is nothing here: what is looked up before opening says what is no file.
const noWait = 0
