package main

import (
	_ "embed"
	"strings"
)

// The composite tool of the demo.
const (
	demoName        = "departures"
	demoDescription = "Which ships can leave port today, and when: those with enough hours of calm weather on their route."
	demoSchema      = `{"type":"object","properties":{"hours_at_sea":{"type":"integer","minimum":1,"default":6}},"required":["hours_at_sea"]}`
	demoArguments   = `{"hours_at_sea":6}`
	// demoCalls is how many calls demoCode makes.
	demoCalls = 5
)

//go:embed departures.star
var demoCode string

// demoBug is demoCode with a misspelt name.
func demoBug() string { return strings.Replace(demoCode, "ship.max_wind", "ship.max_winds", 1) }
