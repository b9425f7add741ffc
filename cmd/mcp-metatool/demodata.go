package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// demoServers are the upstream servers of the demo. Their answers are always the
// same.
var demoServers = map[string]demoServer{"harbour": harbour, "weather": weather}

type ship struct {
	Name    string `json:"name"`
	Berth   int    `json:"berth"`
	Route   string `json:"route"`    // the sea area it sails to
	ReadyAt int    `json:"ready_at"` // hour of the day
	MaxWind int    `json:"max_wind"` // knots; the strongest wind in which it may sail
}

var ships = []ship{
	{"Aurora", 1, "Dogger", 6, 34},
	{"Brise", 2, "Fisher", 5, 18},
	{"Cormorant", 4, "Humber", 8, 27},
	{"Dorothea", 5, "German Bight", 7, 9},
}

var harbour = demoServer{{
	definition: `{"name":"list_ships","title":"List ships","description":"The ships in port: berth, route, the hour they are ready at, and the wind in knots they may sail in.","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}`,
	call: func(context.Context, []byte, func(int, int, string)) (any, error) {
		return map[string]any{"ships": ships}, nil
	},
}}

// areas maps sea areas to the phase of their wind.
var areas = map[string]float64{"Dogger": 0.0, "Fisher": 2.1, "German Bight": 3.7, "Humber": 4.9}

type hour struct {
	Hour      int     `json:"hour"`
	Time      string  `json:"time"`
	Wind      int     `json:"wind"` // knots
	Gusts     int     `json:"gusts"`
	Direction int     `json:"direction"` // degrees
	Waves     float64 `json:"waves"`     // metres
}

// A forecast takes forecastSteps steps of forecastStep, so that there is progress to
// show.
const (
	forecastSteps = 8
	forecastStep  = 40 * time.Millisecond
)

var weather = demoServer{{
	definition: `{"name":"forecast","title":"Forecast","description":"The wind in a sea area, hour by hour of today. It takes a moment and reports progress.","inputSchema":{"type":"object","properties":{"area":{"type":"string","description":"Dogger, Fisher, German Bight or Humber"}},"required":["area"]},"annotations":{"readOnlyHint":true}}`,
	call:       forecast,
}}

func forecast(ctx context.Context, args []byte, progress func(int, int, string)) (any, error) {
	area, _ := wire.GetString(args, "area")
	phase, ok := areas[area]
	if !ok {
		return nil, fmt.Errorf("no sea area %q (there are Dogger, Fisher, German Bight, Humber)", area)
	}
	var hours []hour
	const perStep = 24 / forecastSteps
	for step := range forecastSteps {
		select {
		case <-time.After(forecastStep):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for h := range perStep {
			hours = append(hours, windAt(step*perStep+h, phase))
		}
		progress(step+1, forecastSteps, fmt.Sprintf("%s until %d:00", area, (step+1)*perStep))
	}
	return map[string]any{"area": area, "hours": slices.Clip(hours)}, nil
}

// windAt returns the wind at an hour of a day; it rises and falls.
func windAt(h int, phase float64) hour {
	wind := 22 + 11*math.Sin(phase+float64(h)/4)
	return hour{
		Hour: h, Time: fmt.Sprintf("%02d:00", h),
		Wind: int(wind), Gusts: int(wind * 1.4), Direction: (240 + 5*h) % 360,
		Waves: math.Round(wind) / 10,
	}
}
