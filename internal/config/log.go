package config

import (
	"io"
	"log/slog"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// Log says how the log is written.
//
//nolint:lll // a struct tag cannot be wrapped
type Log struct {
	Format string `name:"log-format" env:"FENCEROW_LOG_FORMAT" default:"text" placeholder:"text|json" group:"Log" help:"text or json."`
	Level  string `name:"log-level" env:"FENCEROW_LOG_LEVEL" default:"info" placeholder:"LEVEL" group:"Log" help:"debug, info, warn or error."`
}

// Validate refuses an unknown format or level.
func (l *Log) Validate() error {
	_, err := l.Handler(io.Discard)
	return err
}

// Handler returns a handler that writes to w.
func (l *Log) Handler(w io.Writer) (slog.Handler, error) {
	level, err := observe.ParseLevel(l.Level)
	if err != nil {
		return nil, asFlag(err)
	}
	handler, err := observe.NewHandler(w, observe.Format(l.Format), level)
	return handler, asFlag(err)
}

// Observer returns an observer for the instance that writes to w and raises alerts as alerting says.
func (l *Log) Observer(
	w io.Writer, instance fencerow.InstanceKey, alerting observe.Alerting,
) (*observe.Observer, error) {
	handler, err := l.Handler(w)
	if err != nil {
		return nil, err
	}
	observer, err := observe.New(handler, instance, alerting)
	return observer, asFlag(err)
}
