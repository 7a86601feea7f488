package loopback

import "testing"

func TestOnlyThisMachineIsNamed(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"::ffff:127.0.0.1": true, "::1%lo": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example": false, "example": false,
		"127.0.0.1.example": false, "127.1": false, "0177.0.0.1": false, "2130706433": false, "[::1]": false,
	} {
		if got := Names(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}
