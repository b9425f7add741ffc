package compose

import (
	"math/rand/v2"
	"time"
)

// Moment is the time of a run and the seed of the random numbers; see abi.Request. The record of
// the run has the Moment, so a replay has the same.
type Moment struct {
	Now  int64
	Seed uint64
}

// PresentMoment returns the present time and a new seed. All seeds have the same number of digits,
// so that reading them costs each run the same fuel.
func PresentMoment() Moment {
	return Moment{Now: time.Now().UnixMicro(), Seed: seedOf(rand.Uint64())}
}

// seedOf returns a seed that depends on the bits alone.
func seedOf(bits uint64) uint64 {
	const least, most = 100_000_000_000_000, 1_000_000_000_000_000
	return least + bits%(most-least)
}

// MockMoment is the moment of all runs with mocks, and of runs for recording cassettes: the
// beginning of 2026. So scripts with calls for the time make the same calls each time.
func MockMoment() Moment {
	return Moment{
		Now:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		Seed: 100_000_000_000_001,
	}
}
