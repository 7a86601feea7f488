package config

import (
	"strings"
	"testing"
)

func TestWhatParsingFindsInADSNIsSaidInAWordForItsKind(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	noCertificate := file(t, "no certificate")
	for dsn, says := range map[string]string{
		"mysql://u:" + sentinel + "@h/db?sslmode=disable":                        noScheme,
		"http://" + sentinel + "/db":                                             noScheme,
		"postgres://u@h:port" + sentinel + "/db":                                 "has a port",
		"postgres://u@h:0/db":                                                    "has a port",
		"host=h port=70000":                                                      "has a port",
		"host=h,g port=1,2,3":                                                    "number of ports",
		"postgres://h/db?sslmode=" + sentinel:                                    "has an sslmode",
		"host=h sslmode=" + sentinel:                                             "has an sslmode",
		"postgres://h/db?sslmode=verify-full&sslrootcert=/" + sentinel:           noFile,
		"postgres://h/db?sslmode=require&sslcert=/" + sentinel + "&sslkey=/nope": noFile,
		"postgres://h/db?sslmode=verify-ca&sslrootcert=" + noCertificate:         "settings of TLS",
		"postgres://h/db?connect_timeout=" + sentinel:                            "connect_timeout",
		"postgres://h/db?target_session_attrs=" + sentinel:                       "target_session_attrs",
		"postgres://h/db?default_query_exec_mode=" + sentinel:                    "default_query_exec_mode",
		"postgres://h/db?statement_cache_capacity=" + sentinel:                   "cache capacity",
		"postgres://h/db?pool_max_conns=" + sentinel:                             "pool_",
		"postgres://h/db?service=" + sentinel:                                    "service",
		"postgres://h/db?sslmod=" + sentinel:                                     noName,
		"postgres://h/db?pool_" + sentinel + "=1":                                noName,
		"host=h target_session_attr=read-write":                                  noName,
		"host=h keepalives=1":                                                    noName,
	} {
		line, err := parse(t, map[string]string{"FENCEROW_DSN": dsn}, "--instance-key=a")
		check(t, err)
		_, err = line.Database.DSN()
		text, usage := UsageText(err)
		if !usage || !strings.HasPrefix(text, "FENCEROW_DSN") || !strings.Contains(text, says) {
			t.Errorf("%s: %v", dsn, err)
		}
		if strings.Contains(text, sentinel) {
			t.Errorf("%s is shown: %s", dsn, text)
		}
	}
}

func TestWhatOnlyAServerCanJudgeIsLeftToIt(t *testing.T) {
	for _, dsn := range []string{
		"postgres://h/db?foo=bar", "postgres://h/db?statement_timeout=zzz",
		"host=h search_path=x scram_iterations=1",
		"postgres://h/db?pool_max_conns=3&default_query_exec_mode=exec&sslmode=disable&connect_timeout=3",
		"postgresql://h:1,g:2/db?target_session_attrs=read-write&tcp_keepalives_idle=9", "host=h password='a://b'",
	} {
		line, err := parse(t, map[string]string{"FENCEROW_DSN": dsn}, "--instance-key=a")
		check(t, err)
		if _, err := line.Database.DSN(); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
