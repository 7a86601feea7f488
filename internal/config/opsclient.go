package config

import (
	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
)

// OpsClient says where a running daemon can be asked.
//
//nolint:lll // a struct tag cannot be wrapped
type OpsClient struct {
	OpsURL       string `name:"ops-url" env:"FENCEROW_OPS_URL" placeholder:"URL" group:"Daemon" help:"Address of the running daemon's ops listener, such as http://127.0.0.1:8311: the daemon is asked to do it."`
	OpsTokenFile string `name:"ops-token-file" env:"FENCEROW_OPS_TOKEN_FILE" placeholder:"FILE" group:"Daemon" help:"File that holds the bearer token that the ops listener requires."`
}

// Given reports whether a daemon is to be asked.
func (o *OpsClient) Given() bool { return o.OpsURL != "" }

// Open returns a client. Nothing is sent. The error is an [*fencerow.InputError].
func (o *OpsClient) Open() (*daemon.Client, error) {
	var token fencerow.Secret
	if o.OpsTokenFile != "" {
		var err error
		if token, err = readSecret("ops_token_file", o.OpsTokenFile); err != nil {
			return nil, err
		}
	}
	client, err := daemon.NewClient(o.OpsURL, token)
	return client, asFlag(err)
}
