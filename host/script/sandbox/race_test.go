//go:build race

package sandbox

// raceEnabled reports that the race detector is on. It keeps shadow memory, so the size
// of the process is not that of the product.
const raceEnabled = true
