package modules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/statistics"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestStatistics(t *testing.T) {
	scripts := []string{
		"statistics.mean([1, 2, 3, 4])",
		"statistics.mean([1, 2])",
		"statistics.mean([0.1] * 3)",
		"statistics.mean([])",
		"statistics.mean(['a'])",
		"statistics.mean([True, False])",
		"statistics.mean([1e308, 1e308])",
		"statistics.mean([float('inf'), 1])",
		"statistics.fmean([1, 2, 4])",
		"statistics.fmean([1, 2], weights=[3, 1])",
		"statistics.fmean([])",
		"statistics.fmean([1], [0])",
		"statistics.fmean([1], [1, 2])",
		"statistics.geometric_mean([1, 2, 4])",
		"statistics.geometric_mean([0, 1])",
		"statistics.harmonic_mean([40, 60])",
		"statistics.harmonic_mean([1, 0])",
		"statistics.harmonic_mean([-1])",
		"statistics.harmonic_mean([2, 4], weights=[1, 3])",
		"statistics.median([3, 1, 2])",
		"statistics.median([4, 1, 2, 3])",
		"statistics.median_low([1, 2, 3, 4])",
		"statistics.median_high([1, 2, 3, 4])",
		"statistics.median([])",
		"statistics.median(['a', 'b'])",
		"statistics.median_low(['a', 'b'])",
		"statistics.mode([1, 2, 2, 3])",
		"statistics.mode(['a', 'b'])",
		"statistics.mode([])",
		"statistics.multimode([1, 1, 2, 2, 3])",
		"statistics.multimode([])",
		"statistics.variance([1, 2, 3, 4])",
		"statistics.variance([1])",
		"statistics.pvariance([1, 2, 3, 4])",
		"statistics.pvariance([1.5, 2.5])",
		"statistics.variance([1, 2, 3], 2)",
		"statistics.stdev([1, 2, 3, 4])",
		"statistics.pstdev([1, 2, 3, 4])",
		"statistics.pstdev([5])",
		"statistics.stdev([1.5, 2.5, 4.0])",
		"statistics.pvariance([])",
		"statistics.variance([2, 2, 2])",
		"statistics.pvariance([1, 3])",
		"statistics.quantiles([1, 2, 3, 4, 5])",
		"statistics.quantiles([1, 2, 3, 4, 5], n=10)",
		"statistics.quantiles([1, 2, 3], method='inclusive')",
		"statistics.quantiles([1])",
		"statistics.quantiles([1, 2], n=0)",
		"statistics.quantiles([1, 2], method='x')",
		"statistics.covariance([1, 2, 3], [1, 5, 7])",
		"statistics.correlation([1, 2, 3], [1, 5, 7])",
		"statistics.correlation([1, 1], [1, 2])",
		"statistics.linear_regression([1, 2, 3], [2, 4, 7])",
		"statistics.linear_regression([1, 2, 3], [2, 4, 7], proportional=True)",
		"statistics.linear_regression([1, 1], [1, 2])",
		"statistics.covariance([1], [1])",
		"statistics.covariance([1, 2], [1])",
		"statistics.mean(range(10))",
		"statistics.mean([1 << 70, 1])",
	}
	g := rand.New(rand.NewPCG(1, 1))
	for range rounds(250) {
		var list string
		for range 2 + g.IntN(8) {
			if g.IntN(2) == 0 {
				list += fmt.Sprintf("%d, ", g.IntN(100)-50)
			} else {
				list += fmt.Sprintf("%v, ", g.NormFloat64()*100)
			}
		}
		name := []string{"mean", "variance", "pvariance", "stdev", "pstdev", "median", "quantiles", "fmean"}[g.IntN(8)]
		scripts = append(scripts, fmt.Sprintf("statistics.%s([%s])", name, list))
	}
	stdlibtest.Same(t, stdlibtest.Names(statistics.Module()), "import statistics", 1e-12, scripts)
}

func TestStatisticsHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(statistics.Module()), []stdlibtest.Case{
		{Script: "statistics.mean(range(1 << 40))", Want: "!memory"},
		{Script: "statistics.quantiles([1, 2], n=1 << 60)", Want: "!memory"},
	})
}
