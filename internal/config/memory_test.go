package config

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestGarbageIsCollectedLessOftenUnlessItsVariablesAreSet(t *testing.T) {
	const before = 123
	tests := []struct {
		name      string
		variables map[string]string
		want      int
	}{
		{"NoneIsSet", nil, gcPercent},
		{"BothAreEmpty", map[string]string{"GOGC": "", "GOMEMLIMIT": ""}, gcPercent},
		{"GOGC", map[string]string{"GOGC": "50"}, before},
		{"GOMEMLIMIT", map[string]string{"GOMEMLIMIT": "64MiB"}, before},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
				t.Setenv(name, "") // so that it is put back after the test
				check(t, os.Unsetenv(name))
			}
			for name, value := range tt.variables {
				t.Setenv(name, value)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(before))
			CollectLessOften()
			if got := debug.SetGCPercent(before); got != tt.want {
				t.Errorf("got %d percent, want %d", got, tt.want)
			}
		})
	}
}
