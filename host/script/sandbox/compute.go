package sandbox

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// freeCompute is the number of units of work without a slot: about a millisecond. Further work
// waits for a slot, like a guest.
const freeCompute = 2_000_000

// Compute is work of the host for a run, such as checking values against schemas. The work is
// charged to the run's account, ends with the context, and holds a slot if longer than about a
// millisecond. A Compute belongs to a single goroutine, which holds no other slot and must close
// the Compute.
type Compute struct {
	slot    computeSlot
	account *Account
	name    string
	spent   uint64
	memory  *budget.Budget
	end     func() // ends the Compute's part of the account; nil before memory was taken
}

var _ jsonvalue.Room = (*Compute)(nil)

// Compute begins work for the script called name. A nil account has no limit. The Compute of a zero
// Sandbox needs no slot.
func (s *Sandbox) Compute(ctx context.Context, name string, account *Account) *Compute {
	return &Compute{slot: computeSlot{slots: s.slots, ctx: ctx}, account: account, name: name, memory: s.total}
}

// Spend must be called before each piece of the work, with the units of the piece. Spend charges
// them, and waits for a slot if needed. If the context has ended, the error is the same as from
// Run; if the fuel is used up, the error is a [*LimitError] of [LimitFuel].
func (c *Compute) Spend(units uint64) error {
	if c.slot.ctx.Err() != nil {
		return stopped(c.slot.ctx, c.name)
	}
	taken, enough := c.account.Charge(units)
	c.spent += taken
	if !enough {
		all := uint64(c.account.allFuel)
		return &LimitError{
			Limit: LimitFuel, Value: all,
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

// Spent returns how many units have been charged so far.
func (c *Compute) Spent() uint64 { return c.spent }

// Take takes memory for the work, from the memory of the account's runs. While waiting, the Compute
// holds no slot. The errors are the errors of Spend, or a [*LimitError] of [LimitTotalMemory].
func (c *Compute) Take(bytes int64) error {
	if c.account == nil {
		return nil
	}
	if c.end == nil {
		c.slot.ctx, c.end = c.account.begin(c.slot.ctx, c.memory)
	}
	run := c.account.budgetRun()
	if run.TryAcquire(bytes) {
		return nil
	}
	c.slot.release() // Spend takes the slot again
	if c.slot.queue(func() error { return run.Acquire(c.slot.ctx, bytes) }) != nil {
		return stopped(c.slot.ctx, c.name)
	}
	return nil
}

// Give gives memory back.
func (c *Compute) Give(bytes int64) {
	if run := c.account.budgetRun(); run != nil {
		run.Release(bytes)
	}
}

// Close releases the slot, if held, and the memory.
func (c *Compute) Close() {
	c.slot.release()
	if c.end != nil {
		c.end()
		c.end = nil
	}
}
