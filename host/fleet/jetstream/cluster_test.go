package jetstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestCluster runs the tests of all stores on a cluster of three, with three replicas and with one.
func TestCluster(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	urls := natstest.StartCluster(t, 3).URLs()
	for _, replicas := range []int{3, 1} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			run := storetest.RunCluster
			if replicas == 1 {
				run = storetest.RunBrief
			}
			run(t, func(t *testing.T) store.Store {
				t.Helper()
				return open(t, Options{URLs: urls, Replicas: replicas, Prefix: fmt.Sprint("replicas", replicas)})
			})
		})
	}
}

// onlyLong skips tests that take more than seconds.
func onlyLong(t *testing.T) {
	t.Helper()
	if !*storetest.Long {
		t.Skip("only with -long")
	}
}

// TestClusterFaults makes other servers the leaders, and kills one server after the other, so
// that two are left.
func TestClusterFaults(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	s := open(t, Options{URLs: cluster.URLs(), Replicas: 3})
	l := startLoad(t, 3, func(t *testing.T) store.Store {
		return open(t, Options{URLs: cluster.URLs(), Replicas: 3, Attempt: 500 * time.Millisecond})
	})
	for n := range storetest.Faults(4, 12) {
		l.wait(t, 10)
		old := leader(t, s)
		if n%2 == 0 { // another leader, and everybody lives on
			for _, stream := range []string{s.logs.CachedInfo().Config.Name, s.docs.CachedInfo().Config.Name} {
				if _, err := s.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, time.Second); err != nil {
					t.Logf("step down: %v", err)
				}
			}
			continue
		}
		lost := cluster[cluster.Index(old)]
		if n%4 == 3 {
			lost = cluster[rand.IntN(len(cluster))]
		}
		lost.Kill()
		l.wait(t, 10) // with two
		lost.Start(t)
		waitForReplicas(t, s)
	}
	l.wait(t, 10)
	l.check(t, s)
}

// waitForReplicas waits until all replicas of the streams are there and have everything, so
// that another one can be lost.
func waitForReplicas(t *testing.T, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		current := 0
		for _, st := range []interface {
			Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error)
		}{s.logs, s.docs} {
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(time.Second))
			info, err := st.Info(ctx)
			cancel()
			if err != nil || info.Cluster == nil {
				continue
			}
			for _, r := range info.Cluster.Replicas {
				if r.Current {
					current++
				}
			}
		}
		if current == 4 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the replicas do not get what they lack")
		}
	}
}

// leader waits until the stream of logs has a leader, and returns the name of its server.
func leader(t *testing.T, s *Store) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(time.Second))
		info, err := s.logs.Info(ctx)
		cancel()
		if err == nil && info.Cluster != nil && info.Cluster.Leader != "" {
			return info.Cluster.Leader
		}
	}
	t.Fatal("the stream gets no leader")
	return ""
}

// TestPartition cuts one server off from the others, the leader and others, with connections
// that end and with some on which nothing is heard. Clients still reach all of them.
func TestPartition(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	cluster, network := natstest.StartPartitionable(t, 3)
	s := open(t, Options{URLs: cluster.URLs(), Replicas: 3})
	l := startLoad(t, 3, func(t *testing.T) store.Store {
		return open(t, Options{URLs: cluster.URLs(), Replicas: 3, Attempt: 500 * time.Millisecond})
	})
	for n := range storetest.Faults(4, 8) {
		l.wait(t, 10)
		lost := cluster.Index(leader(t, s))
		if n%4 >= 2 {
			lost = (lost + 1) % len(cluster)
		}
		network.Isolate(lost, n%2 == 1)
		l.wait(t, 10) // with two
		network.Heal()
		waitForReplicas(t, s)
	}
	l.wait(t, 10)
	l.check(t, s)
}

// TestWholeClusterRestarts kills all servers at once, and one of them comes back without its
// data.
func TestWholeClusterRestarts(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	s := open(t, Options{URLs: cluster.URLs(), Replicas: 3})
	l := startLoad(t, 3, func(t *testing.T) store.Store {
		return open(t, Options{URLs: cluster.URLs(), Replicas: 3, Attempt: 500 * time.Millisecond})
	})
	for n := range storetest.Faults(2, 4) {
		l.wait(t, 10)
		waitForReplicas(t, s)
		for _, one := range cluster {
			one.Kill()
		}
		cluster.Start(t)
		waitForReplicas(t, s)
		l.wait(t, 10)
		waitForReplicas(t, s)
		lost := cluster[n%3]
		lost.Kill()
		if err := os.RemoveAll(lost.Dir()); err != nil {
			t.Fatal(err)
		}
		lost.Start(t)
		waitForReplicas(t, s)
	}
	l.wait(t, 10)
	l.check(t, s)
}

// TestIsolatedServer writes on a connection to a server that is cut off from the others: it has
// to find another one.
func TestIsolatedServer(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	cluster, network := natstest.StartPartitionable(t, 3)
	s := open(t, Options{URLs: cluster.URLs(), Replicas: 3})
	log, at := store.NewID().String(), store.Position{}
	followed := make(chan error, 1)
	follow, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for e, err := range s.Follow(follow, log, store.Position{}) {
			if err != nil || e.Position.Number == 4 {
				followed <- err
				return
			}
		}
		followed <- follow.Err()
	}()
	for n := range 2 {
		at = storetest.Write(t, s, log, at, 0, "before")
		waitForReplicas(t, s)
		isolated := s.nc.ConnectedServerName()
		network.Isolate(cluster.Index(isolated), n == 1)
		at = storetest.Write(t, s, log, at, 0, "meanwhile")
		if now := s.nc.ConnectedServerName(); now == isolated {
			t.Errorf("it is still connected with %s", now)
		}
		network.Heal()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case err := <-followed:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the events are not followed")
	}
}
