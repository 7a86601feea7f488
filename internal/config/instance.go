package config

import "github.com/fourblocks2020/fencerow"

// Instance says whose entries are meant.
//
//nolint:lll // a struct tag cannot be wrapped
type Instance struct {
	InstanceKey string `name:"instance-key" env:"FENCEROW_INSTANCE_KEY" placeholder:"KEY" group:"Instance" help:"Key of the instance, the owner of its entries: 1 to 128 printable ASCII characters without space. Required."`
}

// Validate refuses a missing or malformed key.
func (i *Instance) Validate() error { return asFlag(i.Key().Validate()) }

// Key returns the key.
func (i *Instance) Key() fencerow.InstanceKey { return fencerow.InstanceKey(i.InstanceKey) }
