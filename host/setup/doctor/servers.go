package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const (
	slowStart = 5 * time.Second
	slowList  = 2 * time.Second
	// recent is how long a failure is mentioned.
	recent = 24 * time.Hour
)

// servers looks at how servers have started.
func (e *examination) servers() {
	for _, u := range e.enabled() {
		o, seen := e.Observed[u.Name]
		failure, failed := supervise.LastFailure(e.Store, u.Name)
		failed = failed && e.Now.Sub(failure.At) < recent
		object := upstreamObject(u.Name)
		if !seen {
			if failed {
				e.find(idServerCrashed, object, e.command("servers", u.Name)+" starts it and shows its log", "it failed %s ago: %s", ago(e.Now, failure.At), strings.TrimPrefix(failure.Error, object+": "))
			}
			continue
		}
		st := o.Status
		switch {
		case st.State == health.Asleep:
			tools := "what its tools cost is not known yet"
			if len(o.Tools) > 0 {
				tools = "its tools are those that it listed last"
			}
			e.find(idServerAsleep, object, e.command("servers", u.Name)+" starts it", "it starts on first use, and was not started now; %s", tools)
		case st.State == servers.Starting:
			e.find(idServerDown, object, "wait longer: "+e.command("doctor", "--wait", "2m")+"; a first start may have to download packages", "it is still starting")
		case e.explained[u.Name]: // the reason is reported
		case st.State != servers.Ready:
			remedy := "correct what the error names; "
			if u.Transport != config.Stdio {
				remedy = "do what the error says, or look whether the server runs at its url; "
			}
			e.find(idServerDown, object, remedy+e.command("servers", u.Name, "--log-level", "debug")+" shows its log", "%s", strings.TrimPrefix(st.Err, object+": "))
		default:
			e.speed(object, o)
			if failed {
				e.find(idServerCrashed, object, "if that happens again, look at its log: "+e.command("servers", u.Name, "--log-level", "debug"),
					"it works now, but failed %s ago: %s", ago(e.Now, failure.At), strings.TrimPrefix(failure.Error, object+": "))
			}
		}
		e.report.Servers = append(e.report.Servers, describe(u, o))
	}
}

// speed looks at the times of a working server, and at its revision.
func (e *examination) speed(object string, o Observation) {
	start, list := o.Status.StartTime, o.List
	if start > slowStart || list > slowList {
		e.find(idServerSlow, object, "install its package, so that it is not downloaded at each start; or raise startup_wait",
			"it needs %s to start, and %s to list its tools", round(start), round(list))
	}
	if protocol.IsOldest(o.Status.ProtocolVersion) {
		e.find(idProtocolOld, object, "update the server", "it speaks revision %s of the protocol, the oldest", o.Status.ProtocolVersion)
	}
}

// describe returns the row of a server.
func describe(u *config.Upstream, o Observation) Server {
	st := o.Status
	s := Server{
		Name: u.Name, Sandbox: u.Sandbox.Summary(), State: string(st.State), Server: st.ServerName, Protocol: st.ProtocolVersion, Tools: len(o.Tools),
		Start: milliseconds(st.StartTime), List: milliseconds(o.List),
	}
	if st.ServerVersion != "" {
		s.Server += " " + st.ServerVersion
	}
	if r, ok := protocol.Lookup(st.ProtocolVersion); ok {
		s.Era = map[protocol.Era]string{protocol.Handshake: "handshake", protocol.Stateless: "stateless"}[r.Era()]
	}
	s.Tokens = tokensOf(o.Tools)
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func round(d time.Duration) string         { return fmt.Sprint(d.Round(time.Millisecond)) }

// ago returns how long ago something was, in days if these are many.
func ago(now, then time.Time) string {
	if d := now.Sub(then); d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return units.FormatDuration(now.Sub(then).Round(time.Second))
}
