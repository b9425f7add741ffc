package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Server is an upstream at the end of a file's checks.
type Server struct {
	Name string // in the configuration
	// Product, Version and Protocol are from the server's handshake; "" without a handshake.
	Product, Version, Protocol string
	// Err is why the server's tools are not known; "" if they are.
	Err string
	// Tools are the tools visible to agents, in list order.
	Tools []Tool
}

// Tool is a tool of a server.
type Tool struct {
	Name   string // the server's own name
	Called bool   // by a check or its script
}

// Coverage counts the listed tools of servers that checks have called. A nil *Coverage counts
// nothing.
type Coverage struct {
	// Min is the least percentage of tools that must be called; 0 for none.
	Min float64
	// Servers are the servers of all files, in order. Servers of the same name are merged: a tool
	// is called if a check of any file has called the tool.
	Servers []Server
}

// add adds the servers of a file.
func (c *Coverage) add(servers []Server) {
	if c == nil {
		return
	}
	for _, s := range servers {
		i := slices.IndexFunc(c.Servers, func(have Server) bool { return have.Name == s.Name })
		if i < 0 {
			s.Tools = slices.Clone(s.Tools)
			c.Servers = append(c.Servers, s)
			continue
		}
		c.Servers[i].merge(s)
	}
}

// merge adds another file's knowledge of the server.
func (s *Server) merge(other Server) {
	if s.Err != "" || other.Err == "" {
		s.Product, s.Version, s.Protocol, s.Err = other.Product, other.Version, other.Protocol, other.Err
	}
	for _, t := range other.Tools {
		i := slices.IndexFunc(s.Tools, func(have Tool) bool { return have.Name == t.Name })
		if i < 0 {
			s.Tools = append(s.Tools, t)
		} else {
			s.Tools[i].Called = s.Tools[i].Called || t.Called
		}
	}
}

// Called returns how many of the tools were called.
func (s *Server) Called() int { return len(s.Tools) - len(s.Uncalled()) }

// Uncalled returns the names of the tools that were not called, in list order.
func (s *Server) Uncalled() []string {
	names := []string{}
	for _, t := range s.Tools {
		if !t.Called {
			names = append(names, t.Name)
		}
	}
	return names
}

// Count returns the number of tools, and how many of them were called.
func (c *Coverage) Count() (called, tools int) {
	for i := range c.Servers {
		called, tools = called+c.Servers[i].Called(), tools+len(c.Servers[i].Tools)
	}
	return called, tools
}

// Percent returns the percentage of called tools: 100 without any tools.
func (c *Coverage) Percent() float64 {
	called, tools := c.Count()
	if tools == 0 {
		return 100
	}
	return 100 * float64(called) / float64(tools)
}

// missed reports whether too few tools were called. A server with unknown tools could have any
// number of tools, so no percentage can be reached then.
func (c *Coverage) missed() bool {
	if c == nil || c.Min <= 0 {
		return false
	}
	unknown := func(s Server) bool { return s.Err != "" }
	return c.Percent() < c.Min || slices.ContainsFunc(c.Servers, unknown)
}

// String returns a line such as
//
//	coverage of tools: 3 of 4 (75%), and 80% is required
func (c *Coverage) String() string {
	called, tools := c.Count()
	line := fmt.Sprintf("coverage of tools: %d of %d (%s)", called, tools, percent(c.Percent()))
	if c.missed() {
		line += ", and " + percent(c.Min) + " is required"
	}
	return line
}

// lines describes the coverage of the server's tools.
func (s *Server) lines() []string {
	head := "  " + display.EscapeLine(s.Name) + ": " + s.state()
	left := s.Uncalled()
	if len(left) == 0 {
		return []string{head}
	}
	return append([]string{head + "; not called:"}, indented(left)...)
}

// state describes the tools of a server, such as "3 of 4 tools (75%)".
func (s *Server) state() string {
	if s.Err != "" {
		return "its tools are not known: " + display.EscapeLine(firstLine(s.Err))
	}
	one := Coverage{Servers: []Server{*s}}
	return fmt.Sprintf("%d of %s (%s)", s.Called(), count(len(s.Tools), "tool"), percent(one.Percent()))
}

// percent formats a percentage, never rounded up.
func percent(p float64) string {
	return strconv.FormatFloat(math.Floor(p*10)/10, 'f', -1, 64) + "%"
}
