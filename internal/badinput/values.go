package badinput

import (
	"path/filepath"
	"strings"
)

// Secret is a part of each value that has room for it: it must not come out again.
const Secret = "s3cr3t"

// value is a text that is given to a setting.
type value struct {
	name string // what is wrong with it, for most settings
	text string
}

// valuesFor returns what each setting is tried with. directory exists and is empty.
func valuesFor(directory string) []value {
	gone := filepath.Join(directory, Secret)
	return []value{
		{"empty", ""},
		{"blanks", "   "},
		{"white space", " \t\r\n "},

		{"zero", "0"},
		{"minus zero", "-0"},
		{"one", "1"},
		{"with a plus", "+5"},
		{"with blanks", " 5 "},
		{"leading zeros", "010"},
		{"hexadecimal", "0x10"},
		{"with an underscore", "1_0"},
		{"with a comma", "1,000"},
		{"fraction", "1.5"},
		{"negative", "-1"},
		{"negative fraction", "-0.5"},
		{"beyond 32 bits", "2147483648"},
		{"beyond 64 bits", "99999999999999999999999999999999"},
		{"below 64 bits", "-9223372036854775809"},
		{"beyond float", "1e400"},
		{"below float", "1e-400"},
		{"more digits than any number", strings.Repeat("9", 4000)},
		{"not a number", "NaN"},
		{"infinite", "Inf"},
		{"minus infinite", "-Infinity"},
		{"full-width digits", "\uff11\uff12"},
		{"Arabic digits", "\u0663\u0660"},
		{"roman", "X"},

		{"duration", "90s"},
		{"duration of zero", "0s"},
		{"duration of a nanosecond", "1ns"},
		{"duration without a unit", "30"},
		{"negative duration", "-90s"},
		{"duration of a century", "876000h"},
		{"duration beyond 64 bits", "99999999999h"},
		{"duration in days", "90d"},
		{"duration in too many days", "65536d"},
		{"duration of a fraction of a day", "1.5d"},

		{"true", "true"},
		{"yes in capitals", "YES"},
		{"no word of any kind", "maybe-" + Secret},
		{"null", "null"},
		{"object", "{}"},
		{"array", "[]"},
		{"cut object", `{"` + Secret + `":`},
		{"object with invalid UTF-8", "{\"" + Secret + "\":\"\xff\"}"},
		{"level with an offset", "ERROR+4"},
		{"list", "404,405"},
		{"list of nothing", ","},

		{"NUL", "a\x00" + Secret},
		{"invalid UTF-8", "a\xff" + Secret},
		{"surrogate", "a\xed\xa0\x80" + Secret},
		{"combining", "cafe\u0301-" + Secret},
		{"other letters", "\uc6d0\uc7a5-" + Secret},
		{"right to left", "a\u202e" + Secret},
		{"no width", "a\u200b" + Secret},
		{"byte order mark", "\ufeff" + Secret},
		{"emoji", "\U0001f642-" + Secret},
		{"colours", "\x1b[31m" + Secret + "\x1b[0m"},
		{"title of the terminal", "\x1b]0;" + Secret + "\a"},
		{"C1 control", "\u009b31m" + Secret},
		{"backspaces", Secret + "\b\b\b\x7f"},
		{"second line", Secret + "\nfencerow: done"},
		{"second record", Secret + "\r\nlevel=ERROR msg=forged"},
		{"line separator", Secret + "\u2028done"},
		{"format verbs", "%s%n%!(" + Secret + ")%x"},
		{"quotes", `a"b but got "` + Secret + `\" (from envar X="`},
		{"shell", "$(" + Secret + ");`" + Secret + "`"},

		{"a dash", "-"},
		{"two dashes", "--"},
		{"a flag", "--" + Secret},
		{"help", "-h"},

		{"129 characters", strings.Repeat("k", 129)},
		{"201 characters", strings.Repeat("k", 201)},
		{"100 KB", Secret + strings.Repeat("x", 100_000)},
		{"100 KB of lines", Secret + strings.Repeat("\n", 100_000)},

		{"no such file", gone},
		{"no such file, in the folder", Secret},
		{"file below a file", "/dev/null/" + Secret},
		{"directory", directory},
		{"empty device", "/dev/null"},
		{"endless device", "/dev/zero"},
		{"full device", "/dev/full"},

		{"address without a scheme", "ledger.example/" + Secret},
		{"address of another scheme", "ftp://ledger.example/" + Secret},
		{"address without a host", "https://"},
		{"address with a password", "https://u:" + Secret + "@ledger.example/"},
		{"address over plain HTTP", "http://ledger.example/" + Secret},
		{"address that cannot be read", "https://%zz" + Secret + "/"},
		{"NATS with a password", "nats://u:" + Secret + "@127.0.0.1"},
		{"database without a percent sign", "postgres://u:%zz" + Secret + "@h/db"},
		{"every interface", "0.0.0.0:0"},
		{"no host", ":80"},
		{"empty port", "127.0.0.2:"},
		{"address with an empty port", "http://127.0.0.2:"},
		{"address with port 0", "http://127.0.0.2:0"},
		{"address with a port too large", "http://127.0.0.2:65536"},
		{"port too large", "127.0.0.1:65536"},
		{"negative port", "127.0.0.1:-1"},
		{"port of full-width digits", "127.0.0.1:\uff18\uff10"},
		{"address of a path", "127.0.0.1:80/" + Secret},
	}
}
