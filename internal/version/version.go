// Package version knows which build this is.
package version

import (
	"runtime/debug"
	"sync"
)

// Version is stamped by the linker: -ldflags "-X
// github.com/fourblocks2020/fencerow/internal/version.Version=v1.2.3". Read it through [String], since a
// build by plain `go build` or `go install` leaves it empty.
var Version string

const (
	unknown = "devel"
	// shortRevision is as many hex digits of a commit as git shows.
	shortRevision = 12
)

// String returns the stamped version, else the module's, else the commit's, else "devel". It is never empty,
// and fit for a User-Agent header: no space.
var String = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return describe(Version, info)
})

func describe(stamped string, info *debug.BuildInfo) string {
	if stamped != "" {
		return stamped
	}
	if info == nil {
		return unknown
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), shortRevision)]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return unknown
	}
	return revision + dirty
}
