package tools

import (
	"context"
	"fmt"
)

// Spend is told of work while it is done: of units more, a unit being about
// half a nanosecond, as a unit of a script's fuel is. An error ends the work,
// and is what the caller of the method gets. Spend is called on the goroutine
// of that caller, every 50 microseconds or so; units can be 0.
//
// The same value costs the same under the same schema, always.
type Spend func(units uint64) error

// FreeWork is how much may be done without a Spend: about a tenth of a second.
const FreeWork = 200_000_000

// WorkError says that something takes more work than was allowed.
type WorkError struct {
	Units uint64 // that were allowed
}

func (e *WorkError) Error() string {
	return fmt.Sprintf("checking takes more than %d units of work (simplify the schema, or the value)", e.Units)
}

// AtMost is a Spend that allows so many units. It is not safe for concurrent
// use.
func AtMost(units uint64) Spend {
	left := units
	return func(n uint64) error {
		if n > left {
			return &WorkError{Units: units}
		}
		left -= n
		return nil
	}
}

// Until is AtMost that also ends with a context, with its error.
func Until(ctx context.Context, units uint64) Spend {
	spend := AtMost(units)
	return func(n uint64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return spend(n)
	}
}

// What things cost, in units.
const (
	// workSlice is how much is done between two looks at the Spend.
	workSlice = 1 << 16

	schemaCost = 300 // one schema applied to one value
	nameCost   = 80  // looking up a name
	tokenCost  = 150 // reading a token of JSON
	byteCost   = 2   // and each byte of it
	valueCost  = 100 // hashing or comparing a value
)

// meter counts work. It panics with interrupted when Spend refuses more; see
// run.
type meter struct {
	spend Spend
	due   int64
	polls int
}

// interrupted is what ends work that may not go on. Nothing but run sees it.
type interrupted struct{ err error }

func newMeter(spend Spend) *meter {
	if spend == nil {
		spend = AtMost(FreeWork)
	}
	return &meter{spend: spend}
}

func (m *meter) take(units int64) {
	if m.due += units; m.due >= workSlice {
		m.settle()
	}
}

// poll is for work that has been taken as a whole: it lets Spend end it.
func (m *meter) poll() {
	if m.polls++; m.polls%1024 == 0 {
		m.ask()
	}
}

// text takes what it costs to go over n bytes of text once or twice.
func (m *meter) text(n int) { m.take(int64(n) * byteCost) }

func (m *meter) settle() {
	if m.due > 0 {
		m.ask()
	}
}

func (m *meter) ask() {
	due := m.due
	m.due = 0
	if err := m.spend(uint64(due)); err != nil {
		panic(interrupted{err})
	}
}

// run does some work. The error is that of Spend when it was refused.
func (m *meter) run(work func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interrupted:
			err = r.err
		default:
			panic(r)
		}
	}()
	work()
	m.settle()
	return nil
}
