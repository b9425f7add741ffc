package modules_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/datetime"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"go.starlark.net/starlark"
)

const datetimeSetup = `
import datetime, zoneinfo, time
from datetime import datetime as dt, date, timedelta as td, timezone as tz
from zoneinfo import ZoneInfo as Z
`

func datetimeScope() starlark.StringDict {
	env := stdlibtest.Names(datetime.Module(), datetime.ZoneInfo(), datetime.Time())
	m := datetime.Module().Members
	env["dt"], env["date"], env["td"], env["tz"] = m["datetime"], m["date"], m["timedelta"], m["timezone"]
	env["Z"] = datetime.ZoneInfo().Members["ZoneInfo"]
	return env
}

func TestDatetime(t *testing.T) {
	scripts := []string{
		"dt(2024, 2, 29, 12, 30)", "dt(2023, 2, 29)", "dt(0, 1, 1)", "dt(2024, 13, 1)", "dt(2024, 1, 1, 24)", "dt(2024, 1, 1, 1, 60)", "dt('x', 1, 1)", "dt(2024, 1)", "dt(2024, 1, 1, tzinfo=tz.utc)", "dt(2024, 1, 1, fold=1)", "dt(2024, 1, 1, 0, 0, 0, 5)",
		"str(dt(2024, 2, 29, 12, 30))", "str(dt(2024, 1, 1, 0, 0, 1, 500, tz.utc))", "dt(2024, 1, 2).isoformat()", "dt(2024, 1, 2, 3, 4, 5, 6789).isoformat(timespec='milliseconds')", "dt(2024, 1, 2).isoformat(' ', 'minutes')", "dt(2024, 1, 2).isoformat(timespec='x')", "dt(2024, 1, 2).isoformat(sep='ab')",
		"date(2024, 1, 31) + td(days=1)", "date(2024, 3, 1) - date(2024, 2, 1)", "date(1, 1, 1) - td(1)", "date(9999, 12, 31) + td(1)", "dt(2024, 1, 1) - dt(2023, 12, 31, 23, 59)", "dt(2024, 1, 1) - td(seconds=0.5)", "dt(2024, 1, 1) + 1", "td(1) + dt(2024, 1, 1)", "td(1) - dt(2024, 1, 1)", "dt(9999, 12, 31) + td(2)", "dt(2024, 1, 1) + td(999999999)",
		"dt(2024, 1, 1) < dt(2024, 1, 2)", "dt(2024, 1, 1) == date(2024, 1, 1)", "dt(2024, 1, 1) < date(2024, 1, 1)", "dt(2024, 1, 1) == dt(2024, 1, 1, tzinfo=tz.utc)", "dt(2024, 1, 1) < dt(2024, 1, 1, tzinfo=tz.utc)", "dt(2024, 1, 1) - dt(2024, 1, 1, tzinfo=tz.utc)", "dt(2024, 1, 1, 1, tzinfo=tz(td(hours=1))) == dt(2024, 1, 1, tzinfo=tz.utc)", "sorted([date(2024, 2, 1), date(2023, 5, 5)])",
		"td(days=1, hours=2, minutes=3, seconds=4.5, milliseconds=6, weeks=1)", "str(td(days=-1, seconds=5))", "str(td(2, 3, 4))", "td(hours=25).days", "td(-1).seconds", "td(seconds=1.5).total_seconds()", "td(microseconds=0.5)", "td(microseconds=1.5)", "td(days=1e20)", "td(days=1 << 40)", "td('x')", "-td(1, 2)", "td(1) * 2.5", "2 * td(1)", "td(1) / 3", "td(1) / td(hours=5)", "td(1) // td(hours=5)", "td(1) % td(hours=5)", "td(1) // 7", "td(1) / 0", "td(1) // td(0)", "td(1) / 0.0", "bool(td(0))", "td.max", "td.min", "td.resolution", "td(1) > td(hours=23)", "td(1) == 1", "td(1) < 1", "td(hours=1) + td(minutes=5)", "td.max + td(1)", "td(1) * 'a'",
		"tz(td(hours=5, minutes=30))", "str(tz(td(hours=-3)))", "tz(td(hours=24))", "tz(td(hours=1), 'CET')", "str(tz.utc)", "tz.utc.utcoffset(None)", "tz(td(seconds=90))", "str(tz(td(seconds=90)))", "tz(1)", "tz.utc == tz(td(0))",
		"dt(2024, 5, 6, 7, 8, 9, tzinfo=tz.utc).astimezone(tz(td(hours=2))).isoformat()", "dt(2024, 5, 6, 7, 8, 9).astimezone(tz.utc)", "dt(2024, 5, 6).timestamp()", "dt(2024, 5, 6, 1, 2, 3, 456789, tz.utc).timestamp()", "dt.fromtimestamp(0)", "dt.fromtimestamp(1714960923.456789)", "dt.fromtimestamp(1.5, tz.utc)", "dt.fromtimestamp(-1.5)", "dt.fromtimestamp(1e20)", "dt.fromtimestamp(1e12)", "dt.utcfromtimestamp(86400)", "dt.fromtimestamp('x')", "date.fromtimestamp(86400 * 365)", "dt.fromtimestamp(0, tz=tz(td(hours=-5)))",
		"dt(2024, 5, 6).weekday()", "date(2024, 5, 5).isoweekday()", "date(2024, 12, 30).isocalendar()", "tuple(date(2021, 1, 3).isocalendar())", "date(2024, 5, 6).toordinal()", "date.fromordinal(738000)", "date.fromordinal(0)", "dt.fromordinal(1)", "date.fromisocalendar(2020, 53, 7)", "date.fromisocalendar(2021, 53, 1)", "date.fromisocalendar(2021, 1, 8)", "date(2024, 5, 6).replace(day=31)", "date(2024, 5, 6).replace(month=2, day=30)", "dt(2024, 5, 6, 7).replace(hour=1, tzinfo=tz.utc)", "dt(2024, 5, 6, tzinfo=tz.utc).replace(tzinfo=None)", "dt(2024, 5, 6).date()", "dt(2024, 5, 6, 7, 8).time()", "dt(2024, 5, 6, 7, tzinfo=tz.utc).timetz()", "dt.combine(date(2024, 1, 2), datetime.time(3, 4))", "dt.combine(date(2024, 1, 2), datetime.time(3, 4), tz.utc)", "dt(2024, 5, 6).ctime()", "date(2024, 5, 6).ctime()", "dt(2024, 5, 6, 7, 8, 9).timetuple()", "date(2024, 5, 6).timetuple().tm_yday", "dt(2024, 5, 6, 7, tzinfo=tz(td(hours=9))).utctimetuple()",
		"dt.min", "dt.max", "date.min", "date.max", "dt(2024, 5, 6).year", "dt(2024, 5, 6).tzinfo", "dt(2024, 5, 6).utcoffset()", "dt(2024, 5, 6, tzinfo=tz.utc).tzname()", "dt(2024, 5, 6, tzinfo=tz.utc).dst()",
		"datetime.time(12, 30)", "str(datetime.time(12, 30, 1, 5))", "datetime.time(25)", "datetime.time(1) < datetime.time(2)", "datetime.time(1, tzinfo=tz.utc).isoformat()", "datetime.time.fromisoformat('04:23:01.5+01:00')", "datetime.time.fromisoformat('25:00')", "datetime.time(1, 2).replace(minute=5)", "datetime.time(14, 5).strftime('%I:%M %p')", "datetime.time(1) == datetime.time(1, tzinfo=tz.utc)", "datetime.time(1).isoformat('milliseconds')", "datetime.time(1, 2, tzinfo=tz.utc).utcoffset()",
		"dt(2024, 5, 6, 15, 4, 5, 678, tz.utc).strftime('%a %A %w %d %b %B %m %y %Y %H %I %p %M %S %f %z %Z %j %U %W %c %x %X %% %G %u %V')", "dt(2024, 5, 6).strftime('%z|%Z')", "dt(2024, 5, 6).strftime('%-d/%-m/%y %e %D %F %T %R %h %C %k %l %P %s')", "dt(999, 1, 1).strftime('%Y')", "dt(2024, 1, 1).strftime('é %Y日')", "date(2024, 5, 6).strftime('%d.%m.%Y %H:%M')", "dt(2024, 5, 6).strftime('100%')", "dt(2024, 5, 6).strftime('%Q')",
		"dt.strptime('2024-05-06', '%Y-%m-%d')", "dt.strptime('6 May 2024 3:04PM', '%d %B %Y %I:%M%p')", "dt.strptime('Mon, 06 May 2024 15:04:05 +0200', '%a, %d %b %Y %H:%M:%S %z')", "dt.strptime('2024-05-06T15:04:05.123Z', '%Y-%m-%dT%H:%M:%S.%fZ')", "dt.strptime('2024-05-06T15:04:05Z', '%Y-%m-%dT%H:%M:%S%z')", "dt.strptime('x', '%Y')", "dt.strptime('2024 x', '%Y')", "dt.strptime('2024', '%Q')", "dt.strptime('2024', '%')", "dt.strptime('30/02/2024', '%d/%m/%Y')", "dt.strptime('127', '%j')", "dt.strptime('2024 127', '%Y %j')", "dt.strptime('24 50', '%y %M')", "dt.strptime('2024 18 1', '%Y %W %w')", "dt.strptime('2024 18 0', '%Y %U %w')", "dt.strptime('2024-W19-1', '%G-W%V-%u')", "dt.strptime('2024 19', '%G %V')", "dt.strptime('2024 19 1', '%Y %V %u')", "dt.strptime('12/31/99', '%D')", "dt.strptime('12/31/99', '%x')", "dt.strptime('29 feb', '%d %b')", "dt.strptime('  5', '%d')", "dt.strptime('1  2', '%d %m')", "dt.strptime('2024-01-01 UTC', '%Y-%m-%d %Z')", "dt.strptime('60', '%S')", "dt.strptime('12 am', '%I %p')", "dt.strptime('2024-1-1+05:30', '%Y-%m-%d%z')", "dt.strptime('20240506', '%Y%m%d')", "dt.strptime('2024-05-06', '%Y-%m-%d').date()", "dt.strptime(1, '%Y')",
		"dt.fromisoformat('2024-05-06')", "dt.fromisoformat('2024-05-06T07:08:09')", "dt.fromisoformat('2024-05-06 07:08')", "dt.fromisoformat('2024-05-06T07:08:09.123456+02:00')", "dt.fromisoformat('2024-05-06T07:08:09Z')", "dt.fromisoformat('20240506T070809')", "dt.fromisoformat('2024-W19-1')", "dt.fromisoformat('2024W191')", "dt.fromisoformat('2024-05-06T07')", "dt.fromisoformat('2024-05-06T07:08:09.1234567')", "dt.fromisoformat('2024-05-06T')", "dt.fromisoformat('2024-5-6')", "dt.fromisoformat('x')", "dt.fromisoformat('')", "dt.fromisoformat('2024-05-06T25:00')", "dt.fromisoformat('2024-13-01')", "dt.fromisoformat('2024-05-06T07:08:09-0330')", "dt.fromisoformat('2024-05-06T07:08:09,5')", "dt.fromisoformat(1)", "date.fromisoformat('2024-05-06')", "date.fromisoformat('20240506')", "date.fromisoformat('2024-05-06T00')", "date.fromisoformat('2024-W01')", "dt.fromisoformat('2024-05-06T24:00:00')", "dt.fromisoformat('2024-05-06T07:0809')",
		"Z('Europe/Berlin')", "str(Z('UTC'))", "Z('Nowhere/X')", "Z('../etc')", "dt(2024, 7, 1, 12, tzinfo=Z('Europe/Berlin'))", "dt(2024, 7, 1, 12, tzinfo=Z('Europe/Berlin')).isoformat()", "dt(2024, 1, 1, 12, tzinfo=Z('America/New_York')).tzname()", "dt(2024, 7, 1, tzinfo=Z('America/New_York')).dst()", "dt(2024, 1, 1, tzinfo=Z('America/New_York')).dst()", "dt(2024, 3, 31, 2, 30, tzinfo=Z('Europe/Berlin')).isoformat()", "dt(2024, 3, 31, 2, 30, tzinfo=Z('Europe/Berlin'), fold=1).isoformat()", "dt(2024, 10, 27, 2, 30, tzinfo=Z('Europe/Berlin')).isoformat()", "dt(2024, 10, 27, 2, 30, tzinfo=Z('Europe/Berlin'), fold=1).isoformat()", "dt(2024, 10, 27, 0, 30, tzinfo=tz.utc).astimezone(Z('Europe/Berlin'))", "dt(2024, 10, 27, 1, 30, tzinfo=tz.utc).astimezone(Z('Europe/Berlin'))", "dt(2024, 10, 27, 2, 30, tzinfo=Z('Europe/Berlin'), fold=1).timestamp()", "dt(2024, 3, 30, 12, tzinfo=Z('Europe/Berlin')) + td(days=1)", "dt(2024, 3, 31, 12, tzinfo=Z('Europe/Berlin')) - dt(2024, 3, 30, 12, tzinfo=Z('Europe/Berlin'))", "dt(2024, 3, 31, 12, tzinfo=Z('Europe/Berlin')) - dt(2024, 3, 30, 12, tzinfo=tz.utc)", "Z('Asia/Kolkata').utcoffset(dt(2024, 1, 1))", "dt(2024, 1, 1, tzinfo=Z('Asia/Tokyo')).strftime('%z %Z')", "dt(2024, 7, 1, tzinfo=Z('Europe/London')).timetuple().tm_isdst", "dt.fromtimestamp(1720000000, Z('Australia/Sydney')).isoformat()",
		"time.gmtime(0)", "time.gmtime(1714960923).tm_hour", "time.strftime('%Y-%m-%d', time.gmtime(86400))", "time.strptime('2024-05-06', '%Y-%m-%d')", "time.mktime(time.gmtime(1714960923))", "time.ctime(0)", "time.asctime(time.gmtime(0))", "time.sleep(-1)", "time.sleep(0)", "time.sleep('x')", "time.strftime('%Y', (2024, 1, 2, 3, 4, 5, 0, 2, 0))", "time.strftime('%Y', (2024, 1))", "time.localtime(5)[5]",
	}
	g := rand.New(rand.NewPCG(7, 8))
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia", "Asia/Kathmandu"}
	for range rounds(3000) {
		micros := g.Int64N(2_500_000_000_000_000)
		zone := zones[g.IntN(len(zones))]
		n := strconv.FormatFloat(float64(micros)/1e6, 'f', 6, 64)
		scripts = append(scripts, fmt.Sprintf("dt.fromtimestamp(%s, Z(%q)).isoformat()", n, zone))
		m := time.UnixMicro(micros).UTC()
		scripts = append(scripts,
			fmt.Sprintf("dt(%d, %d, %d, %d, %d, tzinfo=Z(%q), fold=%d).isoformat()", m.Year(), m.Month(), m.Day(), m.Hour(), m.Minute(), zone, g.IntN(2)),
			fmt.Sprintf("dt(%d, %d, %d, %d).strftime('%%U %%W %%V %%G %%j %%I%%p')", 1+g.IntN(9999), m.Month(), m.Day()%28+1, m.Hour()),
			fmt.Sprintf("dt.strptime(dt(%d, %d, %d, %d, %d).strftime('%%c'), '%%c')", 1000+g.IntN(8999), m.Month(), m.Day(), m.Hour(), m.Minute()))
		scripts = append(scripts, fmt.Sprintf("td(days=%v, seconds=%v) %s %v", g.NormFloat64()*100, g.NormFloat64()*1e5, []string{"*", "/"}[g.IntN(2)], g.NormFloat64()*3))
	}
	stdlibtest.Same(t, datetimeScope(), datetimeSetup, 0, scripts)
}

