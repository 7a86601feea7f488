package observe

import (
	"io"
	"log/slog"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// Format is how log records are written.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// NewHandler returns a handler that writes one line for each record at the given level or above. An unknown
// format is an [*fencerow.InputError].
func NewHandler(w io.Writer, format Format, level slog.Leveler) (slog.Handler, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case FormatText:
		return slog.NewTextHandler(w, options), nil
	case FormatJSON:
		return slog.NewJSONHandler(w, options), nil
	}
	return nil, &fencerow.InputError{Field: "log_format", Problem: "must be text or json"}
}

// ParseLevel reads debug, info, warn or error, in any case.
func ParseLevel(s string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(s, level.String()) {
			return level, nil
		}
	}
	// slog's own way also takes ERROR+4, which no record has: the log would be empty.
	return 0, &fencerow.InputError{Field: "log_level", Problem: "must be debug, info, warn or error"}
}
