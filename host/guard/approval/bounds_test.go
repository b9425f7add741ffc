package approval

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// TestWaitingOfAllIsBounded checks how many calls of all clients together may wait: in this
// process, and in the queue. A further call is denied with a clear error, and may wait when an
// earlier call has ended.
func TestWaitingOfAllIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("process", func(t *testing.T) {
		d := newDesk(t, t.TempDir())
		d.settings.By, d.settings.Wait = ByQueue, Answer
		var leave []func()
		for i := range maxAll {
			a := asking(nil, "{}")
			a.Request.Caller.Session = fmt.Sprint("client", i)
			one, err := d.enter(a, d.settings)
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, one)
		}
		_, err := d.approve(asking(nil, "{}"))
		if err == nil || !strings.Contains(err.Error(), "too many calls wait for approval: 1000 of all clients, a fixed limit") {
			t.Errorf("one more: %v", err)
		}
		leave[0]()
		var waiting *WaitingError
		if _, err := d.approve(asking(nil, "{}")); !errors.As(err, &waiting) {
			t.Errorf("when one has left: %v", err)
		}
		for _, one := range leave[1:] {
			one()
		}
		if d.all != 0 || len(d.waiting) > 0 {
			t.Errorf("%d calls of %d clients are left", d.all, len(d.waiting))
		}
	})
	t.Run("queue", func(t *testing.T) {
		d := replicaDesk(t, memorytest.New(t), nil) // hundreds of files take a second
		d.settings.Wait = Answer
		first := ""
		err := d.queue.place.Change(t.Context(), func(docs documents.Documents) error {
			for i := range maxOpen {
				id, err := newID(docs)
				if err != nil {
					return err
				}
				first = id
				e := Entry{ID: id, State: Open, Asker: fmt.Sprint("client", i), Created: time.Now(), Expires: time.Now().Add(time.Hour)}
				e.Subject.Arguments = fmt.Sprint(i)
				if err := docs.Write(e.name(), e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.approve(asking(nil, "{}"))
		if err == nil || !strings.Contains(err.Error(), "too many calls wait for approval: 500 of all clients, a fixed limit") {
			t.Errorf("one more: %v", err)
		}
		d.decide(first, Verdict{})
		var waiting *WaitingError
		if _, err := d.approve(asking(nil, "{}")); !errors.As(err, &waiting) {
			t.Errorf("when somebody has decided about one: %v", err)
		}
	})
}
