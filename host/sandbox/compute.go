package sandbox

import (
	"context"
	"fmt"
)

// freeCompute is how much is done without a slot, in units: about a millisecond.
// What needs more waits for its turn like a guest.
const freeCompute = 2_000_000

// Compute is work that the host itself does for a run, such as holding values
// against schemas. It is charged to the run's account, ends with its context,
// and holds a slot when it takes longer than a moment. A Compute belongs to one
// goroutine, which holds no slot otherwise, and has to be closed by it.
type Compute struct {
	slot    computeSlot
	account *Account
	name    string
	spent   uint64
}

// Compute begins work for the script of that name. A nil account has no end.
// The Compute of a zero Sandbox needs no slot.
func (s *Sandbox) Compute(ctx context.Context, name string, account *Account) *Compute {
	return &Compute{slot: computeSlot{slots: s.slots, ctx: ctx}, account: account, name: name}
}

// Spend is called while the work is done, before more of it: it charges so many
// units, and waits while it is the turn of others. The error is that of Run for
// a run whose context has ended, or a [*LimitError] of [LimitFuel].
func (c *Compute) Spend(units uint64) error {
	if c.slot.ctx.Err() != nil {
		return stopped(c.slot.ctx, c.name)
	}
	taken, enough := c.account.Charge(units)
	c.spent += taken
	if !enough {
		all := uint64(c.account.allFuel)
		return &LimitError{
			Limit: LimitFuel, Value: all, Setting: "execution.max_fuel",
			Message: fmt.Sprintf("script %q: with the checking of values against schemas, more than %d units of fuel", c.name, all),
		}
	}
	if c.spent <= freeCompute || c.slot.slots == nil {
		return nil
	}
	if c.slot.held {
		c.slot.yield()
	} else {
		c.slot.acquire()
	}
	if !c.slot.held {
		return stopped(c.slot.ctx, c.name)
	}
	return nil
}

// Spent is how many units were charged so far.
func (c *Compute) Spent() uint64 { return c.spent }

// Close gives the slot away, if there is one.
func (c *Compute) Close() { c.slot.release() }
