//go:build race

package sandbox

// raceEnabled says that the race detector is on. It keeps shadow memory, so the size
// of the process says nothing about the product.
const raceEnabled = true
