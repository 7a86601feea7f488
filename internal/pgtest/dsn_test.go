package pgtest

import "testing"

func TestWithSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, dsn string
		settings  []setting
		want      string
	}{
		{
			"DatabaseGoesIntoThePath", "postgres://u:p@h:1/postgres?sslmode=disable",
			[]setting{{keyDatabase, "d"}}, "postgres://u:p@h:1/d?sslmode=disable",
		},
		{
			"ParameterThatWouldWinIsRemoved", "postgresql://u@h/postgres?dbname=x&host=%2Ftmp",
			[]setting{{keyDatabase, "d"}, {keyHost, "::1"}, {keyPort, "2"}}, "postgresql://u@[::1]:2/d",
		},
		{
			"PasswordIsEscaped", "postgres://u:p@h:1/d",
			[]setting{{keyUser, "v"}, {keyPassword, "a/b%c@"}}, "postgres://v:a%2Fb%25c%40@h:1/d",
		},
		{
			"OtherParameterGoesIntoTheQuery", "postgres://h/d",
			[]setting{{"application_name", "a b"}}, "postgres://h/d?application_name=a%20b",
		},
		{
			"PairsStayPairs", "host=/tmp user=u dbname=postgres",
			[]setting{{keyDatabase, "d"}, {keyPassword, `it's \`}},
			`host=/tmp user=u dbname=postgres dbname='d' password='it\'s \\'`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := withSettings(test.dsn, test.settings...); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
