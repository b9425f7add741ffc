package supervise

import (
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// keptLists counts the lists of an upstream in the budget, which bounds the lists of all upstreams
// together, so that no server takes the memory of other servers.
type keptLists struct {
	account *budget.Account

	mu sync.Mutex // held while the account is changed
	of map[wire.Surface]int64
}

// newKeptLists returns the lists of an upstream. The lists of a server for several sessions are a
// group.
func newKeptLists(b *budget.Budget, m *managedUpstream) *keptLists {
	return &keptLists{account: b.OpenList(budget.Member{Group: m.name, Of: m}), of: map[wire.Surface]int64{}}
}

// keep counts a list that replaces the previous list. After a *budget.FullError the previous list
// still counts.
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

// close ends the counting. No list is kept afterwards.
func (k *keptLists) close() { k.account.Close() }
