package config

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/loopback"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
)

const (
	maxNATSURL = 4 << 10 // bytes
	maxPEM     = 4 << 20 // bytes: several times a bundle of all public authorities
)

// NATS says where requests for slots are heard, and asked.
//
//nolint:lll // a struct tag cannot be wrapped
type NATS struct {
	URL       string `name:"nats-url" env:"FENCEROW_NATS_URL" placeholder:"URL" group:"NATS" help:"NATS servers over which slots can be asked for: nats:// or tls://, several with commas between them."`
	CredsFile string `name:"nats-creds-file" env:"FENCEROW_NATS_CREDS_FILE" placeholder:"FILE" group:"NATS" help:"Credentials file of NATS: a JWT and its key. It is read again for each connection."`
	TokenFile string `name:"nats-token-file" env:"FENCEROW_NATS_TOKEN_FILE" placeholder:"FILE" group:"NATS" help:"File that holds the token of NATS. It is read again for each connection. For a server on another machine it needs tls://."`
	CAFile    string `name:"nats-ca-file" env:"FENCEROW_NATS_CA_FILE" placeholder:"FILE" group:"NATS" help:"PEM certificates to trust for NATS instead of the system's."`
	CertFile  string `name:"nats-cert-file" env:"FENCEROW_NATS_CERT_FILE" placeholder:"FILE" group:"NATS" help:"PEM client certificate for NATS."`
	KeyFile   string `name:"nats-key-file" env:"FENCEROW_NATS_KEY_FILE" placeholder:"FILE" group:"NATS" help:"PEM key of that client certificate."`
}

// Given reports whether NATS is to be used.
func (n *NATS) Given() bool { return n.URL != "" }

// Validate refuses addresses that are none, files that cannot be used, and those of no server.
func (n *NATS) Validate() error {
	if n.Given() {
		_, err := n.Config()
		return err
	}
	for _, file := range []struct{ setting, path string }{
		{"nats_creds_file", n.CredsFile}, {"nats_token_file", n.TokenFile}, {"nats_ca_file", n.CAFile},
		{"nats_cert_file", n.CertFile}, {"nats_key_file", n.KeyFile},
	} {
		if file.path != "" {
			return inputError(file.setting, "is given, and no server is: NATS is used with --nats-url "+
				"("+variablePrefix+"NATS_URL) only")
		}
	}
	return nil
}

// Config returns how NATS is reached. Nothing is connected to. The error is an [*fencerow.InputError].
func (n *NATS) Config() (natsrpc.Config, error) {
	var cfg natsrpc.Config
	secure, local, err := parseNATSURL(n.URL)
	if err != nil {
		return cfg, err
	}
	switch {
	case n.CredsFile != "" && n.TokenFile != "":
		return cfg, inputError("nats_creds_file", "and --nats-token-file must not be given together")
	case n.CertFile != "" && n.KeyFile == "":
		return cfg, inputError("nats_cert_file", "needs the key of the certificate, in --nats-key-file")
	case n.CertFile == "" && n.KeyFile != "":
		return cfg, inputError("nats_key_file", "needs the certificate of the key, in --nats-cert-file")
	case n.TokenFile != "" && !secure && !local:
		return cfg, inputError("nats_token_file", "needs tls:// for a server on another machine")
	}
	cfg.URL = n.URL
	if n.TokenFile != "" {
		cfg.Token = func() (fencerow.Secret, error) { return readSecret("nats_token_file", n.TokenFile) }
		if _, err := cfg.Token(); err != nil {
			return cfg, err
		}
	}
	if n.CredsFile != "" {
		cfg.Creds = n.readCreds
		if _, err := cfg.Creds(); err != nil {
			return cfg, err
		}
	}
	if secure || n.CAFile != "" || n.CertFile != "" {
		cfg.TLS, err = n.tls()
	}
	return cfg, err
}

// Exposed returns the settings whose files hold a secret of NATS and can be read or changed by others.
func (n *NATS) Exposed() (settings []string) {
	for _, file := range []struct{ setting, path string }{
		{"nats_creds_file", n.CredsFile}, {"nats_token_file", n.TokenFile}, {"nats_key_file", n.KeyFile},
	} {
		if secretfile.Exposed(file.path) {
			settings = append(settings, file.setting)
		}
	}
	return settings
}

func (n *NATS) readCreds() (fencerow.Secret, error) {
	b, ok := secretfile.Read(n.CredsFile, secretfile.MaxLine)
	creds := fencerow.NewSecret(string(b))
	if !ok || !natsrpc.WellFormed(creds) {
		return fencerow.Secret{}, inputError("nats_creds_file",
			"names a file that cannot be read, or does not hold a JWT and its key")
	}
	return creds, nil
}

func (n *NATS) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if n.CAFile != "" {
		pem, ok := secretfile.Read(n.CAFile, maxPEM)
		config.RootCAs = x509.NewCertPool()
		if !ok || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, inputError("nats_ca_file", "cannot be read, or holds no PEM certificate")
		}
	}
	if n.CertFile != "" {
		certPEM, hasCert := secretfile.Read(n.CertFile, maxPEM)
		if !hasCert {
			return nil, inputError("nats_cert_file", "cannot be read, or is no file of at most 4 MiB")
		}
		keyPEM, hasKey := secretfile.Read(n.KeyFile, maxPEM)
		if !hasKey {
			return nil, inputError("nats_key_file", "cannot be read, or is no file of at most 4 MiB")
		}
		cert, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, inputError("nats_cert_file", "is not a PEM certificate to which the key belongs")
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// parseNATSURL checks addresses, and reports whether TLS is required of all and whether all are on this
// machine. Values are not repeated: they may hold a secret by mistake.
func parseNATSURL(list string) (secure, local bool, err error) {
	const field = "nats_url"
	malformed := inputError(field, "is not an address such as nats://127.0.0.1:4222")
	if len(list) > maxNATSURL {
		return false, false, malformed
	}
	local = true
	for i, address := range strings.Split(list, ",") {
		u, err := url.Parse(address)
		switch {
		case err != nil:
			return false, false, malformed
		case u.User != nil || strings.Contains(address, "@"):
			return false, false, inputError(field,
				"must not hold a user, password or token; give --nats-creds-file or --nats-token-file")
		case u.Scheme != "nats" && u.Scheme != "tls", u.Hostname() == "", u.RawQuery != "" || u.ForceQuery,
			strings.Contains(address, "#"), strings.Trim(u.Path, "/") != "", strings.HasSuffix(u.Host, ":"):
			return false, false, malformed
		}
		if port := u.Port(); port != "" {
			if number, err := net.LookupPort("tcp", port); err != nil || number == 0 {
				return false, false, malformed
			}
		}
		if tls := u.Scheme == "tls"; i > 0 && tls != secure {
			return false, false, inputError(field, "must not mix nats:// and tls://")
		}
		secure = u.Scheme == "tls"
		local = local && loopback.Names(u.Hostname())
	}
	return secure, local, nil
}
