package main

import "context"

type devCmd struct{}

func (c *devCmd) Run(ctx context.Context, a *app) error { return nil }
