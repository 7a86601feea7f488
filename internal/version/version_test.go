package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	tests := []struct {
		name    string
		stamped string
		info    *debug.BuildInfo
		want    string
	}{
		{"StampWins", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}}, "v1.2.3"},
		{"ModuleVersionIsNext", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}}, "v1.0.0"},
		{"CommitIsNext", "", &debug.BuildInfo{Settings: settings("false")}, "0123456789ab"},
		{
			"ChangedTreeIsSaid", "",
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings("true")}, "0123456789ab-dirty",
		},
		{
			"ShortRevisionIsKept", "",
			&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "01"}}}, "01",
		},
		{"NothingKnown", "", &debug.BuildInfo{}, "devel"},
		{"NoBuildInformation", "", nil, "devel"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(test.stamped, test.info); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
