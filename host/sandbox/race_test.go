//go:build race

package sandbox

// raceEnabled: the race detector keeps shadows of the memory that is used, so
// the size of the process says nothing about the product then.
const raceEnabled = true
