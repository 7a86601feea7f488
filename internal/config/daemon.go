package config

import (
	"math"
	"net"
	"time"

	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/loopback"
)

const (
	minInterval, maxInterval = 0.01, 3600.0 // seconds
	// OpsOff as Daemon.OpsListen serves nothing.
	OpsOff = "off"
)

// Daemon says how the daemon polls and where it can be asked.
//
//nolint:lll // a struct tag cannot be wrapped
type Daemon struct {
	IntervalSec  float64 `name:"ledger-interval-sec" env:"FENCEROW_LEDGER_INTERVAL_SEC" default:"1.0" group:"Daemon" help:"Seconds from one poll to the next, 0.01 to 3600. The cadence is fixed: an idle daemon polls as often."`
	OpsListen    string  `name:"ops-listen" env:"FENCEROW_OPS_LISTEN" default:"127.0.0.1:0" placeholder:"HOST:PORT" group:"Daemon" help:"Where /healthz, /readyz and /v1/ are served. The default is a free port of 127.0.0.1; port 0 is any free one, and the log says which. Other than on loopback it needs --ops-token-file. off serves nothing."`
	OpsTokenFile string  `name:"ops-token-file" env:"FENCEROW_OPS_TOKEN_FILE" placeholder:"FILE" group:"Daemon" help:"File that holds the bearer token that the ops listener requires. It is read again for each request."`
}

// Validate refuses values out of bounds, an address that is none, and one beyond this machine without a
// token.
func (d *Daemon) Validate() error {
	if math.IsNaN(d.IntervalSec) || d.IntervalSec < minInterval || d.IntervalSec > maxInterval {
		return inputError("ledger_interval_sec", "must be from 0.01 to 3600")
	}
	if d.OpsTokenFile != "" {
		if _, err := readSecret("ops_token_file", d.OpsTokenFile); err != nil {
			return err
		}
	}
	if d.OpsListen == OpsOff {
		return nil
	}
	host, port, err := net.SplitHostPort(d.OpsListen)
	if err != nil {
		return inputError("ops_listen", "is not HOST:PORT, such as 127.0.0.1:8311, or off")
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return inputError("ops_listen", "has a port that is not a number from 0 to 65535")
	}
	if d.OpsTokenFile == "" && !loopback.Names(host) {
		return inputError("ops_listen", "is not on loopback; that needs --ops-token-file (FENCEROW_OPS_TOKEN_FILE)")
	}
	return nil
}

// Interval returns the time from one poll to the next.
func (d *Daemon) Interval() time.Duration { return time.Duration(d.IntervalSec * float64(time.Second)) }

// Config fills in what these settings say of a daemon.
func (d *Daemon) Config(cfg daemon.Config) daemon.Config {
	cfg.Interval = d.Interval()
	cfg.OpsListen, cfg.OpsTokenFile = d.OpsListen, d.OpsTokenFile
	if d.OpsListen == OpsOff {
		cfg.OpsListen = ""
	}
	return cfg
}