func TestDatetimeTimeOfTheRun(t *testing.T) {
	stdlibtest.Check(t, datetimeScope(), []stdlibtest.Case{
		{Script: "dt.now()", Want: "datetime.datetime(2026, 3, 4, 5, 6, 7, 891011)"},
		{Script: "dt.now() == dt.now()", Want: "True"},
		{Script: "dt.now(tz.utc).isoformat()", Want: "'2026-03-04T05:06:07.891011+00:00'"},
		{Script: "dt.now(Z('Asia/Tokyo')).hour", Want: "14"},
		{Script: "date.today()", Want: "datetime.date(2026, 3, 4)"},
		{Script: "time.time()", Want: "1772600767.891011"},
		{Script: "time.time_ns()", Want: "1772600767891011000"},
		{Script: "time.perf_counter() - time.monotonic()", Want: "0.0"},
		{Script: "dt.now('x')", Want: "!TypeError"},
		{Script: "time.strftime('%H:%M %Z')", Want: "'05:06 UTC'"},
		{Script: "date.today().strftime('x' * 40000)", Want: "!ValueError"},
		{Script: "dt.strptime('1', '%d' * 3000)", Want: "!ValueError"},
	})
}

func TestDatetimeTextOfValues(t *testing.T) {
	for _, code := range []string{"date(2024, 5, 6)", "dt(2024, 5, 6)", "datetime.time(3)"} {
		v, err := stdlibtest.Run(datetimeScope(), code)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.(stdlib.Formatter).Format("%H:%M"); err != nil || got != "00:00" && got != "03:00" {
			t.Errorf("%v: %q, %v", v, got, err)
		}
	}
}
