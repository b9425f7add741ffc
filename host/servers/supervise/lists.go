package supervise

import (
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// keptLists counts the lists of one upstream in the budget, where the lists of all upstreams
// together are bounded, and no server can take what others need.
type keptLists struct {
	account *budget.Account

	mu sync.Mutex // held while the account is changed
	of map[wire.Surface]int64
}

// newKeptLists returns the lists of an upstream. Those of one server for several sessions are
// a group.
func newKeptLists(b *budget.Budget, m *managedUpstream) *keptLists {
	return &keptLists{account: b.OpenList(budget.Member{Group: m.name, Of: m}), of: map[wire.Surface]int64{}}
}

// keep counts a list that replaces the one before. The error is a *budget.FullError; then the
// one before still counts.
func (k *keptLists) keep(surface wire.Surface, bytes int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := bytes
	for s, n := range k.of {
		if s != surface {
			all += n
		}
	}
	if err := k.account.Set(all); err != nil {
		return err
	}
	k.of[surface] = bytes
	return nil
}

// close ends the counting. No list is kept any more.
func (k *keptLists) close() { k.account.Close() }
