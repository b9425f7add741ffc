package natstest

// Network is how the servers of a cluster reach each other.
type Network struct {
	// between has the proxy for connections that one server makes to another.
	between map[[2]int]*Proxy
}

// nowhere is an address where nobody listens. Servers tell each other about third ones: these
// would be reached without a proxy.
const nowhere = "127.0.0.1:1"

// StartPartitionable is StartCluster for a cluster whose servers can be cut off.
func StartPartitionable(t T, n int) (Cluster, *Network) {
	t.Helper()
	all := clusterSettings(t, n)
	net := &Network{between: map[[2]int]*Proxy{}}
	for i := range all {
		cluster := all[i].Section("cluster")
		cluster["advertise"], cluster["no_advertise"] = nowhere, true
		var routes []string
		for j := range all {
			if i != j {
				p := StartProxy(t, all[j].Section("cluster").address())
				net.between[[2]int{i, j}] = p
				routes = append(routes, route(p.Address()))
			}
		}
		cluster["routes"] = routes
	}
	return startAll(t, all), net
}

// Isolate cuts a server off from all others. Those who connect to it still reach it. If quiet is
// set, nothing is heard any more, but no connection ends.
func (w *Network) Isolate(server int, quiet bool) {
	for pair, p := range w.between {
		if pair[0] != server && pair[1] != server {
			continue
		}
		if quiet {
			p.Silence(true)
		} else {
			p.Refuse(true)
		}
	}
}

// Heal connects all servers again. Connections that were quiet are ended: what was sent on them
// is lost.
func (w *Network) Heal() {
	for _, p := range w.between {
		if p.deaf.Load() || p.dumb.Load() {
			p.Cut()
		}
		p.Silence(false)
		p.Refuse(false)
	}
}
