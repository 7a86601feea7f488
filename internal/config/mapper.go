package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// exactly has kong take values as they are given.
func exactly() []kong.Option {
	options := []kong.Option{kong.KindMapper(reflect.String, kong.MapperFunc(readText))}
	for _, kind := range []reflect.Kind{reflect.Int, reflect.Int32, reflect.Int64} {
		options = append(options, kong.KindMapper(kind, kong.MapperFunc(readWhole)))
	}
	return append(options,
		kong.KindMapper(reflect.Float64, kong.MapperFunc(readNumber)),
		kong.TypeMapper(reflect.TypeFor[[]int](), kong.MapperFunc(readList)))
}

// readText keeps every byte. kong's own way leads through JSON, which puts another character in the place of
// what is no UTF-8: a payload would be another one, and a file another file.
func readText(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(token.String())
	return nil
}

// readWhole reads decimal digits only. kong's own way takes 010 for eight, 0x10 for sixteen and 1_0 for ten.
func readWhole(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("whole number")
	if err != nil {
		return err
	}
	n, err := parseWhole(token.String(), target.Type().Bits())
	if err == nil {
		target.SetInt(n)
	}
	return err
}

func parseWhole(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("expected a whole number of at most %d bits but got %q", bits, text)
	case err != nil:
		return 0, fmt.Errorf("expected a whole number but got %q", text)
	}
	return n, nil
}

// readList reads whole numbers with commas between them, and adds them to those of the flag's earlier uses.
// An empty text holds none. kong's own way takes a second for 100 KB.
func readList(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("list of whole numbers")
	if err != nil || token.String() == "" {
		return err
	}
	for text := range strings.SplitSeq(token.String(), ",") {
		n, err := parseWhole(text, strconv.IntSize)
		if err != nil {
			return err
		}
		target.Set(reflect.Append(target, reflect.ValueOf(int(n))))
	}
	return nil
}

// readNumber reads decimal digits, with a point and an exponent if need be. kong's own way also takes NaN,
// Inf, 1_0 and hexadecimal.
func readNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("number")
	if err != nil {
		return err
	}
	text := token.String()
	n, err := strconv.ParseFloat(text, target.Type().Bits())
	if err != nil || strings.Trim(text, "+-.0123456789eE") != "" {
		return fmt.Errorf("expected a number but got %q", text)
	}
	target.SetFloat(n)
	return nil
}
